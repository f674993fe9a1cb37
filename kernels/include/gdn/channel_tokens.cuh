// What a head's tokens are to its state where each channel decays for itself, for all rows alike. With S the state
// before the first token, d_t the decays of token t, and D(i, j) = d_j+1 * ... * d_i those of tokens j+1 to i
// multiplied, channel by channel, D(i, -1) from the first token on,
//
//   w_i = beta_i (v_i - S (D(i, -1) * k_i) - sum over j < i of (k_i . D(i, j) * k_j) w_j)
//   output_i = scale (S (D(i, -1) * q_i) + sum over j <= i of (q_i . D(i, j) * k_j) w_j)
//   last state = S D(T-1, -1) + sum over j of w_j (D(T-1, j) * k_j)^T
//
// A decay is at most 1, and none is divided by. A block's threads have a channel each, or a few: they multiply keys and
// queries with decays, and lanes sum their products for each other. Norms are in the factors: keys and queries are
// multiplied as they are.
#pragma once
#include <gdn/channel_decays.cuh>

namespace kda {

// A branch that is never taken, for no batch has a negative size: past it ptxas moves nothing that touches memory. With
// a number each, for it drops one that asks the same as another before it.
template <int Number>
__device__ __forceinline__ void memory_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, %1; @never trap; }" ::"r"(batches), "n"(-Number)
               : "memory");
}

// Zero, which the compiler does not know to be the same for all lanes: what is loaded from an address with it is waited
// for where it is used, and not at once to be kept for the warp.
__device__ __forceinline__ unsigned lanes_zero() {
  unsigned own, lower;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  return own & lower;
}

// What a block works on: some rows of a head, over the tokens of a sequence.
struct Block {
  const __nv_bfloat16 *queries, *values, *gates;  // of the first token, those of values from the first row on
  const __nv_bfloat16* logits;
  const float *dt_bias, *A_log;
  const int* slot;
  const gdn::State* pool;  // the first row, in slot 0
  gdn::State* kept;        // the same in the first state that is kept, or in slot 0 where states stay where they are
  __nv_bfloat16* outputs;
  float scale, lower_bound, beta_limit;
  int batches;
};

constexpr size_t SLOT_STRIDE = GDN_H * static_cast<size_t>(gdn::HEAD);  // of a pool, and of states that are kept
constexpr size_t OUTPUT_STRIDE = GDN_H * GDN_V;                         // from a token to the next one

// Pairs i, j with j <= i; pair i, j is i (i + 1) / 2 + j.
__host__ __device__ constexpr int pair(int i, int j) { return i * (i + 1) / 2 + j; }

__host__ __device__ constexpr int power_of_two(int least) { return least <= 1 ? 1 : 2 * power_of_two((least + 1) / 2); }

// The token i of pair i, j.
template <int Tokens>
__device__ __forceinline__ int token_of_pair(int own) {
  int i = 0;
#pragma unroll
  for (int row = 1; row < Tokens; ++row) i += own >= pair(row, 0);
  return i;
}

// Sums of so many numbers over groups of lanes: each lane gets that of its own place, one of Lanes / Count lanes. Lanes
// are added up in one order, however many numbers there are.
template <int Count, int Lanes = gdn::WARP, int Offset = Lanes / 2>
__device__ __forceinline__ float own_sum(float (&numbers)[Count], unsigned lane) {
  constexpr int HALF = Count * Offset / Lanes;  // of what is left
  if constexpr (HALF == 0) numbers[0] += __shfl_xor_sync(gdn::ALL_LANES, numbers[0], Offset);
  const bool is_upper = lane & Offset;
#pragma unroll
  for (int i = 0; i < HALF; ++i) {
    const float lower = numbers[i], upper = numbers[i + HALF];
    numbers[i] = (is_upper ? upper : lower) + __shfl_xor_sync(gdn::ALL_LANES, is_upper ? lower : upper, Offset);
  }
  if constexpr (Offset > 1) return own_sum<Count, Lanes, Offset / 2>(numbers, lane);
  return numbers[0];
}

// Numbers that lie side by side, with one store.
template <class Number, int Count>
__device__ __forceinline__ void store(Number* to, const Number (&numbers)[Count]) {
  struct alignas(Count * sizeof(Number)) All {
    Number numbers[Count];
  } all;
#pragma unroll
  for (int i = 0; i < Count; ++i) all.numbers[i] = numbers[i];
  *reinterpret_cast<All*>(to) = all;
}

