// With r = S k and s = S q of the old state, the new state's output is scale * (g s + d (q . k)) where
// d = beta (v - g r): r, s and q . k are summed over lanes together, and no sum waits for another.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(load, update, store_state, store_output);

constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int GROUPS = WARPS * gdn::WARP / LANES;
constexpr int BLOCK_ROWS = ROWS * GROUPS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_v7(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const unsigned column = threadIdx.x % LANES * 4;  // of the first of a lane's quads, which lie LANES quads apart
  const unsigned value = blockIdx.x * BLOCK_ROWS + threadIdx.x / LANES;  // the first of its rows, GROUPS apart
  const unsigned head_of_batch = blockIdx.x / (GDN_V / BLOCK_ROWS);
  const unsigned head = head_of_batch % GDN_HV;
  const unsigned key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + column;
  const size_t place = static_cast<size_t>(value) * GDN_K + column;

  float4 s[ROWS][QUADS], k4[QUADS], q4[QUADS];
  __nv_bfloat16 v_row[ROWS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row)
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      s[row][i] = *reinterpret_cast<const float4*>(state + place + row * GROUPS * GDN_K + i * LANES * 4);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::load_bf16x4(k + key + i * LANES * 4);
    q4[i] = gdn::load_bf16x4(q + key + i * LANES * 4);
  }
#pragma unroll
  for (int row = 0; row < ROWS; ++row) v_row[row] = v[value + row * GROUPS];
  const float A = A_log[head], bias = dt_bias[head];
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch];
  gdn::loads_first(batches);
  GDNBENCH_PHASE_USING(load, s, k4, q4, v_row, A, bias, a_head, b_head);

  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  float qk = 0.f;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) qk += gdn::dot(q4[i], k4[i]);
  qk = gdn::group_sum<LANES>(qk);
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    float sk = 0.f, sq = 0.f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      sk += gdn::dot(s[row][i], k4[i]);
      sq += gdn::dot(s[row][i], q4[i]);
    }
    sk = gdn::group_sum<LANES>(sk);
    sq = gdn::group_sum<LANES>(sq);
    const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row[row]));
    GDNBENCH_PHASE_USING(update, delta, sq);
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      *reinterpret_cast<float4*>(new_state + place + row * GROUPS * GDN_K + i * LANES * 4) =
          gdn::add_scaled(gdn::scaled(gate.decay, s[row][i]), delta, k4[i]);
    GDNBENCH_PHASE(store_state);
    if (column == 0) output[value + row * GROUPS] = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
    GDNBENCH_PHASE(store_output);
  }
}
