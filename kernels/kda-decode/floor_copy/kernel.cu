// Reads each element of the states that the batch has, by their slots, and writes it back to where it was, 16 bytes a
// lane, or by the bulk copy engine. The compiler does not see that the store changes nothing.
#include "kda.cuh"
#include <gdn/bulk_copy.cuh>

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;

__device__ __forceinline__ void store(uint4* to, uint4 bits) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(gdn::WARP * (BULK ? 1 : WARPS)) kda_decode_floor_copy(KDA_DECODE_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const int place = slot[head_of_batch / GDN_H];
  if (place <= 0) return;
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  uint4* const head =
      reinterpret_cast<uint4*>(new_pool) + (static_cast<size_t>(place) * GDN_H + head_of_batch % GDN_H) * LOADS;
#if BULK
  __shared__ uint4 all[BLOCK_LOADS];
  if (threadIdx.x == 0)
    gdn::copy_in_bulk(all, head + first, head + first, min(BLOCK_LOADS, LOADS - first) * sizeof(uint4), 1, 0);
#else
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * WARPS * gdn::WARP < LOADS; };
  uint4 bits[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) bits[i] = head[first + i * WARPS * gdn::WARP];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) store(head + first + i * WARPS * gdn::WARP, bits[i]);
#endif
}
