// verify-v2 with a decay a channel: the state before the first token is multiplied with all keys and queries at once, and
// never read again. With S that state, d_t the decays of token t, and D(i, j) = d_j+1 * ... * d_i those of tokens j+1 to
// i multiplied, channel by channel, D(i, -1) from the first token on,
//
//   w_i = beta_i (v_i - S (D(i, -1) * k_i) - sum over j < i of (k_i . D(i, j) * k_j) w_j)
//   output_i = scale (S (D(i, -1) * q_i) + sum over j <= i of (q_i . D(i, j) * k_j) w_j)
//   last state = S D(T-1, -1) + sum over j of w_j (D(T-1, j) * k_j)^T
//
// A decay is at most 1, and none is divided by. While one bulk copy brings a block's tile of S, its threads multiply keys
// and queries with decays, a channel each, and have all their products in registers, which lanes then sum for each other.
// Norms are in the factors of a head: keys and queries are multiplied as they are.
#include <gdnbench/bulk.cuh>
#include <gdnbench/phases.cuh>

#include "kda_verify.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, multiply, store);

namespace {

using kda::TOKENS;
constexpr bool IS_EACH = GDN_KEEP == kda::KEEP_EACH;

// Lanes that share a row: a quarter of a warp then reads 128 contiguous bytes, or two rows' 64: no bank conflict.
constexpr int LANES = GDN_K % (8 * gdn::PACK) == 0 ? 8 : 4;
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int WARPS = TILE * LANES < MOST_WARPS * gdn::WARP ? TILE * LANES / gdn::WARP : MOST_WARPS;
constexpr int THREADS = WARPS * gdn::WARP;
constexpr int GROUPS = THREADS / LANES;
constexpr int ROWS = TILE / GROUPS;  // of a group of lanes
constexpr int TILES_A_HEAD = GDN_V / TILE;
constexpr unsigned TILE_BYTES = TILE * GDN_K * sizeof(gdn::State);
constexpr int RESULTS = (TOKENS + LANES - 1) / LANES;  // of a row that a lane stores
static_assert(TILE % GROUPS == 0 && GDN_V % TILE == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

constexpr int TRIANGLE = TOKENS * (TOKENS + 1) / 2;  // pairs i, j with j <= i; pair i, j is i (i + 1) / 2 + j
constexpr int PAIRS = 2 * TRIANGLE + TOKENS;         // k_i . D(i, j) * k_j, then q_i . D(i, j) * k_j, then q_i . q_i
constexpr int TURNS = (PAIRS + gdn::WARP - 1) / gdn::WARP;  // of a warp, whose lanes have a pair's sum each
static_assert(TRIANGLE <= THREADS, "a thread finds the factors of no more than one pair");

__host__ __device__ constexpr int pair(int i, int j) { return i * (i + 1) / 2 + j; }

// What channels give to all rows of a head.
struct Vectors {
  float key[TOKENS][GDN_K], query[TOKENS][GDN_K];  // of S: times D(i, -1)
  float written[TOKENS][GDN_K];                    // of w_j: times D(T-1, j), or as it is where each state is kept
  float kept[IS_EACH ? TOKENS : 1][GDN_K];         // of S: D(T-1, -1), or the decays of each token
};

// The factors of a head, the same for all its rows.
struct Factors {
  float written_written[TRIANGLE];  // of w_j in w_i; nothing where j is i
  float output_written[TRIANGLE];   // of w_j in output_i
  float written_value[TOKENS];      // of v_i in w_i
  float written_state[TOKENS];      // of S (D(i, -1) * k_i) in w_i
  float output_state[TOKENS];       // of S (D(i, -1) * q_i) in output_i
};

// A lane's part of a vector.
__device__ __forceinline__ float4 quad_of(const float (&vector)[GDN_K], unsigned lane, int quad) {
  return *reinterpret_cast<const float4*>(&vector[gdn::column<LANES>(lane, quad)]);
}

__device__ __forceinline__ void add_product(float (&products)[TURNS][gdn::WARP], int place, float x, float y) {
  float& sum = products[place / gdn::WARP][place % gdn::WARP];
  sum = fmaf(x, y, sum);
}

// What a channel has of each token.
struct Channel {
  float key[TOKENS], query[TOKENS], decay[TOKENS];

  // Adds the channel's products to those of all pairs, and writes its elements of the vectors.
  __device__ __forceinline__ void multiply(unsigned column, float (&products)[TURNS][gdn::WARP],
                                           Vectors& vectors) const {
    float all = 1.f;
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) {
      all *= decay[t];
      vectors.key[t][column] = all * key[t];
      vectors.query[t][column] = all * query[t];
      if (IS_EACH) vectors.kept[t % (IS_EACH ? TOKENS : 1)][column] = decay[t];
    }
    if (!IS_EACH) vectors.kept[0][column] = all;
#pragma unroll
    for (int j = 0; j < TOKENS; ++j) {
      float decayed = key[j];  // D(i, j) * k_j
#pragma unroll
      for (int i = j; i < TOKENS; ++i) {
        if (i > j) decayed *= decay[i];
        add_product(products, pair(i, j), key[i], decayed);
        add_product(products, TRIANGLE + pair(i, j), query[i], decayed);
      }
      add_product(products, 2 * TRIANGLE + j, query[j], query[j]);
      vectors.written[j][column] = IS_EACH ? key[j] : decayed;
    }
  }
};

// Sums of 32 numbers over the warp: each lane gets that of its own place.
template <int Half = gdn::WARP / 2>
__device__ __forceinline__ float own_sum(float (&numbers)[gdn::WARP], unsigned lane) {
  const bool is_upper = lane & Half;
#pragma unroll
  for (int i = 0; i < Half; ++i) {
    const float lower = numbers[i], upper = numbers[i + Half];
    numbers[i] = (is_upper ? upper : lower) + __shfl_xor_sync(gdn::ALL_LANES, is_upper ? lower : upper, Half);
  }
  if constexpr (Half > 1) return own_sum<Half / 2>(numbers, lane);
  return numbers[0];
}

// The token i of a thread's pair i, j.
__device__ __forceinline__ int token_of_pair(int own) {
  int i = 0;
#pragma unroll
  for (int row = 1; row < TOKENS; ++row) i += own >= pair(row, 0);
  return i;
}

// A thread for each pair i, j.
__device__ __forceinline__ void find_factors(const float (&sums)[WARPS][TURNS * gdn::WARP], float write, float scale,
                                             Factors& factors) {
  const int own = threadIdx.x;
  if (own >= TRIANGLE) return;
  const int i = token_of_pair(own), j = own - pair(i, 0);
  const auto sum = [&](int place) {
    float all = 0.f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) all += sums[warp][place];
    return all;
  };
  const float k_norm = rsqrtf(sum(pair(i, i)) + kda::EPS);
  const float q_norm = rsqrtf(sum(2 * TRIANGLE + i) + kda::EPS) * scale;
  const float key_write = write * k_norm;  // w has its key's norm in it, so that keys are used as they are
  factors.written_written[own] = key_write * k_norm * sum(own);
  factors.output_written[own] = q_norm * sum(TRIANGLE + own);
  if (j > 0) return;
  factors.written_value[i] = key_write;
  factors.written_state[i] = key_write * k_norm;
  factors.output_state[i] = q_norm;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) kda_verify_v2(KDA_VERIFY_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) gdn::State tile[TILE][GDN_K];
  __shared__ __align__(16) Vectors vectors;
  __shared__ float values[TOKENS][TILE];
  __shared__ float sums[WARPS][TURNS * gdn::WARP];
  __shared__ Factors factors;
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned head_of_batch = blockIdx.x / TILES_A_HEAD, first = blockIdx.x % TILES_A_HEAD * TILE;
  const unsigned sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const size_t token = static_cast<size_t>(sequence) * TOKENS;  // the first of the sequence
  const __nv_bfloat16* const packed = mixed_qkv + token * kda::MIXED;
  const int place = slot[sequence];

  using Gates = kda::Channels<THREADS>;
  constexpr int VALUES = (TOKENS * TILE + THREADS - 1) / THREADS;
  Gates gates[TOKENS];
  __nv_bfloat16 key[Gates::COUNT][TOKENS], query[Gates::COUNT][TOKENS], value[VALUES];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    gates[t].load(g + ((token + t) * GDN_H + head) * GDN_K, dt_bias + head * GDN_K, A_log + head);
