// One row per warp: one 16-byte state load a lane, so latency is hidden by warps and not by loads of one warp.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates, load_qkv, load_state, update, store_state, store_output);

extern "C" __global__ void __launch_bounds__(32 * WARPS) gdn_decode_v4(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
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
  const float v_row = __bfloat162float(v[value]);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  GDNBENCH_PHASE_USING(gates, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_qkv, k4, q4, v_row);
  GDNBENCH_PHASE_USING(load_state, s);

  const float4 decayed = gdn::scaled(gate.decay, s);
  const float delta = gate.write * (v_row - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  GDNBENCH_PHASE_USING(update, updated);
  *reinterpret_cast<float4*>(new_state + place) = updated;
  GDNBENCH_PHASE(store_state);
  const float sum = gdn::warp_sum(gdn::dot(updated, q4));
  if (lane == 0) output[value] = __float2bfloat16(scale * sum);
  GDNBENCH_PHASE(store_output);
}
