// A row of the state in a few lanes' registers, as in decode-pool-v1. The slot and the rows of the state are asked for
// first; meanwhile a thread works out the decay of a channel, once for all rows of the block, and lanes norms and q.k.
// The state is multiplied with its decays as it comes, so that both sums are over what is kept.
#include <gdnbench/phases.cuh>

#include "kda.cuh"

GDNBENCH_PHASE_NAMES(load, update, store_state, store_output);

constexpr int LANES = GDN_K % (gdn::PACK * MOST_LANES) == 0 ? MOST_LANES : MOST_LANES / 2;  // that share a row
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) kda_decode_v1(KDA_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(16) float kept[GDN_K];
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const int place = slot[sequence];
  const unsigned lane = threadIdx.x % LANES;
  const unsigned row = blockIdx.x % BLOCKS_A_HEAD * BLOCK_ROWS + threadIdx.x / LANES;
  const __nv_bfloat16* const token = mixed_qkv + static_cast<size_t>(sequence) * kda::MIXED;
  const size_t value = static_cast<size_t>(head_of_batch) * GDN_V + row;

  uint2 k_bits[QUADS], q_bits[QUADS];
  gdn::load_key<LANES>(token + kda::QUERIES + head * GDN_K, lane, k_bits);
  gdn::load_key<LANES>(token + head * GDN_K, lane, q_bits);
  kda::Channels<gdn::WARP * WARPS> channels;
  channels.load(g + static_cast<size_t>(head_of_batch) * GDN_K, dt_bias + head * GDN_K, A_log + head);
  const __nv_bfloat16 b_head = b[head_of_batch];
  const __nv_bfloat16 v_row = token[2 * kda::QUERIES + head * GDN_V + row];
  kda::loads_first(batches);  // else they would wait for the slot

  if (place <= 0) {  // no sequence: the same for all threads of the block
    if (lane == 0) output[value] = __float2bfloat16(0.f);
    return;
  }
  gdn::State* const state = new_pool + (static_cast<size_t>(place) * GDN_H + head) * gdn::HEAD + row * GDN_K;
  const gdn::RowBits<QUADS> bits = gdn::load_row<LANES, QUADS>(state, lane);
  kda::loads_first(batches);
  channels.store_decays(kept, lower_bound);
  float4 s[QUADS], k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[i]), q4[i] = gdn::widen(q_bits[i]);
  const float k_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + kda::EPS);
  const float q_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + kda::EPS) * scale;
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm;
  const float write = beta_limit * kda::sigmoid(__bfloat162float(b_head));
  kda::computed_first(write * fabsf(q_norm * qk));
  __syncthreads();
  float4 decays[QUADS];
  kda::load_decays<LANES>(decays, kept, lane);
  gdn::widen(bits, s);
  kda::decay_row(s, decays);
  GDNBENCH_PHASE_USING(load, s, qk, v_row, q_norm, write);

  const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4)) * k_norm;
  const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
  const float delta = write * (__bfloat162float(v_row) - sk);
  GDNBENCH_PHASE_USING(update, delta, sq);
  const float written = delta * k_norm;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) s[i] = gdn::add_scaled(s[i], written, k4[i]);
  gdn::store_row<LANES>(state, lane, s);
  GDNBENCH_PHASE(store_state);
  if (lane == 0) output[value] = __float2bfloat16(q_norm * fmaf(delta, qk, sq));
  GDNBENCH_PHASE(store_output);
}
