// Every key and query is known from the start, so the state before the first token is multiplied with all of them at
// once, and never read again. With S that state, P_i = S k_i, R_i = S q_i, and D(i, j) the decays of tokens j+1 to i
// multiplied, D(i, -1) from the first token on,
//
//   w_i = beta_i (v_i - D(i, -1) P_i - sum over j < i of D(i, j) (k_i . k_j) w_j)
//   output_i = scale (D(i, -1) R_i + sum over j <= i of D(i, j) (q_i . k_j) w_j)
//   last state = D(T-1, -1) S + sum over j of D(T-1, j) w_j k_j^T
//
// What has no row in it, the factors before P, R and w, a block works out while one bulk copy brings its tile of S.
// What is left is a few products a row, and no sum over lanes waits for another one. Norms are in the factors, too:
// keys and queries are multiplied as they are.
#include <gdnbench/bulk.cuh>
#include <gdnbench/phases.cuh>

#include "verify.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, multiply, store);

namespace {

using gdn::TOKENS;

// Lanes that share a row: a quarter of a warp then reads 128 contiguous bytes, or two rows' 64: no bank conflict.
constexpr int LANES = GDN_K % (8 * gdn::PACK) == 0 ? 8 : 4;
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int WARPS = TILE * LANES < MOST_WARPS * gdn::WARP ? TILE * LANES / gdn::WARP : MOST_WARPS;
constexpr int THREADS = WARPS * gdn::WARP;
constexpr int GROUPS = THREADS / LANES;
constexpr int ROWS = TILE / GROUPS;  // of a group of lanes
// Tokens whose keys and factors may be in registers: more were spilled, or left an SM few blocks.
constexpr int AT_ONCE = ROWS > 2 ? 2 : TOKENS > 5 && ROWS > 1 ? 3 : 4;
constexpr int TILES_A_HEAD = GDN_V / TILE;
constexpr unsigned TILE_BYTES = TILE * GDN_K * sizeof(gdn::State);
static_assert(TILE % GROUPS == 0 && GDN_V % TILE == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (gdn::PACK * LANES) == 0, "the lanes of a row hold equal parts of it");
constexpr int RESULTS = (TOKENS + LANES - 1) / LANES;  // of a row that a lane stores

constexpr int VECTORS = 2 * TOKENS;                  // keys, then queries
constexpr int LOADS = VECTORS * (GDN_K / 8);         // of 16 bytes, for all of them
constexpr int TRIANGLE = TOKENS * (TOKENS + 1) / 2;  // pairs i, j with j <= i; pair i, j is i (i + 1) / 2 + j
constexpr int PAIRS = 2 * TRIANGLE + TOKENS;         // k_i . k_j, then q_i . k_j, then q_i . q_i

__device__ constexpr int pair(int i, int j) { return i * (i + 1) / 2 + j; }

// The factors of a head, the same for all its rows.
struct Factors {
  float written_written[TRIANGLE];  // of w_j in w_i; nothing where j is i
  float output_written[TRIANGLE];   // of w_j in output_i
  float written_value[TOKENS];      // of v_i in w_i
  float written_state[TOKENS];      // of P_i in w_i
  float output_state[TOKENS];       // of R_i in output_i
  float last_written[TOKENS];       // of w_j k_j^T in the last state
  float decay[TOKENS];              // from one state to the next
  float last_state;                 // of the first state in the last one
};

// A lane's part of a key or query.
__device__ __forceinline__ float4 quad_of(const float (&vector)[GDN_K], unsigned lane, int quad) {
  return *reinterpret_cast<const float4*>(&vector[gdn::column<LANES>(lane, quad)]);
}

// All dot products of keys and queries that the factors need, shared out to groups of lanes.
__device__ __forceinline__ void multiply_pairs(const float (&vectors)[VECTORS][GDN_K], float (&products)[PAIRS]) {
  const unsigned lane = threadIdx.x % LANES;
#pragma unroll
  for (int first = 0; first < PAIRS; first += GROUPS) {
    const int own = first + static_cast<int>(threadIdx.x / LANES);
    const int place = own < PAIRS ? own : PAIRS - 1;
    const int in_triangle = place < TRIANGLE ? place : place - TRIANGLE;
    int i = 0;
#pragma unroll
    for (int row = 1; row < TOKENS; ++row) i += in_triangle >= pair(row, 0);
    int left = place < TRIANGLE ? i : TOKENS + i, right = in_triangle - i * (i + 1) / 2;
    if (place >= 2 * TRIANGLE) left = right = TOKENS + place - 2 * TRIANGLE;
    float4 x[QUADS], y[QUADS];
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad) {
      x[quad] = quad_of(vectors[left], lane, quad);
      y[quad] = quad_of(vectors[right], lane, quad);
    }
    const float product = gdn::group_sum<LANES>(gdn::dot_of_quads(x, y));
    if (lane == 0 && own < PAIRS) products[own] = product;
  }
}

