// Reads each element of the states that the batch has, by their slots, once, and writes it for each token, 16 bytes a
// lane. Padding has zeros written, as the op has it.
#include "tree.cuh"

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_verify_tree_floor_copy(GDN_TREE_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const int place = slot[sequence];
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  const uint4* const source =
      reinterpret_cast<const uint4*>(pool) + (static_cast<size_t>(place) * GDN_HV + head) * LOADS;
  uint4* const target =
      reinterpret_cast<uint4*>(states) + (static_cast<size_t>(sequence) * GDN_T * GDN_HV + head) * LOADS;
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * WARPS * gdn::WARP < LOADS; };
  uint4 bits[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (place > 0 && is_there(i)) bits[i] = source[first + i * WARPS * gdn::WARP];
#pragma unroll
  for (int t = 0; t < GDN_T; ++t)
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (is_there(i)) target[static_cast<size_t>(t) * GDN_HV * LOADS + first + i * WARPS * gdn::WARP] = bits[i];
}