// 16 bytes of a state, as PTX, for of a plain store nvcc makes narrow ones. What is stored, nobody here reads.
__device__ __forceinline__ void store_state(gdn::State* to, const float4 (&quads)[gdn::PACK_QUADS]) {
  alignas(16) gdn::State row[gdn::PACK];
  gdn::store_row<1>(row, 0, quads);
  const uint4 bits = *reinterpret_cast<const uint4*>(row);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(bits.x), "r"(bits.y),
               "r"(bits.z), "r"(bits.w));
}

// In shared memory: what states that are kept are made of, if there are any.
template <int Tokens, bool IsEach, bool IsKept>
struct Updates {
  static constexpr int LENGTH = IsKept ? GDN_K : 1;
  float written[IsKept ? Tokens : 1][LENGTH];         // of w_j: D(T-1, j) * k_j, or k_j where each state is kept
  float kept[IsEach && IsKept ? Tokens : 1][LENGTH];  // of S: D(T-1, -1), or the decays of each token

  template <int Count>
  __device__ __forceinline__ void set_written(int token, unsigned column, const float (&x)[Count]) {
    if (IsKept) store(&written[IsKept ? token : 0][column], x);
  }
  template <int Count>
  __device__ __forceinline__ void set_kept(int token, unsigned column, const float (&x)[Count]) {
    if (IsKept) store(&kept[IsEach && IsKept ? token : 0][column], x);
  }
};

// In shared memory: factors that are the same for all rows.
template <int Tokens>
struct Factors {
  float written_written[pair(Tokens, 0)];  // of w_j in w_i; nothing where j is i
  float output_written[pair(Tokens, 0)];   // of w_j in output_i
  float written_value[Tokens];             // of v_i in w_i
  float written_state[Tokens];             // of S (D(i, -1) * k_i) in w_i
  float output_state[Tokens];              // of S (D(i, -1) * q_i) in output_i
};

// A head's tokens, as a block's threads ask for them, and what they make of them.
template <int Tokens, int Threads, bool IsEach>
struct HeadTokens {
  static constexpr int TRIANGLE = pair(Tokens, 0);
  static constexpr int PAIRS = 2 * TRIANGLE + Tokens;  // k_i . D(i, j) * k_j, then q_i . D(i, j) * k_j, then q_i . q_i
  static constexpr int WIDTH = power_of_two(PAIRS) < gdn::WARP ? power_of_two(PAIRS) : gdn::WARP;
  static constexpr int SHARERS = gdn::WARP / WIDTH;          // lanes that get one sum
  static constexpr int TURNS = (PAIRS + WIDTH - 1) / WIDTH;  // of a warp, whose lanes have a pair's sum each
  static constexpr int COUNT = GDN_K / Threads;              // channels of a thread, side by side
  using Products = float[TURNS][WIDTH];
  using Sums = float[Threads / gdn::WARP][TURNS * WIDTH];
  using Numbers = __nv_bfloat16[Tokens][COUNT];
  static_assert(COUNT * Threads == GDN_K && COUNT <= 2, "all channels are some thread's");

  Numbers gates, key, query;
  __nv_bfloat16 write;
  float bias[COUNT], A;

  static __device__ __forceinline__ unsigned column() { return threadIdx.x * COUNT; }

  // A thread's numbers, which lie side by side in memory.
  template <class Number>
  static __device__ __forceinline__ void copy(Number (&to)[COUNT], const Number* from) {
    struct alignas(COUNT * sizeof(Number)) All {
      Number numbers[COUNT];
    };
    const All all = *reinterpret_cast<const All*>(from);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = all.numbers[i];
  }

