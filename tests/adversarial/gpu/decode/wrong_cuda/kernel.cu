// Wrong in one way, which FAULT names, and right but for that.
#include "gdn.cuh"

enum Fault {
  none,
  unscaled,       // the output
  changes_state,  // writes the state that it was given to read
  partial,        // the last row of each head's new state is never written
  drifts          // by a counter in global memory that nothing resets
};
constexpr Fault fault = FAULT;

__device__ int launches;

extern "C" __global__ void wrong(GDN_DECODE_ARGUMENTS) {
  extern __shared__ float factors[];
  factors[threadIdx.x] = fault == unscaled ? 1.f : scale;  // each thread its own
  const int lane = threadIdx.x % gdn::WARP;
  const int row = blockIdx.x * 8 + threadIdx.x / gdn::WARP;
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

  const float4 decayed = gdn::scaled(gate.decay, s);
  const float delta = gate.write * (v_row - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  if (fault != partial || row != GDN_V - 1) *reinterpret_cast<float4*>(new_state + place) = updated;
  if (fault == changes_state) *reinterpret_cast<float4*>(const_cast<float*>(state) + place) = updated;
  float sum = factors[threadIdx.x] * gdn::warp_sum(gdn::dot(updated, q4));
  if (fault == drifts) sum *= 1 + launches / (GDN_V * GDN_HV * 8);
  if (lane == 0) output[value] = __float2bfloat16(sum);
  if (fault == drifts && lane == 0) atomicAdd(&launches, 1);
}
