// v1's split of K over the lanes, four warps a block: k and q are loaded and converted once for all four.
// Even 32 rows, 128 registers a lane, leave room below the limit of 255, so every row is loaded before any is used.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates_and_qk, load_state, update_and_store);

constexpr int WARPS = 4;
static_assert(GDN_V % (WARPS * ROWS) == 0, "no row is left over, and no warp reaches beyond its head");

extern "C" __global__ void __launch_bounds__(32 * WARPS) gdn_decode_v2(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x % gdn::WARP;
  const int warp = threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.y;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first_row = (blockIdx.x * WARPS + warp) * ROWS;
  const size_t tile = (static_cast<size_t>(head_of_batch) * GDN_V + first_row) * GDN_K + lane * gdn::PER_LANE;

  // The state first: its latency then covers the trip of k and q through shared memory.
  float4 s[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) s[row] = __ldcs(reinterpret_cast<const float4*>(state + tile + row * GDN_K));

  __shared__ float4 keys[gdn::WARP], queries[gdn::WARP];
  if (warp == 0) keys[lane] = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  if (warp == 1) queries[lane] = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  __syncthreads();
  const float4 k4 = keys[lane], q4 = queries[lane];
  GDNBENCH_PHASE_USING(gates_and_qk, gate.decay, gate.write, k4, q4);
  GDNBENCH_PHASE_USING(load_state, s);

#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
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
