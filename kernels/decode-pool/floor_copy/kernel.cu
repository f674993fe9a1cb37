// Reads each element of the states that the batch has, by their slots, and writes it once, 16 bytes a lane. It writes
// what is there already, but to other memory than it reads: a store of what was just loaded from its place would be
// left out.
#include "pool.cuh"

constexpr int QUADS = GDN_V * GDN_K / 4;  // float4s of a head's state
constexpr int BLOCK_QUADS = WARPS * gdn::WARP * EACH;
static_assert(QUADS % BLOCK_QUADS == 0, "a block works on one head, and nothing is left over");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_pool_floor_copy(GDN_POOL_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / (QUADS / BLOCK_QUADS);
  const int place = slot[head_of_batch / GDN_HV];
  if (place <= 0) return;
  const size_t first = (static_cast<size_t>(place) * GDN_HV + head_of_batch % GDN_HV) * QUADS +
                       blockIdx.x % (QUADS / BLOCK_QUADS) * BLOCK_QUADS + threadIdx.x;
  float4 quads[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) quads[i] = reinterpret_cast<const float4*>(pool)[first + i * WARPS * gdn::WARP];
#pragma unroll
  for (int i = 0; i < EACH; ++i) reinterpret_cast<float4*>(new_pool)[first + i * WARPS * gdn::WARP] = quads[i];
}