// A thread for each pair i, j.
__device__ __forceinline__ void find_factors(const float (&products)[PAIRS], const gdn::Gates (&gates)[TOKENS],
                                             float scale, Factors& factors) {
  const int own = threadIdx.x;
  if (own >= TRIANGLE) return;
  int i = 0;
#pragma unroll
  for (int row = 1; row < TOKENS; ++row) i += own >= pair(row, 0);
  const int j = own - i * (i + 1) / 2;
  float decay = 1.f;  // D(i, j)
#pragma unroll
  for (int token = 1; token < TOKENS; ++token)
    if (token > j && token <= i) decay *= gates[token].decay;
  const float k_norm = rsqrtf(products[own - j + i] + gdn::EPS);
  const float q_norm = rsqrtf(products[2 * TRIANGLE + i] + gdn::EPS) * scale;
  const float write = gates[i].write * k_norm;  // w has its key's norm in it, so that keys are used as they are
  factors.written_written[own] = write * k_norm * (decay * products[own]);
  factors.output_written[own] = q_norm * (decay * products[TRIANGLE + own]);
  if (i == TOKENS - 1) factors.last_written[j] = decay;
  if (j > 0) return;
  decay *= gates[0].decay;  // D(i, -1)
  factors.written_value[i] = write;
  factors.written_state[i] = write * k_norm * decay;
  factors.output_state[i] = q_norm * decay;
  factors.decay[i] = gates[i].decay;
  if (i == TOKENS - 1) factors.last_state = decay;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, ROWS > 2 ? 4 : 0) gdn_verify_v2(GDN_VERIFY_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ __align__(128) gdn::State tile[TILE][GDN_K];
  __shared__ __align__(16) float vectors[VECTORS][GDN_K];
  __shared__ float values[TOKENS][TILE];
  __shared__ float products[PAIRS];
  __shared__ gdn::Gates gates[TOKENS];
  __shared__ Factors factors;
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned head_of_batch = blockIdx.x / TILES_A_HEAD, first = blockIdx.x % TILES_A_HEAD * TILE;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const size_t token = static_cast<size_t>(sequence) * TOKENS;  // the first of the sequence
  const __nv_bfloat16* const packed = mixed_qkv + token * gdn::MIXED;

  // Asked for together: the gates' inputs, keys and queries, 16 bytes a thread, values, and the slot. That is the last,
  // or ptxas has some of the others wait for it.
  const unsigned gated = (token + threadIdx.x % TOKENS) * GDN_HV + head;
  const __nv_bfloat16 a_head = a[gated], b_head = b[gated];
  const float A = A_log[head], bias = dt_bias[head];
  constexpr int SHARE = (LOADS + THREADS - 1) / THREADS;
  constexpr int VALUES = (TOKENS * TILE + THREADS - 1) / THREADS;
  uint4 bits[SHARE];
#pragma unroll
  for (int i = 0; i < SHARE; ++i) {
    const unsigned load = i * THREADS + threadIdx.x, vector = load / (GDN_K / 8), column = load % (GDN_K / 8) * 8;
    const bool is_query = vector >= TOKENS;
    const unsigned element = (is_query ? vector - TOKENS : vector) * gdn::MIXED + (is_query ? 0 : gdn::QUERIES) +
                             head / (GDN_HV / GDN_HQ) * GDN_K + column;
    if (load < LOADS) bits[i] = *reinterpret_cast<const uint4*>(packed + element);
  }
  __nv_bfloat16 value[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const unsigned load = i * THREADS + threadIdx.x;
    if (load < TOKENS * TILE)
      value[i] = packed[load / TILE * gdn::MIXED + 2 * gdn::QUERIES + head * GDN_V + first + load % TILE];
  }
  gdn::loads_first(batches);
  const int place = slot[sequence];

  gdn::State* const kept_states = states +
                                    (static_cast<size_t>(sequence) * gdn::KEPT * GDN_HV + head) * gdn::HEAD +
                                    static_cast<size_t>(first) * GDN_K;
  constexpr size_t KEPT_STRIDE = GDN_HV * static_cast<size_t>(gdn::HEAD);
  __nv_bfloat16* const outputs = output + (token * GDN_HV + head) * GDN_V + first;
  constexpr size_t OUTPUT_STRIDE = GDN_HV * GDN_V;
  if (place <= 0) {  // no sequence: the same for all threads of the block
#pragma unroll
    for (int t = 0; t < gdn::KEPT; ++t)
      for (unsigned i = threadIdx.x; i < TILE_BYTES / 16; i += THREADS)
        reinterpret_cast<uint4*>(kept_states + t * KEPT_STRIDE)[i] = make_uint4(0, 0, 0, 0);
    for (unsigned i = threadIdx.x; i < TOKENS * TILE; i += THREADS)
      outputs[i / TILE * OUTPUT_STRIDE + i % TILE] = __float2bfloat16(0.f);
    return;
  }
  const gdn::State* const state = pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::HEAD + first * GDN_K;
  gdnbench::begin_load(tile, state, TILE_BYTES, &arrived);

#pragma unroll
  for (int i = 0; i < SHARE; ++i) {
    const unsigned load = i * THREADS + threadIdx.x;
    if (load >= LOADS) break;
    float4* const target = reinterpret_cast<float4*>(&vectors[0][load * 8]);
    target[0] = gdn::widen(make_uint2(bits[i].x, bits[i].y));
    target[1] = gdn::widen(make_uint2(bits[i].z, bits[i].w));
  }
#pragma unroll
  for (int i = 0; i < VALUES; ++i)
    if (i * THREADS + threadIdx.x < TOKENS * TILE)
      (&values[0][0])[i * THREADS + threadIdx.x] = __bfloat162float(value[i]);
  if (threadIdx.x < TOKENS)
    gates[threadIdx.x] = gdn::gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head), beta_limit);
  __syncthreads();
  multiply_pairs(vectors, products);
  __syncthreads();
  find_factors(products, gates, scale, factors);
  __syncthreads();
  GDNBENCH_PHASE(prepare);
  gdnbench::wait_for_load(&arrived);
  GDNBENCH_PHASE(load_state);

  const unsigned lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  float4 s[ROWS][QUADS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row)
    gdn::widen(gdn::load_row<LANES, QUADS>(tile[row * GROUPS + group], lane), s[row]);
  float state_key[ROWS][TOKENS], state_query[ROWS][TOKENS];  // P and R
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    float4 k4[QUADS], q4[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      k4[i] = quad_of(vectors[t], lane, i);
      q4[i] = quad_of(vectors[TOKENS + t], lane, i);
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
      state_key[row][t] = gdn::dot_of_quads(s[row], k4);
      state_query[row][t] = gdn::dot_of_quads(s[row], q4);
    }
    if (t % AT_ONCE == AT_ONCE - 1) gdn::loads_first(batches);
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
      if (t % AT_ONCE == AT_ONCE - 1) gdn::loads_first(batches);
    }
