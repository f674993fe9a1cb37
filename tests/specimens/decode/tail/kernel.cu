// The shared memory is asked for and not used: it keeps a second block from the SM.
#include "gdn.cuh"

constexpr int WARPS = 32;

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) tail(GDN_DECODE_ARGUMENTS) {
  const int lane = threadIdx.x % gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);

  for (int row = threadIdx.x / gdn::WARP; row < GDN_V; row += WARPS) {
    const int value = head_of_batch * GDN_V + row;
    const size_t place = static_cast<size_t>(value) * GDN_K + lane * gdn::PER_LANE;
    const float4 decayed = gdn::scaled(gate.decay, *reinterpret_cast<const float4*>(state + place));
    const float delta = gate.write * (__bfloat162float(v[value]) - gdn::warp_sum(gdn::dot(decayed, k4)));
    const float4 updated = gdn::add_scaled(decayed, delta, k4);
    *reinterpret_cast<float4*>(new_state + place) = updated;
    const float sum = gdn::warp_sum(gdn::dot(updated, q4));
    if (lane == 0) output[value] = __float2bfloat16(scale * sum);
  }
}
