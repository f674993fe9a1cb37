// decode-pool-v2 with a decay a channel: one thread asks for the whole tile as soon as it knows the slot, by one bulk
// copy; meanwhile threads work out the decays of channels, and lanes norms and q.k. The barrier behind which rows read
// the decays is that which the copy needs anyway. Rows go back from registers, or by one bulk copy.
#include <gdnbench/bulk.cuh>
#include <gdnbench/phases.cuh>

#include "kda.cuh"

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

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) kda_decode_v2(KDA_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) gdn::State tile[TILE][GDN_K];
  __shared__ __align__(16) float kept[GDN_K];
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned head_of_batch = blockIdx.x / TILES_A_HEAD, first = blockIdx.x % TILES_A_HEAD * TILE;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const int place = slot[sequence];
  const unsigned lane = threadIdx.x % LANES;
  const unsigned group = threadIdx.x / LANES;
  const __nv_bfloat16* const token = mixed_qkv + static_cast<size_t>(sequence) * kda::MIXED;
  uint2 k_bits[QUADS], q_bits[QUADS];
  gdn::load_key<LANES>(token + kda::QUERIES + head * GDN_K, lane, k_bits);
  gdn::load_key<LANES>(token + head * GDN_K, lane, q_bits);
  __nv_bfloat16 v_row[PASSES];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    v_row[pass] = token[2 * kda::QUERIES + head * GDN_V + first + pass * GROUPS + group];
  kda::Channels<gdn::WARP * WARPS> channels;
  channels.load(g + static_cast<size_t>(head_of_batch) * GDN_K, dt_bias + head * GDN_K, A_log + head);
  const __nv_bfloat16 b_head = b[head_of_batch];
  kda::loads_first(batches);  // else they would wait for the slot

  __nv_bfloat16* const outputs = output + static_cast<size_t>(head_of_batch) * GDN_V + first;
  if (place <= 0) {  // no sequence: the same for all threads of the block
    if (threadIdx.x < TILE) outputs[threadIdx.x] = __float2bfloat16(0.f);
    return;
  }
  gdn::State* const state = new_pool + (static_cast<size_t>(place) * GDN_H + head) * gdn::HEAD + first * GDN_K;
  gdnbench::begin_load(tile, state, TILE_BYTES, &arrived);

  channels.store_decays(kept, lower_bound);
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[i]), q4[i] = gdn::widen(q_bits[i]);
  const float k_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + kda::EPS);
  const float q_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + kda::EPS) * scale;
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm;
  const float write = beta_limit * kda::sigmoid(__bfloat162float(b_head));
  kda::computed_first(write * fabsf(q_norm * qk));
  __syncthreads();  // decays are there, and nobody waits at a barrier that is not
  float4 decays[QUADS];
  kda::load_decays<LANES>(decays, kept, lane);
  GDNBENCH_PHASE_USING(prepare, write, qk, q_norm);
  gdnbench::wait_for_load(&arrived);
  GDNBENCH_PHASE(load_state);

#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * GROUPS + group;
    float4 s[QUADS];
    gdn::widen(gdn::load_row<LANES, QUADS>(tile[row], lane), s);
    kda::decay_row(s, decays);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4)) * k_norm;
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float delta = write * (__bfloat162float(v_row[pass]) - sk);
    const float written = delta * k_norm;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = gdn::add_scaled(s[i], written, k4[i]);
#if BULK_STORE
    gdn::store_row<LANES>(tile[row], lane, s);
#else
    gdn::store_row<LANES>(state + row * GDN_K, lane, s);
#endif
    if (lane == 0) outputs[row] = __float2bfloat16(q_norm * fmaf(delta, qk, sq));
  }
#if BULK_STORE
  gdnbench::publish_stores();
  __syncthreads();
  gdnbench::store(state, tile, TILE_BYTES);
#endif
  GDNBENCH_PHASE(update_and_store);
}