#pragma unroll
    for (int i = 0; i < Gates::COUNT; ++i) {
      const __nv_bfloat16* const own = packed + t * kda::MIXED + head * GDN_K + i * THREADS + threadIdx.x;
      if (Gates::is_there(i)) query[i][t] = own[0], key[i][t] = own[kda::QUERIES];
    }
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const unsigned load = i * THREADS + threadIdx.x;
    if (load < TOKENS * TILE)
      value[i] = packed[load / TILE * kda::MIXED + 2 * kda::QUERIES + head * GDN_V + first + load % TILE];
  }
  const __nv_bfloat16 b_head = b[(token + token_of_pair(threadIdx.x)) * GDN_H + head];
  kda::loads_first(batches);

  gdn::State* const kept_states = states +
                                  (static_cast<size_t>(sequence) * kda::KEPT * GDN_H + head) * gdn::HEAD +
                                  first * GDN_K;
  constexpr size_t KEPT_STRIDE = GDN_H * static_cast<size_t>(gdn::HEAD);
  __nv_bfloat16* const outputs = output + (token * GDN_H + head) * GDN_V + first;
  constexpr size_t OUTPUT_STRIDE = GDN_H * GDN_V;
  if (place <= 0) {  // no sequence: the same for all threads of the block
#pragma unroll
    for (int t = 0; t < kda::KEPT; ++t)
      for (unsigned i = threadIdx.x; i < TILE_BYTES / 16; i += THREADS)
        reinterpret_cast<uint4*>(kept_states + t * KEPT_STRIDE)[i] = make_uint4(0, 0, 0, 0);
    for (unsigned i = threadIdx.x; i < TOKENS * TILE; i += THREADS)
      outputs[i / TILE * OUTPUT_STRIDE + i % TILE] = __float2bfloat16(0.f);
    return;
  }
  const gdn::State* const state = pool + (static_cast<size_t>(place) * GDN_H + head) * gdn::HEAD + first * GDN_K;
  gdnbench::begin_load(tile, state, TILE_BYTES, &arrived);

  float products[TURNS][gdn::WARP] = {};
