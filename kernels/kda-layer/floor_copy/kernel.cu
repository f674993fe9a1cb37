// Reads each element of the states and last inputs that the batch has, by their slots, and writes it back to where it
// was, 16 bytes a lane, or states by the bulk copy engine. The compiler does not see that the store changes nothing.
#include "kda_layer.cuh"
#include <gdn/bulk_copy.cuh>

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_THREADS = BULK ? gdn::WARP : WARPS * gdn::WARP, BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;
constexpr unsigned PIECES = kda::KEPT_INPUTS * kda::MIXED / 8;  // of 16 bytes, of a sequence's last inputs
static_assert(BULK || GDN_H * BLOCKS_A_HEAD * BLOCK_THREADS >= PIECES, "each piece has a thread");

__device__ __forceinline__ void store(uint4* to, uint4 bits) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) kda_layer_floor_copy(KDA_LAYER_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const size_t place = static_cast<unsigned>(max(slot[head_of_batch / GDN_H], 0));
  if (place == 0) return;
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  uint4* const head = reinterpret_cast<uint4*>(new_pool) + (place * GDN_H + head_of_batch % GDN_H) * LOADS;
#if BULK
  __shared__ uint4 all[BLOCK_LOADS];
  constexpr unsigned SEQUENCE_THREADS = GDN_H * BLOCKS_A_HEAD * BLOCK_THREADS;
  uint4* const sequence = reinterpret_cast<uint4*>(new_conv_pool) + place * PIECES;
  for (unsigned i = blockIdx.x * BLOCK_THREADS % SEQUENCE_THREADS + threadIdx.x; i < PIECES; i += SEQUENCE_THREADS)
    store(sequence + i, sequence[i]);
  if (threadIdx.x == 0)
    gdn::copy_in_bulk(all, head + first, head + first, min(BLOCK_LOADS, LOADS - first) * sizeof(uint4), 1, 0);
#else
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * BLOCK_THREADS < LOADS; };
  // The blocks of a sequence share its last inputs among them.
  const unsigned piece = blockIdx.x % (GDN_H * BLOCKS_A_HEAD) * BLOCK_THREADS + threadIdx.x;
  uint4* const inputs = reinterpret_cast<uint4*>(new_conv_pool) + place * PIECES + piece;
  uint4 bits[EACH], input = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) bits[i] = head[first + i * BLOCK_THREADS];
  if (piece < PIECES) input = *inputs;
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) store(head + first + i * BLOCK_THREADS, bits[i]);
  if (piece < PIECES) store(inputs, input);
#endif
}
