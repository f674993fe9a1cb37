// decode-pool-v1 with a slot to read and one to write. A thread has read its part of the state before it writes, and
// the lanes of a row touch no other's part, so that the two slots may be the same.
#include <gdn/packed_step.cuh>

#include "split.cuh"

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_split_v1(GDN_SPLIT_ARGUMENTS) {
  const gdn::OwnRow at = gdn::own_row();
  const int from = read_slot[at.sequence], to = write_slot[at.sequence];
  const auto first = [&]() -> const gdn::State* { return from > 0 ? new_pool + at.in_slot(from) : nullptr; };
  const auto keep = [&](int, const gdn::OwnPart& s, const gdn::Written&) {
    if (to > 0) gdn::store_row<gdn::LANES>(new_pool + at.in_slot(to), at.lane, s);
  };
  gdn::take_step<1>({mixed_qkv, a, b, A_log, dt_bias, scale, beta_limit, batches}, at, output, first,
                    [](int, gdn::OwnPart&) {}, keep);
}