#pragma unroll
  for (int i = 0; i < Gates::COUNT; ++i) {
    if (!Gates::is_there(i)) continue;
    Channel channel;
    const float rate = gdn::exp2_mufu(kda::LOG2_E * gates[0].A);
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) {
      channel.key[t] = __bfloat162float(key[i][t]), channel.query[t] = __bfloat162float(query[i][t]);
      channel.decay[t] = kda::decay(__bfloat162float(gates[t].g[i]) + gates[t].bias[i], rate, lower_bound);
    }
    channel.multiply(i * THREADS + threadIdx.x, products, vectors);
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i)
    if (i * THREADS + threadIdx.x < TOKENS * TILE)
      (&values[0][0])[i * THREADS + threadIdx.x] = __bfloat162float(value[i]);
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
    sums[threadIdx.x / gdn::WARP][turn * gdn::WARP + threadIdx.x % gdn::WARP] =
        own_sum(products[turn], threadIdx.x % gdn::WARP);
  __syncthreads();
  find_factors(sums, beta_limit * kda::sigmoid(__bfloat162float(b_head)), scale, factors);
  __syncthreads();
  GDNBENCH_PHASE(prepare);
  gdnbench::wait_for_load(&arrived);
  GDNBENCH_PHASE(load_state);

  const unsigned lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  float4 s[ROWS][QUADS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row)
    gdn::widen(gdn::load_row<LANES, QUADS>(tile[row * GROUPS + group], lane), s[row]);
  float state_key[ROWS][TOKENS], state_query[ROWS][TOKENS];
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = quad_of(vectors.key[t], lane, i), q4[i] = quad_of(vectors.query[t], lane, i);
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
      state_key[row][t] = gdn::dot_of_quads(s[row], k4);
      state_query[row][t] = gdn::dot_of_quads(s[row], q4);
    }
  }
  float written[ROWS][TOKENS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    float result[RESULTS] = {};  // of the tokens that are this lane's
#pragma unroll
    for (int t = 0; t < TOKENS; ++t) {
      float w = factors.written_value[t] * values[t][row * GROUPS + group];
      w = fmaf(-factors.written_state[t], gdn::group_sum<LANES>(state_key[row][t]), w);
      float o = factors.output_state[t] * gdn::group_sum<LANES>(state_query[row][t]);
#pragma unroll
      for (int j = 0; j < t; ++j) {
        w = fmaf(-factors.written_written[pair(t, j)], written[row][j], w);
        o = fmaf(factors.output_written[pair(t, j)], written[row][j], o);
      }
      written[row][t] = w;
      o = fmaf(factors.output_written[pair(t, t)], w, o);
      if (lane == t % LANES) result[t / LANES] = o;
    }
#pragma unroll
    for (int i = 0; i < RESULTS; ++i)
      if (i * LANES + lane < TOKENS)
        outputs[(i * LANES + lane) * OUTPUT_STRIDE + row * GROUPS + group] = __float2bfloat16(result[i]);
  }
  GDNBENCH_PHASE_USING(multiply, written);
  if (kda::KEPT == 0) return;

#pragma unroll
  for (int t = 0; t < TOKENS; ++t)
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
      for (int i = 0; i < QUADS; ++i) {
        if (IS_EACH || t == 0) s[row][i] = kda::product(quad_of(vectors.kept[IS_EACH ? t : 0], lane, i), s[row][i]);
        s[row][i] = gdn::add_scaled(s[row][i], written[row][t], quad_of(vectors.written[t], lane, i));
      }
      if (IS_EACH || t == TOKENS - 1)
        gdn::store_row<LANES>(kept_states + (IS_EACH ? t : 0) * KEPT_STRIDE + (row * GROUPS + group) * GDN_K, lane,
                              s[row]);
    }
  GDNBENCH_PHASE(store);
}
