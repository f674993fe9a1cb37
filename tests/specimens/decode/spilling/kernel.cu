// Thirty-two blocks of a warp on each SM leave a thread 64 registers; the rows that it holds alone want 128.
#include "gdn.cuh"

constexpr int ROWS = 32;
constexpr int BLOCKS_PER_SM = 32;

// The compiler must keep what this returns: it may not read the state again where it lacks a register.
__device__ __forceinline__ float4 load_once(const float* p) {
  float4 x;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "l"(p));
  return x;
}

extern "C" __global__ void __launch_bounds__(gdn::WARP, BLOCKS_PER_SM) spilling(GDN_DECODE_ARGUMENTS) {
  const int lane = threadIdx.x;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first = head_of_batch * GDN_V + blockIdx.x * ROWS;
  const size_t tile = static_cast<size_t>(first) * GDN_K + lane * gdn::PER_LANE;

  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  float4 s[ROWS];
  float delta[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    s[row] = gdn::scaled(gate.decay, load_once(state + tile + row * GDN_K));
    delta[row] = gate.write * (__bfloat162float(v[first + row]) - gdn::warp_sum(gdn::dot(s[row], k4)));
  }
  __syncwarp();
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const float4 updated = gdn::add_scaled(s[row], delta[row], k4);
    *reinterpret_cast<float4*>(new_state + tile + row * GDN_K) = updated;
    const float sum = gdn::warp_sum(gdn::dot(updated, q4));
    if (lane == 0) output[first + row] = __float2bfloat16(scale * sum);
  }
}
