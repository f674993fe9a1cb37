// v4, its state copied to shared memory asynchronously: no register waits for it while the gates are computed.
// A lane reads back only the 16 bytes that it copied itself, so waiting for its own copy is enough and no barrier is.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates, load_qkv, load_state, update, store_state, store_output);

namespace {

// 16 bytes from global to shared memory, around registers and L1; under way when this returns.
__device__ __forceinline__ void copy_async(float4* to, const float4* from) {
  const unsigned to_shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to_shared), "l"(from) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// The calling thread's copies have landed.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * WARPS) gdn_decode_v6(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x % gdn::WARP;
  const int row = blockIdx.x * WARPS + threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int value = head_of_batch * GDN_V + row;
  const size_t place = static_cast<size_t>(value) * GDN_K + lane * gdn::PER_LANE;

  __shared__ float4 staged[32 * WARPS];
  copy_async(&staged[threadIdx.x], reinterpret_cast<const float4*>(state + place));
  const float4 k4 = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  const float4 q4 = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const float v_row = __bfloat162float(v[value]);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  GDNBENCH_PHASE_USING(gates, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_qkv, k4, q4, v_row);
  wait_for_copies();
  GDNBENCH_PHASE(load_state);

  const float4 decayed = gdn::scaled(gate.decay, staged[threadIdx.x]);
  const float delta = gate.write * (v_row - gdn::warp_sum(gdn::dot(decayed, k4)));
  const float4 updated = gdn::add_scaled(decayed, delta, k4);
  GDNBENCH_PHASE_USING(update, updated);
  *reinterpret_cast<float4*>(new_state + place) = updated;
  GDNBENCH_PHASE(store_state);
  const float sum = gdn::warp_sum(gdn::dot(updated, q4));
  if (lane == 0) output[value] = __float2bfloat16(scale * sum);
  GDNBENCH_PHASE(store_output);
}
