// Lane l holds elements 4l … 4l+3 of each of BV rows: a row is one coalesced 512-byte access of the warp.
// More rows a warp means more loads in flight and fewer warps to hide what remains.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates, load_qkv, load_state, update_and_store);

extern "C" __global__ void __launch_bounds__(32) gdn_decode_v1(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first_row = blockIdx.x * BV;
  const size_t tile = (static_cast<size_t>(head_of_batch) * GDN_V + first_row) * GDN_K + lane * gdn::PER_LANE;

  float4 s[BV];
#pragma unroll
  for (int row = 0; row < BV; ++row) s[row] = __ldcs(reinterpret_cast<const float4*>(state + tile + row * GDN_K));
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  GDNBENCH_PHASE_USING(gates, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_qkv, k4, q4);
  GDNBENCH_PHASE_USING(load_state, s);

#pragma unroll
  for (int row = 0; row < BV; ++row) {
    const int value = head_of_batch * GDN_V + first_row + row;
    const float4 decayed = gdn::scaled(gate.decay, s[row]);
    const float delta = gate.write * (__bfloat162float(v[value]) - gdn::warp_sum(gdn::dot(decayed, k4)));
    const float4 updated = gdn::add_scaled(decayed, delta, k4);
    __stcs(reinterpret_cast<float4*>(new_state + tile + row * GDN_K), updated);
    const float sum = gdn::warp_sum(gdn::dot(updated, q4));
    if (lane == 0) output[value] = __float2bfloat16(scale * sum);
  }
  GDNBENCH_PHASE(update_and_store);  // of all rows: a mark in the loop would end the overlap of its rows
}
