// A warp a head of queries, keys or values, four channels a lane. Weights, new inputs and gates are asked for while the
// slot is on its way, for only the earlier inputs wait for it. No warp reads what another one writes.
#include "prologue.cuh"

constexpr int LARGER = GDN_K > GDN_V ? GDN_K : GDN_V;
constexpr int QUADS = (LARGER + 4 * gdn::WARP - 1) / (4 * gdn::WARP);  // times four channels of a lane

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_prologue_v1(GDN_PROLOGUE_ARGUMENTS) {
  const unsigned sequence = blockIdx.y, lane = threadIdx.x % gdn::WARP;
  const unsigned head = blockIdx.x * WARPS + threadIdx.x / gdn::WARP;
  if (head >= gdn::HEADS) return;
  const bool is_value = head >= 2 * GDN_HQ;
  const unsigned value_head = head - 2 * GDN_HQ;
  const unsigned size = is_value ? GDN_V : GDN_K;
  const unsigned first = is_value ? 2 * gdn::QUERIES + value_head * GDN_V : head * GDN_K;
  const int place = slot[sequence];

  gdn::Channels channels[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const unsigned channel = first + 4 * (lane + i * gdn::WARP);
    if (channel < first + size)
      channels[i].load_new(x + static_cast<size_t>(sequence) * gdn::MIXED + channel,
                           conv_weight + static_cast<size_t>(channel) * 4);
  }
  const bool has_gates = is_value && lane == 0;
  const size_t gate = static_cast<size_t>(sequence) * GDN_HV + (is_value ? value_head : 0);
  float A = 0.f, bias = 0.f, a_head = 0.f, b_head = 0.f;
  if (has_gates) {
    A = A_log[value_head], bias = dt_bias[value_head];
    a_head = __bfloat162float(a[gate]), b_head = __bfloat162float(b[gate]);
  }
  __nv_bfloat16* const inputs =
      new_conv_pool + (static_cast<size_t>(place > 0 ? place : 0) * gdn::MIXED + first) * 3;

  float4 y[QUADS];
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    y[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (4 * quad >= size || place <= 0) continue;
    channels[i].load_before(inputs + quad * 12);
    y[i] = channels[i].convolved();
    squares += fmaf(y[i].x, y[i].x, y[i].y * y[i].y) + fmaf(y[i].z, y[i].z, y[i].w * y[i].w);
  }
  // Of values the factor is 1; the sum is taken by all lanes alike.
  const float norm = rsqrtf(gdn::group_sum<gdn::WARP>(squares) + gdn::EPS);
  const float factor = is_value ? 1.f : norm;

  __nv_bfloat16* const rows = is_value         ? v + gate * GDN_V
                              : head < GDN_HQ ? q + (static_cast<size_t>(sequence) * GDN_HQ + head) * GDN_K
                                              : k + (static_cast<size_t>(sequence) * GDN_HQ + head - GDN_HQ) * GDN_K;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    if (4 * quad >= size) continue;
    reinterpret_cast<uint2*>(rows)[quad] = make_uint2(gdn::pack(factor * y[i].x, factor * y[i].y),
                                                      gdn::pack(factor * y[i].z, factor * y[i].w));
    if (place > 0) channels[i].store_shifted(inputs + quad * 12);
  }
  if (has_gates) {
    const gdn::Gates gates = gdn::gates(A, bias, a_head, b_head);
    g[gate] = place > 0 ? gates.decay : 0.f;
    beta[gate] = place > 0 ? gates.write : 0.f;
  }
}
