// Reads each element of the states that the batch begins with and writes it to all slots of its sequence, 16 bytes a
// lane.
#include "rollback.cuh"

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_verify_rollback_floor_copy(GDN_ROLLBACK_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD, head = head_of_batch % GDN_HV;
  const gdn::Slots own(slots, accepted, head_of_batch / GDN_HV);
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  if (own.read() <= 0) return;
  const auto at = [&](int place) {
    return reinterpret_cast<uint4*>(new_pool) + (static_cast<size_t>(place) * GDN_HV + head) * LOADS + first;
  };
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * WARPS * gdn::WARP < LOADS; };
  uint4 bits[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) bits[i] = at(own.read())[i * WARPS * gdn::WARP];
#pragma unroll
  for (int t = 0; t < GDN_T; ++t)
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (is_there(i)) at(own.places[t])[i * WARPS * gdn::WARP] = bits[i];
}
