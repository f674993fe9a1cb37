// verify-v1 with a decay a channel: a row of the state stays in a few lanes' registers while they walk over the tokens.
// What is needed of all tokens is asked for before the state is waited for; meanwhile a block's threads work out the
// decays of all tokens, and lanes norms and q.k. From one token to the next there is one sum over lanes.
#include <gdnbench/phases.cuh>

#include "kda_verify.cuh"

GDNBENCH_PHASE_NAMES(load, walk, store);

constexpr int LANES = GDN_K % (gdn::PACK * MOST_LANES) == 0 ? MOST_LANES : MOST_LANES / 2;  // that share a row
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) kda_verify_v1(KDA_VERIFY_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  using kda::TOKENS;
  __shared__ __align__(16) float decays[TOKENS][GDN_K];
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const int place = slot[sequence];
  const unsigned lane = threadIdx.x % LANES;
  const unsigned row = blockIdx.x % BLOCKS_A_HEAD * BLOCK_ROWS + threadIdx.x / LANES;
  const size_t token = static_cast<size_t>(sequence) * TOKENS;  // the first of the sequence

  uint2 k_bits[TOKENS][QUADS], q_bits[TOKENS][QUADS];
  __nv_bfloat16 v_row[TOKENS], b_head[TOKENS];
  kda::Channels<gdn::WARP * WARPS> channels[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    const __nv_bfloat16* const own = mixed_qkv + (token + t) * kda::MIXED;
    gdn::load_key<LANES>(own + kda::QUERIES + head * GDN_K, lane, k_bits[t]);
    gdn::load_key<LANES>(own + head * GDN_K, lane, q_bits[t]);
    v_row[t] = own[2 * kda::QUERIES + head * GDN_V + row];
    b_head[t] = b[(token + t) * GDN_H + head];
    channels[t].load(g + ((token + t) * GDN_H + head) * GDN_K, dt_bias + head * GDN_K, A_log + head);
  }
  kda::loads_first(batches);

  // State and output of the row, the first of them; those of the next token lie a stride away.
  gdn::State* const kept_row =
      states + (static_cast<size_t>(sequence) * kda::KEPT * GDN_H + head) * gdn::HEAD + row * GDN_K;
  constexpr size_t KEPT_STRIDE = GDN_H * static_cast<size_t>(gdn::HEAD);
  __nv_bfloat16* const output_row = output + (token * GDN_H + head) * GDN_V + row;
  constexpr size_t OUTPUT_STRIDE = GDN_H * GDN_V;

  float4 s[QUADS] = {};
  if (place <= 0) {  // no sequence: the same for all threads of the block
#pragma unroll
    for (int t = 0; t < kda::KEPT; ++t) gdn::store_row<LANES>(kept_row + t * KEPT_STRIDE, lane, s);
    if (lane == 0)
#pragma unroll
      for (int t = 0; t < TOKENS; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(0.f);
    return;
  }
  const gdn::RowBits<QUADS> bits = gdn::load_row<LANES, QUADS>(
      pool + (static_cast<size_t>(place) * GDN_H + head) * gdn::HEAD + row * GDN_K, lane);
  kda::loads_first(batches);

  float k_norm[TOKENS], q_norm[TOKENS], qk[TOKENS], write[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    channels[t].store_decays(decays[t], lower_bound);
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[t][i]), q4[i] = gdn::widen(q_bits[t][i]);
    k_norm[t] = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + kda::EPS);
    q_norm[t] = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + kda::EPS) * scale;
    qk[t] = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm[t];
    write[t] = beta_limit * kda::sigmoid(__bfloat162float(b_head[t]));
    kda::computed_first(write[t] * fabsf(q_norm[t] * qk[t]));
  }
  __syncthreads();
  gdn::widen(bits, s);
  GDNBENCH_PHASE_USING(load, s, qk, k_norm, q_norm);

  float result[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[t][i]), q4[i] = gdn::widen(q_bits[t][i]);
    float4 own[QUADS];
    kda::load_decays<LANES>(own, decays[t], lane);
    kda::decay_row(s, own);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4)) * k_norm[t];
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float delta = write[t] * (__bfloat162float(v_row[t]) - sk);
    const float written = delta * k_norm[t];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = gdn::add_scaled(s[i], written, k4[i]);
    if (GDN_KEEP == kda::KEEP_EACH) gdn::store_row<LANES>(kept_row + t * KEPT_STRIDE, lane, s);
    if (GDN_KEEP == kda::KEEP_LAST && t == TOKENS - 1) gdn::store_row<LANES>(kept_row, lane, s);
    result[t] = q_norm[t] * fmaf(delta, qk[t], sq);
  }
  GDNBENCH_PHASE_USING(walk, result);
  if (lane == 0)
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(result[t]);
  GDNBENCH_PHASE(store);
}
