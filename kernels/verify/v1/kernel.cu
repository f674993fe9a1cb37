// decode-v9 over several tokens: a row of the state stays in a few lanes' registers while they walk over the tokens.
// The slot is asked for first, for the state's address waits for it, then all that is needed of all tokens; norms,
// q . k and gates are worked out while the state comes. From one token to the next there is one sum over lanes, since
// S k and S q are taken of the state before the token's own update.
#include <gdnbench/phases.cuh>

#include "verify.cuh"

GDNBENCH_PHASE_NAMES(load, walk, store);

constexpr int LANES = GDN_K % (gdn::PACK * MOST_LANES) == 0 ? MOST_LANES : MOST_LANES / 2;  // that share a row
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_verify_v1(GDN_VERIFY_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  using gdn::TOKENS;
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const int place = slot[sequence];
  const unsigned lane = threadIdx.x % LANES;
  const unsigned row = blockIdx.x % BLOCKS_A_HEAD * BLOCK_ROWS + threadIdx.x / LANES;
  const unsigned key = head / (GDN_HV / GDN_HQ) * GDN_K;
  const size_t token = static_cast<size_t>(sequence) * TOKENS;  // the first of the sequence

  uint2 k_bits[TOKENS][QUADS], q_bits[TOKENS][QUADS];
  __nv_bfloat16 v_row[TOKENS], a_head[TOKENS], b_head[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    const __nv_bfloat16* const own = mixed_qkv + (token + t) * gdn::MIXED;
    gdn::load_key<LANES>(own + gdn::QUERIES + key, lane, k_bits[t]);
    gdn::load_key<LANES>(own + key, lane, q_bits[t]);
    v_row[t] = own[2 * gdn::QUERIES + head * GDN_V + row];
    a_head[t] = a[(token + t) * GDN_HV + head];
    b_head[t] = b[(token + t) * GDN_HV + head];
  }
  const float A = A_log[head], bias = dt_bias[head];
  gdn::loads_first(batches);

  // State and output of the row, the first of them; those of the next token lie a stride away.
  gdn::State* const kept_row =
      states + (static_cast<size_t>(sequence) * gdn::KEPT * GDN_HV + head) * gdn::HEAD + row * GDN_K;
  constexpr size_t KEPT_STRIDE = GDN_HV * static_cast<size_t>(gdn::HEAD);
  __nv_bfloat16* const output_row = output + (token * GDN_HV + head) * GDN_V + row;
  constexpr size_t OUTPUT_STRIDE = GDN_HV * GDN_V;

  float4 s[QUADS] = {};
  if (place <= 0) {  // no sequence: the same for all threads of the block
#pragma unroll
    for (int t = 0; t < gdn::KEPT; ++t) gdn::store_row<LANES>(kept_row + t * KEPT_STRIDE, lane, s);
    if (lane == 0)
#pragma unroll
      for (int t = 0; t < TOKENS; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(0.f);
    return;
  }
  const gdn::RowBits<QUADS> bits = gdn::load_row<LANES, QUADS>(
      pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::HEAD + row * GDN_K, lane);
  gdn::loads_first(batches);

  float k_norm[TOKENS], q_norm[TOKENS], qk[TOKENS];
  gdn::Gates gate[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[t][i]), q4[i] = gdn::widen(q_bits[t][i]);
    k_norm[t] = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + gdn::EPS);
    q_norm[t] = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + gdn::EPS) * scale;
    qk[t] = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm[t];
    gate[t] = gdn::gates(A, bias, __bfloat162float(a_head[t]), __bfloat162float(b_head[t]), beta_limit);
  }
  gdn::widen(bits, s);
  GDNBENCH_PHASE_USING(load, s, qk, k_norm, q_norm);

  float result[TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[t][i]), q4[i] = gdn::widen(q_bits[t][i]);
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4)) * k_norm[t];
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
    const float decay = gate[t].decay;
    const float delta = gate[t].write * fmaf(-decay, sk, __bfloat162float(v_row[t]));
    const float written = delta * k_norm[t];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = gdn::add_scaled(gdn::scaled(decay, s[i]), written, k4[i]);
    if (GDN_KEEP || t == TOKENS - 1) gdn::store_row<LANES>(kept_row + (GDN_KEEP ? t : 0) * KEPT_STRIDE, lane, s);
    result[t] = q_norm[t] * fmaf(decay, sq, delta * qk[t]);
  }
  GDNBENCH_PHASE_USING(walk, result);
  if (lane == 0)
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(result[t]);
  GDNBENCH_PHASE(store);
}
