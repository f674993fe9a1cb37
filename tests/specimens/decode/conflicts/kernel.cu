// Rows of 128 floats begin in the same bank, so 32 lanes in 32 rows wait for one another, 32 times an access.
#include "gdn.cuh"

constexpr int ROWS = gdn::WARP;

extern "C" __global__ void __launch_bounds__(gdn::WARP) conflicts(GDN_DECODE_ARGUMENTS) {
  const int lane = threadIdx.x;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first = head_of_batch * GDN_V + blockIdx.x * ROWS;
  const size_t origin = static_cast<size_t>(first) * GDN_K;

  __shared__ float tile[ROWS][GDN_K];
  __shared__ float keys[GDN_K], queries[GDN_K];
#pragma unroll
  for (int row = 0; row < ROWS; ++row)
    reinterpret_cast<float4*>(tile[row])[lane] = reinterpret_cast<const float4*>(state + origin + row * GDN_K)[lane];
  reinterpret_cast<float4*>(keys)[lane] = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  reinterpret_cast<float4*>(queries)[lane] = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  __syncwarp();

  float* row = tile[lane];
  float retrieved[4] = {}, sum[4] = {};
#pragma unroll 8
  for (int i = 0; i < GDN_K; ++i) retrieved[i % 4] += gate.decay * row[i] * keys[i];
  const float known = (retrieved[0] + retrieved[1]) + (retrieved[2] + retrieved[3]);
  const float delta = gate.write * (__bfloat162float(v[first + lane]) - known);
#pragma unroll 8
  for (int i = 0; i < GDN_K; ++i) {
    row[i] = fmaf(delta, keys[i], gate.decay * row[i]);
    sum[i % 4] += row[i] * queries[i];
  }
  output[first + lane] = __float2bfloat16(scale * ((sum[0] + sum[1]) + (sum[2] + sum[3])));
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    reinterpret_cast<float4*>(new_state + origin + i * GDN_K)[lane] = reinterpret_cast<const float4*>(tile[i])[lane];
}
