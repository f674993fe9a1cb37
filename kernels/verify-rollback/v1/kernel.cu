// verify-v1 over slots: the state after each token goes to the token's slot, and the first comes from the slot of the
// token that was accepted last. A thread has read its part of that state before it writes any, and the lanes of a row
// touch no other's part, so that a sequence may write the slot that it reads.
#include <gdn/packed_step.cuh>

#include "rollback.cuh"

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_verify_rollback_v1(GDN_ROLLBACK_ARGUMENTS) {
  const gdn::OwnRow at = gdn::own_row();
  const gdn::Slots own(slots, accepted, at.sequence);
  const auto first = [&]() -> const gdn::State* {
    const int place = own.read();
    return place > 0 ? new_pool + at.in_slot(place) : nullptr;
  };
  const auto keep = [&](int t, const gdn::OwnPart& s, const gdn::Written&) {
    gdn::store_row<gdn::LANES>(new_pool + at.in_slot(own.places[t]), at.lane, s);
  };
  gdn::take_step<GDN_T>({mixed_qkv, a, b, A_log, dt_bias, scale, beta_limit, batches}, at, output, first,
                        [](int, gdn::OwnPart&) {}, keep);
}
