// decode-v4, but every element applies the decay in 256 equal steps instead of one.
#include "gdn.cuh"

constexpr int WARPS = 8;
constexpr int DECAY_STEPS = 256;

__device__ float slowly_decayed(float x, float rate) {
  // The steps' product is exp(-rate): each adds its own small part, so the rounding stays that of one fma.
  const float part = expm1f(-rate / DECAY_STEPS);
  float lost = 0.f;
#pragma unroll 16
  for (int i = 0; i < DECAY_STEPS; ++i) lost = fmaf(part, 1.f + lost, lost);
  return fmaf(lost, x, x);
}

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) arithmetic(GDN_DECODE_ARGUMENTS) {
  const int lane = threadIdx.x % gdn::WARP;
  const int row = blockIdx.x * WARPS + threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + row;
  const size_t place = static_cast<size_t>(value) * GDN_K + lane * gdn::PER_LANE;

  const float4 s = *reinterpret_cast<const float4*>(state + place);
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  const float rate = -logf(gate.decay) + 1e-30f * s.x;  // of the element, so that the steps are not shared
  const float4 decayed = make_float4(slowly_decayed(s.x, rate + 1e-30f * s.x), slowly_decayed(s.y, rate + 1e-30f * s.y),
                                     slowly_decayed(s.z, rate + 1e-30f * s.z), slowly_decayed(s.w, rate + 1e-30f * s.w));
  const float delta = gate.write * (__bfloat162float(v[value]) - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  *reinterpret_cast<float4*>(new_state + place) = updated;
  const float sum = gdn::warp_sum(gdn::dot(updated, q4));
  if (lane == 0) output[value] = __float2bfloat16(scale * sum);
}
