// A warp a head of queries or keys, four channels a lane. Values have no norm: their warps hold as many channels as they
// have lanes for, whichever heads these are of. One more warp has the gates of 32 value heads. Weights and new inputs are
// asked for while the slot is on its way, for only the earlier inputs wait for it. A lane loads what four channels have
// of these, and stores of them, shifted, what lies side by side for the warp: they pass through shared memory. No warp
// reads what another one writes.
#include "prologue.cuh"

namespace {

constexpr int QUADS = (GDN_K + 4 * gdn::WARP - 1) / (4 * gdn::WARP);  // times four channels of a lane
constexpr unsigned SPAN = 4 * gdn::WARP * QUADS;                      // channels of a warp's lanes
constexpr unsigned VALUES = GDN_HV * GDN_V;
constexpr unsigned FIRST_GATES = 2 * GDN_HQ + (VALUES + SPAN - 1) / SPAN;  // the first of a sequence's warps with gates
constexpr unsigned WARPS_A_SEQUENCE = FIRST_GATES + (GDN_HV + gdn::WARP - 1) / gdn::WARP;

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_prologue_v1(GDN_PROLOGUE_ARGUMENTS) {
  __shared__ uint4 shifted[WARPS][gdn::pieces(SPAN)];
  const unsigned lane = threadIdx.x % gdn::WARP, warp = threadIdx.x / gdn::WARP, part = blockIdx.x * WARPS + warp;
  const size_t sequence = blockIdx.y;
  if (part >= WARPS_A_SEQUENCE) return;
  const int place = slot[sequence];
  if (part >= FIRST_GATES) {
    const unsigned head = (part - FIRST_GATES) * gdn::WARP + lane;
    if (head >= GDN_HV) return;
    const size_t gate = sequence * GDN_HV + head;
    const gdn::Gates gates =
        gdn::gates(A_log[head], dt_bias[head], __bfloat162float(a[gate]), __bfloat162float(b[gate]), beta_limit);
    g[gate] = place > 0 ? gates.decay : 0.f;
    beta[gate] = place > 0 ? gates.write : 0.f;
    return;
  }

  const bool is_value = part >= 2 * GDN_HQ;
  const unsigned first_value = (part - 2 * GDN_HQ) * SPAN;
  const unsigned first = is_value ? 2 * gdn::QUERIES + first_value : part * GDN_K;
  const unsigned size = !is_value ? GDN_K : VALUES % SPAN == 0 ? SPAN : min(SPAN, VALUES - first_value);
  const auto is_there = [&](int i) { return 4 * (lane + i * gdn::WARP) < size; };
  gdn::Channels channels[QUADS] = {};
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const size_t channel = first + 4 * (lane + i * gdn::WARP);
    if (is_there(i)) channels[i].load_new(x + sequence * gdn::MIXED + channel, conv_weight + channel * 4);
  }
  __nv_bfloat16* const row = is_value        ? v + sequence * VALUES + first_value
                             : part < GDN_HQ ? q + sequence * gdn::QUERIES + first
                                             : k + sequence * gdn::QUERIES + first - gdn::QUERIES;
  uint2* const quads = reinterpret_cast<uint2*>(row) + lane;
  if (place <= 0) {  // no sequence
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      if (is_there(i)) quads[i * gdn::WARP] = make_uint2(0, 0);
    return;
  }

  const size_t position = static_cast<unsigned>(place);  // unsigned, for a sign would be waited for before it is needed
  __nv_bfloat16* const inputs = new_conv_pool + (position * gdn::MIXED + first) * 3;
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    if (is_there(i)) channels[i].load_before(inputs + (lane + i * gdn::WARP) * 12);
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    if (is_there(i)) channels[i].store_shifted(reinterpret_cast<uint2*>(shifted[warp]) + (lane + i * gdn::WARP) * 3);
  __syncwarp();
#pragma unroll
  for (unsigned piece = lane; piece < gdn::pieces(SPAN); piece += gdn::WARP)
    if (piece < gdn::pieces(size)) reinterpret_cast<uint4*>(inputs)[piece] = shifted[warp][piece];

  float4 y[QUADS];
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    y[i] = channels[i].convolved();
    squares += fmaf(y[i].x, y[i].x, y[i].y * y[i].y) + fmaf(y[i].z, y[i].z, y[i].w * y[i].w);
  }
  // Of values the factor is 1; the sum is taken by all lanes alike.
  const float norm = rsqrtf(gdn::group_sum<gdn::WARP>(squares) + gdn::EPS);
  const float factor = is_value ? 1.f : norm;
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    if (is_there(i))
      quads[i * gdn::WARP] =
          make_uint2(gdn::pack(factor * y[i].x, factor * y[i].y), gdn::pack(factor * y[i].z, factor * y[i].w));
}
