// v8 both ways: one bulk copy brings the tile, rows are updated where they stand in shared memory, and one bulk copy
// takes the tile back. So the states of a block leave as they came, in one piece of several kB.
#include <gdnbench/bulk.cuh>
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, update, store);

namespace {

constexpr int LANES = 8;                  // a quarter of a warp reads 128 contiguous bytes: no bank conflict
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int GROUPS = WARPS * gdn::WARP / LANES;
constexpr int PASSES = TILE / GROUPS;
constexpr unsigned TILE_BYTES = TILE * GDN_K * sizeof(float);
static_assert(TILE % GROUPS == 0 && GDN_V % TILE == 0, "a block works on one head, and no row is left over");
static_assert(TILE % 8 == 0, "a block's outputs leave 16 bytes a lane");

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_v10(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) float tile[TILE][GDN_K];
  __shared__ __align__(16) __nv_bfloat16 results[TILE];
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned first = blockIdx.x * TILE;
  gdnbench::begin_load(tile, state + static_cast<size_t>(first) * GDN_K, TILE_BYTES, &arrived);

  const unsigned column = threadIdx.x % LANES * 4;  // of the first of a lane's quads, which lie LANES quads apart
  const unsigned group = threadIdx.x / LANES;
  const unsigned head_of_batch = first / GDN_V;
  const unsigned head = head_of_batch % GDN_HV;
  const unsigned key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + column;
  uint2 k_bits[QUADS], q_bits[QUADS];
  __nv_bfloat16 v_row[PASSES];
  const float A = A_log[head], bias = dt_bias[head];
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k_bits[i] = gdn::load_bits(k + key + i * LANES * 4);
    q_bits[i] = gdn::load_bits(q + key + i * LANES * 4);
  }
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) v_row[pass] = v[first + pass * GROUPS + group];
  gdn::loads_first(batches);
  __syncthreads();  // nobody waits at a barrier that is not there yet

  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::widen(k_bits[i]);
    q4[i] = gdn::widen(q_bits[i]);
  }
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4));
  gdn::gates_first(gate);
  GDNBENCH_PHASE_USING(prepare, gate.decay, gate.write);
  gdnbench::wait_for_load(&arrived);
  GDNBENCH_PHASE(load_state);

#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * GROUPS + group;
    float4 s[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = *reinterpret_cast<const float4*>(&tile[row][column + i * LANES * 4]);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row[pass]));
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      *reinterpret_cast<float4*>(&tile[row][column + i * LANES * 4]) =
          gdn::add_scaled(gdn::scaled(gate.decay, s[i]), delta, k4[i]);
    if (column == 0) results[row] = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
  }
  GDNBENCH_PHASE(update);
  gdnbench::publish_stores();
  __syncthreads();
  if (threadIdx.x * 8 < TILE)
    reinterpret_cast<uint4*>(output + first)[threadIdx.x] = reinterpret_cast<const uint4*>(results)[threadIdx.x];
  gdnbench::store(new_state + static_cast<size_t>(first) * GDN_K, tile, TILE_BYTES);
  GDNBENCH_PHASE(store);
}
