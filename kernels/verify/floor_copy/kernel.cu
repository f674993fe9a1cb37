// Reads each element of the states that the batch has, by their slots, once, and writes it as often as states are kept.
// A warp's loads and stores are of whole lines. Padding has zeros written, as the op has it.
#include "verify.cuh"

constexpr int QUADS = GDN_V * GDN_K / 4;  // of a head's state
constexpr int BLOCK_QUADS = WARPS * gdn::WARP * EACH;
static_assert(QUADS % BLOCK_QUADS == 0, "a block works on one head, and nothing is left over");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_verify_floor_copy(GDN_VERIFY_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / (QUADS / BLOCK_QUADS);
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const int place = slot[sequence];
  const unsigned first = (blockIdx.x % (QUADS / BLOCK_QUADS) * BLOCK_QUADS + threadIdx.x) * 4;
  constexpr int STEP = WARPS * gdn::WARP * 4;
  const gdn::Element* const source = pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::STATE + first;
  gdn::Element* const target =
      states + (static_cast<size_t>(sequence) * gdn::KEPT * GDN_HV + head) * gdn::STATE + first;
  gdn::Quad quads[EACH] = {};
  if (place > 0)
#pragma unroll
    for (int i = 0; i < EACH; ++i) quads[i] = gdn::load_quad(source + i * STEP);
#pragma unroll
  for (int t = 0; t < gdn::KEPT; ++t)
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      *reinterpret_cast<gdn::Quad*>(target + static_cast<size_t>(t) * GDN_HV * gdn::STATE + i * STEP) = quads[i];
}
