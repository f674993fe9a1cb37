// The form of clusters, after layer-v1. A cluster holds a head; each of its blocks convolves the head's query and key for
// itself, works out the decays of its channels, and has some rows of its state in registers. The sums of squares that the
// gated norm needs go to the other blocks by distributed shared memory.
//
// Blocks meet at the cluster's barrier twice. First, so that all of them run and their shared memory may be written: they
// arrive as they begin, and wait when the recurrence is done. Then for the sums; the stores of the state stand between
// this arrival and its wait, for an arrival waits for stores before it. By the second wait all blocks have read the last
// inputs, too, which are updated in place.
#include <gdn/cluster.cuh>
#include <gdnbench/phases.cuh>

#include "../kda_layer.cuh"

GDNBENCH_PHASE_NAMES(load_inputs, load_state, update, exchange, store);

namespace {

constexpr int LANES = 8;                  // that share a row of the state
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int PASS_ROWS = WARPS * gdn::WARP / LANES;
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

// Of a head: no more than have rows for all of their threads.
__host__ __device__ constexpr int blocks_a_head() {
  int blocks = MOST_BLOCKS;
  while (blocks > 1 && GDN_V % (blocks * PASS_ROWS) != 0) blocks /= 2;
  return blocks;
}

constexpr int BLOCKS = blocks_a_head();
constexpr int ROWS = GDN_V / BLOCKS;
constexpr int PASSES = ROWS / PASS_ROWS;
constexpr unsigned KEY_QUADS = GDN_K / 4, VALUE_QUADS = ROWS / 4;  // times four channels that a block convolves
constexpr unsigned SHARE = KEY_QUADS / BLOCKS;  // quads of the query, and of the key, whose last inputs a block updates
// Outputs are the last threads', and channels the first's: what follows the last barrier is then done side by side.
constexpr unsigned FIRST_OUTPUT = WARPS * gdn::WARP - ROWS;
constexpr int BLOCKS_AN_SM = PASSES == 2 && WARPS == 8 ? 3 : 0;  // that ptxas is to leave registers for
static_assert(PASSES * PASS_ROWS == ROWS, "no row is left over");
static_assert(2 * KEY_QUADS + VALUE_QUADS <= WARPS * gdn::WARP, "a thread convolves no more than four channels");
static_assert(ROWS <= WARPS * gdn::WARP, "a thread writes no more than one output");
static_assert(KEY_QUADS % BLOCKS == 0, "the blocks of a head update equal shares of its last inputs");

// A lane's part of a vector.
__device__ __forceinline__ float4 quad_of(const float (&vector)[GDN_K], unsigned lane, int quad) {
  return *reinterpret_cast<const float4*>(&vector[gdn::column<LANES>(lane, quad)]);
}

}  // namespace

extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(gdn::WARP * WARPS, BLOCKS_AN_SM)
    kda_layer_v2(KDA_LAYER_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(16) float query[GDN_K], key[GDN_K], values[ROWS], kept[GDN_K];
  __shared__ float outputs[ROWS], sums[BLOCKS * WARPS];
  const unsigned part = blockIdx.x % BLOCKS, head_of_batch = blockIdx.x / BLOCKS, first = part * ROWS;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const int place = slot[sequence];

  const unsigned thread = threadIdx.x;
  const bool is_query = thread < KEY_QUADS, is_key = !is_query && thread < 2 * KEY_QUADS;
  const bool has_channels = thread < 2 * KEY_QUADS + VALUE_QUADS;
  const unsigned quad = is_query ? thread : is_key ? thread - KEY_QUADS : thread - 2 * KEY_QUADS;  // of its kind
  const unsigned of_head = is_query ? 0 : is_key ? kda::QUERIES : 2 * kda::QUERIES + first;
  const unsigned channel = of_head + head * GDN_K + 4 * quad;
  kda::Convolution convolution;
  if (has_channels) convolution.load_new(x + static_cast<size_t>(sequence) * kda::MIXED, conv_weight, channel);
  kda::Channels<gdn::WARP * WARPS> gates;
  gates.load(g + static_cast<size_t>(head_of_batch) * GDN_K, dt_bias + head * GDN_K, A_log + head);
  const __nv_bfloat16 b_head = b[head_of_batch];
  const bool has_output = thread >= FIRST_OUTPUT;
  const unsigned row_of_thread = thread - FIRST_OUTPUT;
  const unsigned output = head_of_batch * GDN_V + first + row_of_thread;
  __nv_bfloat16 z_row = {};
  float weight_row = 0.f;
  if (has_output) z_row = z[output], weight_row = weight[first + row_of_thread];
  kda::loads_first(batches);  // else they would wait for the slot

  if (place <= 0) {  // no sequence: the same for all blocks of the cluster
    if (has_output) y[output] = __float2bfloat16(0.f);
    return;
  }
  if (BLOCKS > 1) gdn::begin_in_cluster();
  __nv_bfloat16* const inputs = new_conv_pool + static_cast<size_t>(place) * kda::KEPT_INPUTS * kda::MIXED;
  if (has_channels) convolution.load_before(inputs, channel);
  const unsigned lane = thread % LANES, group = thread / LANES;
  gdn::State* const state =
      new_pool + (static_cast<size_t>(place) * GDN_H + head) * gdn::HEAD + (first + group) * GDN_K;
  gdn::RowBits<QUADS> bits[PASSES];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    bits[pass] = gdn::load_row<LANES, QUADS>(state + pass * PASS_ROWS * GDN_K, lane);
  kda::loads_first(static_cast<int>(slots));  // of another number than before, which ptxas knows not to be 0 by then

  // While the last inputs come:
  gates.store_decays(kept, lower_bound);
  const float gate = weight_row * kda::sigmoid(__bfloat162float(z_row));
  kda::computed_first(fabsf(gate));
  if (has_channels) {
    float* const convolved = is_query ? query : is_key ? key : values;
    *reinterpret_cast<float4*>(convolved + 4 * quad) = convolution.convolved();
  }
  const float write = kda::sigmoid(__bfloat162float(b_head));
  __syncthreads();
  float kk = 0.f, qq = 0.f, product = 0.f;
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const float4 k4 = quad_of(key, lane, i), q4 = quad_of(query, lane, i);
    kk += gdn::dot(k4, k4), qq += gdn::dot(q4, q4), product += gdn::dot(q4, k4);
  }
  const float k_norm = rsqrtf(gdn::group_sum<LANES>(kk) + kda::EPS);
  const float q_norm = rsqrtf(gdn::group_sum<LANES>(qq) + kda::EPS) * scale;
  const float qk = gdn::group_sum<LANES>(product) * k_norm;
  kda::computed_first(write * fabsf(q_norm * qk));
  GDNBENCH_PHASE_USING(load_inputs, q_norm, qk, write);
  GDNBENCH_PHASE_USING(load_state, bits[PASSES - 1]);

  // Quads of keys, queries and decays are read anew each time: to keep them would leave an SM fewer blocks.
  float4 s[PASSES][QUADS];
  float sk[PASSES] = {}, sq[PASSES] = {}, written[PASSES], squares = 0.f;
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) gdn::widen(bits[pass], s[pass]);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const float4 d4 = quad_of(kept, lane, i), k4 = quad_of(key, lane, i), q4 = quad_of(query, lane, i);
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      s[pass][i] = kda::product(d4, s[pass][i]);
      sk[pass] += gdn::dot(s[pass][i], k4), sq[pass] += gdn::dot(s[pass][i], q4);
    }
  }
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * PASS_ROWS + group;
    const float delta = write * (values[row] - gdn::group_sum<LANES>(sk[pass]) * k_norm);
    const float o = q_norm * fmaf(delta, qk, gdn::group_sum<LANES>(sq[pass]));
    written[pass] = delta * k_norm;
    if (lane == 0) outputs[row] = o;
    squares = fmaf(o, o, squares);
  }
  GDNBENCH_PHASE_USING(update, squares);
#pragma unroll
  for (int offset = LANES; offset < gdn::WARP; offset *= 2) squares += __shfl_xor_sync(gdn::ALL_LANES, squares, offset);
  if (BLOCKS > 1) gdn::wait_for_cluster();  // all blocks run
  if (thread % gdn::WARP < BLOCKS) {
    float* const sum = &sums[part * WARPS + thread / gdn::WARP];
    if (BLOCKS > 1) gdn::store_in_block(sum, thread % gdn::WARP, squares);
    else *sum = squares;
  }
  if (BLOCKS > 1) gdn::arrive_at_cluster();

#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const float4 k4 = quad_of(key, lane, i);
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) s[pass][i] = gdn::add_scaled(s[pass][i], written[pass], k4);
  }
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) gdn::store_row<LANES>(state + pass * PASS_ROWS * GDN_K, lane, s[pass]);
  // All sums are here, and all blocks have read the last inputs.
  if (BLOCKS > 1) gdn::wait_for_cluster();
  else __syncthreads();
  GDNBENCH_PHASE(exchange);
  if (has_output) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < BLOCKS * WARPS; ++i) sum += sums[i];
    const float inverse = rsqrtf(sum * (1.f / GDN_V) + kda::OUTPUT_EPS);
    y[output] = __float2bfloat16(outputs[row_of_thread] * inverse * gate);
  }
  // The blocks share the query's and the key's channels among them; values are a block's own.
  const bool is_mine = !(is_query || is_key) || quad / SHARE == part;
  if (has_channels && is_mine) convolution.store_shifted(inputs, channel);
  GDNBENCH_PHASE(store);
}