  // From a token on. Pairs are those of threads from `first` on.
  __device__ __forceinline__ void load(const Block& block, int token = 0, unsigned first = 0) {
    const unsigned own = threadIdx.x - first;
    if (own < TRIANGLE) write = block.logits[(token + token_of_pair<Tokens>(own)) * GDN_H];
    if (threadIdx.x >= Threads) return;  // a warp that waits for less
    A = *block.A_log;
    copy(bias, block.dt_bias + column());
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
      const __nv_bfloat16* const own_query = block.queries + (token + t) * MIXED + column();
      copy(gates[t], block.gates + (token + t) * QUERIES + column());
      copy(query[t], own_query);
      copy(key[t], own_query + QUERIES);
    }
  }

  // Writes each warp's sums of products.
  static __device__ __forceinline__ void sum(Products& products, Sums& sums) {
    const unsigned warp = threadIdx.x / gdn::WARP, lane = threadIdx.x % gdn::WARP;
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const float sum = own_sum<WIDTH>(products[turn], lane);
      if (lane % SHARERS == 0) sums[warp][turn * WIDTH + lane / SHARERS] = sum;
    }
  }

  // Beta of the token of a thread's pair.
  __device__ __forceinline__ float own_write(float beta_limit) const {
    return beta_limit * sigmoid(__bfloat162float(write));
  }

  // Of all warps' sums, behind a barrier; a thread for each pair i, j.
  static __device__ __forceinline__ void find_factors(const Sums& sums, float scale, float write,
                                                      Factors<Tokens>& factors, unsigned first = 0) {
    const unsigned own = threadIdx.x - first;
    if (own >= TRIANGLE) return;
    const int i = token_of_pair<Tokens>(own), j = own - pair(i, 0);
    const auto sum = [&](int place) {
      float all = 0.f;
#pragma unroll
      for (int warp = 0; warp < Threads / gdn::WARP; ++warp) all += sums[warp][place];
      return all;
    };
    const float k_norm = rsqrtf(sum(pair(i, i)) + EPS);
    const float q_norm = rsqrtf(sum(2 * TRIANGLE + i) + EPS) * scale;
    const float key_write = write * k_norm;  // w has its key's norm in it, so that keys are used as they are
    factors.written_written[own] = key_write * k_norm * sum(own);
    factors.output_written[own] = q_norm * sum(TRIANGLE + own);
    if (j > 0) return;
    factors.written_value[i] = key_write;
    factors.written_state[i] = key_write * k_norm;
    factors.output_state[i] = q_norm;
  }

  // Writes vectors, and adds the products of a thread's channels to those that are given.
  template <class AllVectors>
  __device__ __forceinline__ void multiply(float lower_bound, AllVectors& vectors, Products& products) const {
    const float rate = gdn::exp2_mufu(LOG2_E * A);
    const auto add = [&](int place, const float(&x)[COUNT], const float(&y)[COUNT]) {
      float& sum = products[place / WIDTH][place % WIDTH];
#pragma unroll
      for (int i = 0; i < COUNT; ++i) sum = fmaf(x[i], y[i], sum);
    };
    using OfThread = float[COUNT];
    OfThread k[Tokens], q[Tokens], d[Tokens], all;
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
      OfThread all_k, all_q;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        k[t][i] = __bfloat162float(key[t][i]), q[t][i] = __bfloat162float(query[t][i]);
        d[t][i] = decay(__bfloat162float(gates[t][i]) + bias[i], rate, lower_bound);
        all[i] = t == 0 ? d[t][i] : all[i] * d[t][i];
        all_k[i] = all[i] * k[t][i], all_q[i] = all[i] * q[t][i];
      }
      vectors.set_of_state(2 * t, column(), all_k);
      vectors.set_of_state(2 * t + 1, column(), all_q);
      if (IsEach) vectors.set_kept(t, column(), d[t]);
    }
    if (!IsEach) vectors.set_kept(0, column(), all);
#pragma unroll
    for (int j = 0; j < Tokens; ++j) {
      OfThread decayed;  // D(i, j) * k_j
#pragma unroll
      for (int i = 0; i < COUNT; ++i) decayed[i] = k[j][i];
#pragma unroll
      for (int i = j; i < Tokens; ++i) {
#pragma unroll
        for (int own = 0; own < (i > j ? COUNT : 0); ++own) decayed[own] *= d[i][own];
        add(pair(i, j), k[i], decayed);
        add(TRIANGLE + pair(i, j), q[i], decayed);
      }
      add(2 * TRIANGLE + j, q[j], q[j]);
      vectors.set_written(j, column(), IsEach ? k[j] : decayed);
    }
  }
};

}  // namespace kda
