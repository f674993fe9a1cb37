// Reads each element of the states and last inputs that the batch has, by their slots, and writes it once. It writes
// what is there already, but to other memory than it reads: a store of what was just loaded from its place would be
// left out.
#include "layer.cuh"

namespace {

constexpr unsigned QUADS = GDN_V * GDN_K / 4;  // float4s of a head's state
constexpr unsigned BLOCK_QUADS = WARPS * gdn::WARP * EACH;
constexpr unsigned BLOCKS_A_HEAD = (QUADS + BLOCK_QUADS - 1) / BLOCK_QUADS;
constexpr unsigned PIECES = gdn::MIXED * 3 * sizeof(__nv_bfloat16) / 16;  // of 16 bytes, of a sequence's last inputs

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_layer_floor_copy(GDN_LAYER_ARGUMENTS) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD, sequence = head_of_batch / GDN_HV;
  const int place = slot[sequence];
  if (place <= 0) return;
  const unsigned in_head = blockIdx.x % BLOCKS_A_HEAD * BLOCK_QUADS + threadIdx.x;
  const size_t first = (static_cast<size_t>(place) * GDN_HV + head_of_batch % GDN_HV) * QUADS + in_head;
  const auto is_there = [&](int i) { return QUADS % BLOCK_QUADS == 0 || in_head + i * WARPS * gdn::WARP < QUADS; };
  // The blocks of a sequence share its last inputs among them.
  const unsigned piece = blockIdx.x % (GDN_HV * BLOCKS_A_HEAD) * WARPS * gdn::WARP + threadIdx.x;
  const size_t input = static_cast<size_t>(place) * PIECES + piece;
  const bool has_input = piece < PIECES;
  static_assert(GDN_HV * BLOCKS_A_HEAD * WARPS * gdn::WARP >= PIECES, "each piece has a thread");
  float4 quads[EACH], inputs = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) quads[i] = reinterpret_cast<const float4*>(pool)[first + i * WARPS * gdn::WARP];
  if (has_input) inputs = reinterpret_cast<const float4*>(conv_pool)[input];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (is_there(i)) reinterpret_cast<float4*>(new_pool)[first + i * WARPS * gdn::WARP] = quads[i];
  if (has_input) reinterpret_cast<float4*>(new_conv_pool)[input] = inputs;
}
