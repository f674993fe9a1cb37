// Reads each element of the states that the batch has, by their slots, once, and writes it as often as states are kept,
// 16 bytes a lane, or by the bulk copy engine. Padding has zeros written, as the op has it. Where none is kept, what is read decides on a store that
// changes nothing which the floor is held to, so that the compiler keeps the loads.
#include "kda_verify.cuh"
#include <gdn/bulk_copy.cuh>

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;

extern "C" __global__ void __launch_bounds__(gdn::WARP * (BULK ? 1 : WARPS)) kda_verify_floor_copy(KDA_VERIFY_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const int place = slot[sequence];
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  const uint4* const source =
      reinterpret_cast<const uint4*>(pool) + (static_cast<size_t>(place) * GDN_H + head) * LOADS;
  uint4* const target =
      reinterpret_cast<uint4*>(states) + (static_cast<size_t>(sequence) * kda::KEPT * GDN_H + head) * LOADS;
#if BULK
  __shared__ uint4 all[BLOCK_LOADS];
  const unsigned loads = min(BLOCK_LOADS, LOADS - (first - threadIdx.x));
  if (place > 0 && threadIdx.x == 0) {
    gdn::copy_in_bulk(all, source + first, target + first, loads * sizeof(uint4), kda::KEPT, GDN_H * LOADS * sizeof(uint4));
    if (kda::KEPT == 0 && all[0].x == 0x9e3779b9u) output[static_cast<size_t>(head_of_batch) * GDN_V] = __float2bfloat16(0.f);
  }
  if (place > 0) return;
  for (int t = 0; t < kda::KEPT; ++t)
    for (unsigned i = threadIdx.x; i < loads; i += gdn::WARP)
      target[static_cast<size_t>(t) * GDN_H * LOADS + first - threadIdx.x + i] = uint4{};
#else
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * WARPS * gdn::WARP < LOADS; };
  uint4 bits[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (place > 0 && is_there(i)) bits[i] = source[first + i * WARPS * gdn::WARP];
  if (kda::KEPT == 0) {
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) all ^= bits[i].x ^ bits[i].y ^ bits[i].z ^ bits[i].w;
    if (all == 0x9e3779b9u) output[static_cast<size_t>(head_of_batch) * GDN_V] = __float2bfloat16(0.f);
  }
#pragma unroll
  for (int t = 0; t < kda::KEPT; ++t)
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (is_there(i)) target[static_cast<size_t>(t) * GDN_H * LOADS + first + i * WARPS * gdn::WARP] = bits[i];
#endif
}