#pragma unroll
    for (int i = 0; i < RESULTS; ++i)
      if (i * LANES + lane < TOKENS)
        outputs[(i * LANES + lane) * OUTPUT_STRIDE + row * GROUPS + group] = __float2bfloat16(result[i]);
  }
  GDNBENCH_PHASE_USING(multiply, written);
  gdn::loads_first(batches);  // keys are read again, for to keep them would take as many registers as all else

#pragma unroll
  for (int t = 0; t < TOKENS; ++t)
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#if GDN_KEEP
      const float decay = factors.decay[t], share = written[row][t];
#else
      const float decay = t > 0 ? 1.f : factors.last_state, share = factors.last_written[t] * written[row][t];
#endif
#pragma unroll
      for (int i = 0; i < QUADS; ++i)
        s[row][i] = gdn::add_scaled(GDN_KEEP || t == 0 ? gdn::scaled(decay, s[row][i]) : s[row][i], share,
                                    quad_of(vectors[t], lane, i));
      if (GDN_KEEP || t == TOKENS - 1)
        gdn::store_row<LANES>(kept_states + (GDN_KEEP ? t : 0) * KEPT_STRIDE + (row * GROUPS + group) * GDN_K, lane,
                              s[row]);
    }
  GDNBENCH_PHASE(store);
}
