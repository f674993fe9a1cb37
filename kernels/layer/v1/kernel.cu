// One launch. A cluster holds the value heads that share a query head; each of its blocks convolves the query and the key
// for itself, which is cheap, and has some rows of one head's state in registers. The sums of squares that the gated norm
// needs go to the blocks of the same head by distributed shared memory.
//
// Blocks meet at the cluster's barrier twice. First, so that all of them run and their shared memory may be written: they
// arrive as they begin, which orders nothing and so costs nothing, and wait when the recurrence is done. Then for the
// sums; the stores of the state stand between this arrival and its wait, for an arrival waits for stores before it. By
// the second wait all blocks have read the last inputs, too, which are updated in place.
#include <gdnbench/phases.cuh>

#include "layer.cuh"

GDNBENCH_PHASE_NAMES(load_inputs, load_state, update, exchange, store);

#if __CUDA_ARCH__ < 900
#error "layer-v1 needs clusters of blocks, which GPUs have from Hopper on"
#endif

namespace {

constexpr int MOST_BLOCKS = 8;            // of a cluster, on every GPU that has them
constexpr int LANES = 8;                  // that share a row of the state
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int PASS_ROWS = WARPS * gdn::WARP / LANES;
static_assert(gdn::SHARING <= MOST_BLOCKS, "a cluster holds the value heads that share a query head");
static_assert(GDN_K % (4 * LANES) == 0, "the lanes of a row hold equal parts of it");

// As many blocks as fit into a cluster, and no more than have rows for all of their threads.
__host__ __device__ constexpr int blocks_a_head() {
  int blocks = 1;
  while (2 * blocks * gdn::SHARING <= MOST_BLOCKS && GDN_V % (2 * blocks * PASS_ROWS) == 0) blocks *= 2;
  return blocks;
}

constexpr int BLOCKS_A_HEAD = blocks_a_head();
constexpr int CLUSTER = BLOCKS_A_HEAD * gdn::SHARING;
constexpr int ROWS = GDN_V / BLOCKS_A_HEAD;
constexpr int PASSES = ROWS / PASS_ROWS;
constexpr unsigned KEY_QUADS = GDN_K / 4, VALUE_QUADS = ROWS / 4;  // times four channels that a block convolves
// Quads of the query's and the key's that a block of the cluster updates, before the next block's begin.
constexpr unsigned SHARE = KEY_QUADS % (2 * CLUSTER) == 0 ? KEY_QUADS / CLUSTER : 2;
// Outputs are the last threads', and channels the first's: what follows the last barrier is then done side by side.
constexpr unsigned FIRST_OUTPUT = WARPS * gdn::WARP - ROWS;
static_assert(PASSES * PASS_ROWS == ROWS, "no row is left over");
static_assert(2 * KEY_QUADS + VALUE_QUADS <= WARPS * gdn::WARP, "a thread convolves no more than four channels");
static_assert(ROWS <= WARPS * gdn::WARP, "a thread writes no more than one output");
static_assert(KEY_QUADS % 2 == 0 && VALUE_QUADS % 2 == 0, "two neighbours have channels that lie side by side");

__device__ __forceinline__ void begin_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }

__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes to where `mine` is in the shared memory of another block of the cluster.
__device__ __forceinline__ void store_in_block(float* mine, unsigned rank, float value) {
  asm volatile(
      "{ .reg .u32 theirs;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
      "  st.shared::cluster.f32 [theirs], %2; }" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(mine))),
      "r"(rank), "f"(value)
      : "memory");
}

// 16 bytes by one store, of which the compiler makes four where it chooses between two places.
__device__ __forceinline__ void store(__nv_bfloat16* to, uint2 first, uint2 last) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(first.x), "r"(first.y), "r"(last.x),
               "r"(last.y)
               : "memory");
}

// Stores a thread's shifted inputs by 16 bytes where it is to: those of two neighbours lie side by side, 48 bytes, and
// the first of the two stores the second's first eight with its own last eight. All threads of a warp come here.
__device__ __forceinline__ void store_shifted(const gdn::Channels& channels, bool has_channels, bool stores,
                                              __nv_bfloat16* inputs) {
  uint2 mine[3] = {};
  if (has_channels) channels.store_shifted(mine);
  const uint2 next = make_uint2(__shfl_down_sync(gdn::ALL_LANES, mine[0].x, 1),
                                __shfl_down_sync(gdn::ALL_LANES, mine[0].y, 1));
  if (!stores) return;
  const bool is_second = threadIdx.x % 2;
  store(is_second ? inputs + 4 : inputs, is_second ? mine[1] : mine[0], is_second ? mine[2] : mine[1]);
  if (!is_second) store(inputs + 8, mine[2], next);
}

}  // namespace

extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(gdn::WARP * WARPS)
    gdn_layer_v1(GDN_LAYER_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ float4 query[KEY_QUADS], key[KEY_QUADS], values[VALUE_QUADS];
  __shared__ float outputs[ROWS], sums[BLOCKS_A_HEAD * WARPS];
  const unsigned rank = blockIdx.x % CLUSTER, sequence = blockIdx.x / CLUSTER / GDN_HQ;
  const unsigned query_head = blockIdx.x / CLUSTER % GDN_HQ, part = rank % BLOCKS_A_HEAD;
  const unsigned head = query_head * gdn::SHARING + rank / BLOCKS_A_HEAD, first = part * ROWS;
  const unsigned head_of_batch = sequence * GDN_HV + head;
  const int place = slot[sequence];

  const unsigned thread = threadIdx.x;
  const bool is_query = thread < KEY_QUADS, is_key = !is_query && thread < 2 * KEY_QUADS;
  const bool has_channels = thread < 2 * KEY_QUADS + VALUE_QUADS;
  const unsigned channel = is_query ? query_head * GDN_K + 4 * thread
                           : is_key ? gdn::QUERIES + query_head * GDN_K + 4 * (thread - KEY_QUADS)
                                    : 2 * gdn::QUERIES + head * GDN_V + first + 4 * (thread - 2 * KEY_QUADS);
  gdn::Channels channels;
  if (has_channels)
    channels.load_new(x + static_cast<size_t>(sequence) * gdn::MIXED + channel,
                      conv_weight + static_cast<size_t>(channel) * 4);
  const float A = A_log[head], bias = dt_bias[head];
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch];
  const bool has_output = thread >= FIRST_OUTPUT;
  const unsigned row_of_thread = thread - FIRST_OUTPUT;
  const size_t output = static_cast<size_t>(head_of_batch) * GDN_V + first + row_of_thread;
  __nv_bfloat16 z_row = {}, weight_row = {};
  if (has_output) z_row = z[output], weight_row = weight[first + row_of_thread];

  if (place <= 0) {  // no sequence: the same for all blocks of the cluster
    if (has_output) y[output] = __float2bfloat16(0.f);
    return;
  }
  begin_in_cluster();
  __nv_bfloat16* const inputs = new_conv_pool + (static_cast<size_t>(place) * gdn::MIXED + channel) * 3;
  if (has_channels) channels.load_before(inputs);
  const unsigned lane = thread % LANES, group = thread / LANES;  // a lane's quads lie LANES quads apart
  float4* const state = reinterpret_cast<float4*>(new_pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::STATE +
                                                  static_cast<size_t>(first + group) * GDN_K) +
                        lane;
  float4 s[PASSES][QUADS];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[pass][i] = state[pass * PASS_ROWS * KEY_QUADS + i * LANES];

  const gdn::Gates gate = gdn::gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head), beta_limit);
  if (has_channels) {
    const float4 convolved = channels.convolved();
    if (is_query) query[thread] = convolved;
    else if (is_key) key[thread - KEY_QUADS] = convolved;
    else values[thread - 2 * KEY_QUADS] = convolved;
  }
  __syncthreads();
  float4 k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k4[i] = key[lane + i * LANES], q4[i] = query[lane + i * LANES];
  const float k_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(k4, k4)) + gdn::EPS);
  const float q_norm = rsqrtf(gdn::group_sum<LANES>(gdn::dot_of_quads(q4, q4)) + gdn::EPS) * scale;
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4)) * k_norm;
  GDNBENCH_PHASE_USING(load_inputs, q_norm, qk, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_state, s[PASSES - 1]);

  float written[PASSES], squares = 0.f;
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    const unsigned row = pass * PASS_ROWS + group;
    const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s[pass], k4)) * k_norm;
    const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s[pass], q4));
    const float delta = gate.write * fmaf(-gate.decay, sk, reinterpret_cast<const float*>(values)[row]);
    const float o = q_norm * fmaf(gate.decay, sq, delta * qk);
    written[pass] = delta * k_norm;
    if (lane == 0) outputs[row] = o;
    squares = fmaf(o, o, squares);
  }
  GDNBENCH_PHASE_USING(update, squares);
#pragma unroll
  for (int offset = LANES; offset < gdn::WARP; offset *= 2) squares += __shfl_xor_sync(gdn::ALL_LANES, squares, offset);
  wait_for_cluster();  // all blocks run
  if (thread % gdn::WARP < BLOCKS_A_HEAD)
    store_in_block(&sums[part * WARPS + thread / gdn::WARP], rank - part + thread % gdn::WARP, squares);
  arrive_at_cluster();

#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
      state[pass * PASS_ROWS * KEY_QUADS + i * LANES] =
          gdn::decayed_plus(gate.decay, s[pass][i], written[pass], k4[i]);
  wait_for_cluster();  // all sums are here, and all blocks have read the last inputs
  GDNBENCH_PHASE(exchange);
  if (has_output) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < BLOCKS_A_HEAD * WARPS; ++i) sum += sums[i];
    const float inverse = rsqrtf(sum * (1.f / GDN_V) + gdn::EPS);
    y[output] = __float2bfloat16(outputs[row_of_thread] * inverse * __bfloat162float(weight_row) *
                                 gdn::silu(__bfloat162float(z_row)));
  }
  // Blocks of a cluster share the query's and the key's channels among them; values are a block's own.
  const bool is_mine = !(is_query || is_key) || thread / SHARE % CLUSTER == rank;
  store_shifted(channels, has_channels, has_channels && is_mine, inputs);
  GDNBENCH_PHASE(store);
}
