// decode-v8 over a pool: one thread asks for the whole tile as soon as it knows the slot, by one bulk copy; the others
// read keys, queries and gates meanwhile and do what needs no state. Rows go back from registers, or through shared
// memory by one bulk copy.
#include <gdnbench/bulk.cuh>
#include <gdnbench/phases.cuh>

#include "pool.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, update_and_store);

namespace {

// Lanes that share a row: a quarter of a warp then reads 128 contiguous bytes, or two rows' 64: no bank conflict.
constexpr int LANES = GDN_K % (8 * gdn::PACK) == 0 ? 8 : 4;
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int WARPS = TILE * LANES < MOST_WARPS * gdn::WARP ? TILE * LANES / gdn::WARP : MOST_WARPS;
constexpr int GROUPS = WARPS * gdn::WARP / LANES;
constexpr int PASSES = TILE / GROUPS;
constexpr int TILES_A_HEAD = GDN_V / TILE;
constexpr unsigned TILE_BYTES = TILE * GDN_K * sizeof(gdn::State);
static_assert(TILE % GROUPS == 0 && GDN_V % TILE == 0, "a block works on one head, and no row is left over");
static_assert(TILE <= WARPS * gdn::WARP, "a thread writes no more than one output of padding");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_pool_v2(GDN_POOL_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) gdn::State tile[TILE][GDN_K];
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned head_of_batch = blockIdx.x / TILES_A_HEAD, first = blockIdx.x % TILES_A_HEAD * TILE;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const int place = slot[sequence];
  if (place <= 0) {  // no sequence: the same for all threads of the block
    if (threadIdx.x < TILE)
      output[static_cast<size_t>(head_of_batch) * GDN_V + first + threadIdx.x] = __float2bfloat16(0.f);
    return;
  }
  gdn::State* const state = new_pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::HEAD + first * GDN_K;
  gdnbench::begin_load(tile, state, TILE_BYTES, &arrived);

  const unsigned lane = threadIdx.x % LANES;
  const unsigned group = threadIdx.x / LANES;
  const __nv_bfloat16* const token = mixed_qkv + static_cast<size_t>(sequence) * gdn::MIXED;
  const unsigned key = head / (GDN_HV / GDN_HQ) * GDN_K;
  uint2 k_bits[QUADS], q_bits[QUADS];
  gdn::load_key<LANES>(token + gdn::QUERIES + key, lane, k_bits);
  gdn::load_key<LANES>(token + key, lane, q_bits);
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[i]), q4[i] = gdn::widen(q_bits[i]);
  __nv_bfloat16 v_row[PASSES];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    v_row[pass] = token[2 * gdn::QUERIES + head * GDN_V + first + pass * GROUPS + group];
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], __bfloat162float(a[head_of_batch]),
                                     __bfloat162float(b[head_of_batch]), beta_limit);
  const float k_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + gdn::EPS);
  const float q_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + gdn::EPS) * scale;
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm;
  __syncthreads();  // nobody waits at a barrier that is not there yet
  GDNBENCH_PHASE_USING(prepare, gate.decay, gate.write, qk, q_norm);
  gdnbench::wait_for_load(&arrived);
  GDNBENCH_PHASE(load_state);

#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * GROUPS + group;
    float4 s[QUADS];
    gdn::widen(gdn::load_row<LANES, QUADS>(tile[row], lane), s);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4)) * k_norm;
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row[pass]));
    const float written = delta * k_norm;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = gdn::decayed_plus(gate.decay, s[i], written, k4[i]);
#if BULK_STORE
    gdn::store_row<LANES>(tile[row], lane, s);
#else
    gdn::store_row<LANES>(state + row * GDN_K, lane, s);
#endif
    if (lane == 0)
      output[static_cast<size_t>(head_of_batch) * GDN_V + first + row] =
          __float2bfloat16(q_norm * fmaf(gate.decay, sq, delta * qk));
  }
#if BULK_STORE
  gdnbench::publish_stores();
  __syncthreads();
  gdnbench::store(state, tile, TILE_BYTES);
#endif
  GDNBENCH_PHASE(update_and_store);
}
