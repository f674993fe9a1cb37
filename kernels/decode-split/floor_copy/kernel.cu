// Reads each element of the states of the batch, by their slots, and writes it where the updated state goes, 16 bytes a
// lane. Where that is the same slot, the compiler does not see that the store changes nothing.
#include "split.cuh"

constexpr unsigned LOADS = gdn::HEAD / gdn::PACK;  // of a head's state
constexpr unsigned BLOCK_LOADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (LOADS + BLOCK_LOADS - 1) / BLOCK_LOADS;

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_split_floor_copy(GDN_SPLIT_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD, sequence = head_of_batch / GDN_HV;
  const int from = read_slot[sequence], to = write_slot[sequence];
  const unsigned first = blockIdx.x % BLOCKS_A_HEAD * BLOCK_LOADS + threadIdx.x;
  if (from <= 0 || to <= 0) return;
  const auto at = [&](int place) {
    return reinterpret_cast<uint4*>(new_pool) + (static_cast<size_t>(place) * GDN_HV + head_of_batch % GDN_HV) * LOADS +
           first;
  };
  const auto is_there = [&](int i) { return LOADS % BLOCK_LOADS == 0 || first + i * WARPS * gdn::WARP < LOADS; };
  uint4 bits[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) bits[i] = at(from)[i * WARPS * gdn::WARP];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) at(to)[i * WARPS * gdn::WARP] = bits[i];
}
