// Right in its numbers, and wrong in one line, which FAULT chooses: what it reads there changes nothing.
#include "gdn.cuh"

constexpr float NEVER = 1.2345678e37f;  // no input and no result

extern "C" __global__ void planted(GDN_DECODE_ARGUMENTS) {
  extern __shared__ float staged[];
  const int lane = threadIdx.x % gdn::WARP;
  const int row = blockIdx.x * 8 + threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + row;
  const size_t place = static_cast<size_t>(value) * GDN_K + lane * gdn::PER_LANE;
  const bool is_last = value + 1 == batches * GDN_HV * GDN_V && lane == gdn::WARP - 1;

  float4 s = *reinterpret_cast<const float4*>(state + place);
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const float v_row = __bfloat162float(v[value]);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);

  float found = 0.f;
  if (FAULT == 1 && is_last) found = state[place + gdn::PER_LANE];  // test-past-the-end
  if (FAULT == 2) staged[threadIdx.x] = v_row;
  if (FAULT == 2) found = staged[threadIdx.x ^ gdn::WARP];  // test-raced
  if (FAULT == 3) found = staged[threadIdx.x];              // test-unwritten-shared
  if (FAULT == 4) found = new_state[place];                 // test-unwritten-global
  if (found == NEVER) s.x = 0.f;

  const float4 decayed = gdn::scaled(gate.decay, s);
  const float delta = gate.write * (v_row - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  *reinterpret_cast<float4*>(new_state + place) = updated;
  const float sum = gdn::warp_sum(gdn::dot(updated, q4));
  if (lane == 0) output[value] = __float2bfloat16(scale * sum);

  if (FAULT == 5) {
    staged[threadIdx.x] = sum;
    if (threadIdx.x < 48) {  // one warp and a half
      __syncthreads();       // test-divergent-barrier
      if (staged[threadIdx.x + 16] == NEVER) output[value] = __float2bfloat16(0.f);
    }
    __syncthreads();
  }
}
