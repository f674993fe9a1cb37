// verify-v1 over a tree: a lane keeps its part of the state after each token in registers, and a token begins with a
// copy of its parent's. Which one that is, is the same for all threads of a block.
#include <gdn/packed_step.cuh>

#include "tree.cuh"

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_verify_tree_v1(GDN_TREE_ARGUMENTS) {
  const gdn::OwnRow at = gdn::own_row();
  const int place = slot[at.sequence];
  int from[GDN_T];  // the token that each goes on from
#pragma unroll
  for (int t = 0; t < GDN_T; ++t) from[t] = parent[at.sequence * GDN_T + t];
  const size_t stride = GDN_HV * static_cast<size_t>(gdn::HEAD);  // from one token's states to the next
  gdn::State* const own = states + at.in_slot(at.sequence * GDN_T);
  const auto first = [&]() -> const gdn::State* {
    if (place > 0) return pool + at.in_slot(place);
    const gdn::OwnPart zeros = {};
#pragma unroll
    for (int t = 0; t < GDN_T; ++t) gdn::store_row<gdn::LANES>(own + t * stride, at.lane, zeros);
    return nullptr;
  };
  gdn::OwnPart begun, after[GDN_T];
  const auto take = [](gdn::OwnPart& to, const gdn::OwnPart& what) {
#pragma unroll
    for (int i = 0; i < gdn::QUADS; ++i) to[i] = what[i];
  };
  const auto begin = [&](int t, gdn::OwnPart& s) {
    if (t == 0) return take(begun, s);
    take(s, begun);
#pragma unroll
    for (int other = 0; other < GDN_T; ++other)
      if (other < t && from[t] == other) take(s, after[other]);
  };
  const auto keep = [&](int t, const gdn::OwnPart& s, const gdn::Written&) {
    take(after[t], s);
    gdn::store_row<gdn::LANES>(own + t * stride, at.lane, s);
  };
  gdn::take_step<GDN_T>({mixed_qkv, a, b, A_log, dt_bias, scale, beta_limit, batches}, at, output, first, begin, keep);
}
