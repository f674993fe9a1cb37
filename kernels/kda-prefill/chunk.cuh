// What chunks of 64 tokens tell without the state, in the names of the op's numerics.py: W, Y, P, and what queries and
// keys have decayed by. The first launch of kda-prefill-v1; tensor cores by warps as in prefill-v1, which shares them.
//
// No exponential is taken but each token's own decay: all ratios G_i / G_j are products of decays, and so at most 1. A
// pair of tokens i > j lies in the two halves of one group of 2, 4, …, 64 tokens that begins at a multiple of its size.
// There G_i / G_j is the product from the second half's beginning to i, times that after j to the first half's end. So
// for each size keys and queries are multiplied with their part, and a product of matrices gives all pairs of the size.
#pragma once
#define GDN_HQ GDN_H
#define GDN_HV GDN_H
#include "../prefill/scan.cuh"

namespace kda {

using namespace gdn;

constexpr float EPS = 1e-6f;  // below the root of a norm
constexpr int THREADS = 256;
constexpr int OWN = 8;  // tokens of a warp
constexpr int VALUE_TILES = GDN_V / TILE;
static_assert(GDN_K == 4 * WARP && CHUNK == OWN * THREADS / WARP, "a lane has four channels of its warp's tokens");
static_assert(VALUE_TILES <= THREADS / WARP, "a warp has no more than a tile of values");

// What all rows of the state take of a chunk of a head,
struct alignas(128) Alike {
  Rows y;              // (I + A)^-1 diag(beta) (G ∘ K)
  Rows queries, keys;  // scale Q ∘ G, and K ∘ (G_C / G)
  Triangle products;   // scale P
  float whole[GDN_K];  // G_C
};

// and W, in lanes' order, of so many tiles of values.
template <int Tiles>
struct Ready {
  Alike alike;
  uint4 w[Tiles][SIDE][WARP];
};
using AllReady = Ready<VALUE_TILES>;

// Rows of keys or queries that products within a chunk are made of; the eight that ldmatrix reads lie in other banks.
constexpr int PITCH = GDN_K * 2 + 16;  // bytes
struct alignas(16) Parts {
  char rows[CHUNK * PITCH];
};

struct ChunkMemory {
  union {
    struct {
      alignas(1024) Rows y, queries, keys, decayed;
    };
    struct {
      Parts later[2], earlier;  // of two sizes of groups; of the earlier tokens the second's from row CHUNK / 2 on
    };
  };
  alignas(1024) Triangle products;
  union {
    alignas(1024) Triangle solved;
    float4 logs[THREADS / WARP][WARP];  // of the decays of a warp's tokens, their sum
  };
  alignas(1024) __nv_bfloat16 values[CHUNK * GDN_V];
  float whole[GDN_K];
  alignas(16) Coupling coupling;
  float4 kept[THREADS / WARP][WARP];                    // of all tokens of a warp
  alignas(16) float key[CHUNK], query[CHUNK];           // 1 / |k| and scale / |q|
  alignas(16) float beta[CHUNK];
};

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.f + exp2_fast(-LOG2_E * x)); }

// log2 of what a channel keeps; `slope` is -LOG2_E times the head's rate, and the bound is that of log2, too.
__device__ __forceinline__ float log_decay(float x, float slope, float bound) {
#if GDN_GATE == 1
  return bound * reciprocal(1.f + exp2_fast(slope * x));
#else
  return slope * (fmaxf(x, 0.f) + log1pf(exp2_fast(-LOG2_E * fabsf(x))));
#endif
}

__device__ __forceinline__ float4 times(float4 x, float4 y) {
  return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
}

__device__ __forceinline__ float4 exp2_of(float4 x) {
  return make_float4(exp2_fast(x.x), exp2_fast(x.y), exp2_fast(x.z), exp2_fast(x.w));
}

// A lane's channels of its warp's tokens, as they come.
struct Raw {
  uint2 k[OWN], q[OWN], g[OWN];

  // After the sequence's end nothing is written, and by a gate of minus infinity nothing decays.
  __device__ __forceinline__ void load(const __nv_bfloat16* keys, const __nv_bfloat16* queries,
                                       const __nv_bfloat16* gates, int tokens) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      k[i] = q[i] = make_uint2(0, 0), g[i] = make_uint2(0xff80ff80u, 0xff80ff80u);
      if (i < tokens) {
        k[i] = load_bits(keys + i * (GDN_H * GDN_K));
        q[i] = load_bits(queries + i * (GDN_H * GDN_K));
        g[i] = load_bits(gates + i * (GDN_H * GDN_K));
      }
    }
  }
};

// The same, times the products of decays in a group of tokens.
struct Decayed {
  float4 key[OWN], query[OWN];  // times the decays from the group's first token on
  float4 earlier[OWN];          // keys, times those after the token
  float4 kept[OWN];             // of a group, at its first token

  // The decays, and the sum of their logarithms.
  __device__ __forceinline__ float4 set_decays(const uint2 (&g)[OWN], float4 bias, float slope, float bound) {
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      const float4 x = gdn::widen(g[i]);
      const float4 log = make_float4(
          log_decay(x.x + bias.x, slope, bound), log_decay(x.y + bias.y, slope, bound),
          log_decay(x.z + bias.z, slope, bound), log_decay(x.w + bias.w, slope, bound));
      sum = add_scaled(sum, 1.f, log);
      kept[i] = exp2_of(log);
    }
    return sum;
  }
  __device__ __forceinline__ void set_rows(const Raw& raw, const float* key_factors, const float* query_factors) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      earlier[i] = scaled(key_factors[i], gdn::widen(raw.k[i]));
      key[i] = times(earlier[i], kept[i]);
      query[i] = times(scaled(query_factors[i], gdn::widen(raw.q[i])), kept[i]);
    }
  }
  // From groups of so many tokens to those of twice as many.
  template <int Half>
  __device__ __forceinline__ void widen() {
#pragma unroll
    for (int begin = 0; begin < OWN; begin += 2 * Half) {
      const float4 first = kept[begin], second = kept[begin + Half];
#pragma unroll
      for (int i = begin; i < begin + Half; ++i) {
        earlier[i] = times(earlier[i], second);
        key[i + Half] = times(key[i + Half], first);
        query[i + Half] = times(query[i + Half], first);
      }
      kept[begin] = times(first, second);
    }
  }
  // To a group of which this warp is in the later half, or in the earlier one; the other half keeps so much.
  __device__ __forceinline__ void widen(bool is_later, float4 by) {
    if (is_later) {
#pragma unroll
      for (int i = 0; i < OWN; ++i) key[i] = times(key[i], by), query[i] = times(query[i], by);
    } else {
#pragma unroll
      for (int i = 0; i < OWN; ++i) earlier[i] = times(earlier[i], by);
    }
  }
};

__device__ __forceinline__ void store_quad(void* to, float4 x) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
}

__device__ __forceinline__ void store_quad(Rows& to, int token, unsigned lane, float4 x) {
  store_quad(reinterpret_cast<char*>(to) + banded<CHUNK>(token, lane / 2) + lane % 2 * 8, x);
}

// A warp's rows of A's and P's diagonal tiles, zeros but for P_ii.
__device__ __forceinline__ void begin_diagonal(ChunkMemory& memory, float product, int warp, unsigned lane) {
  float4* const coupling = reinterpret_cast<float4*>(memory.coupling.diagonal[warp / 2].tile[warp % 2 * OWN]);
  for (int i = lane; i < OWN * (TILE + 4) / 4; i += WARP) coupling[i] = make_float4(0.f, 0.f, 0.f, 0.f);
  const int row = lane / 2, half = lane % 2;
  const unsigned own = pack_bf16(__shfl_sync(ALL_LANES, product, row % OWN * 4), 0.f);
  if (row >= OWN) return;
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = half == warp % 2 && i == row / 2 ? own << row % 2 * 16 : 0;
  *reinterpret_cast<uint4*>(reinterpret_cast<char*>(memory.products) +
                            banded<CHUNK>(warp * OWN + row, warp / 2 * 2 + half)) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

// The norms of a warp's tokens, and P_ii.
__device__ __forceinline__ void take_norms(ChunkMemory& memory, const Raw& raw, float scale, int warp, unsigned lane) {
  float squares[2 * OWN], products[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const float4 k = gdn::widen(raw.k[i]), q = gdn::widen(raw.q[i]);
    squares[i] = dot(k, k);
    squares[OWN + i] = dot(q, q);
    products[i] = dot(k, q);
  }
  scatter_sums<WARP, 1>(squares, lane);   // two lanes have one
  scatter_sums<WARP, 1>(products, lane);  // and four
  const bool is_key = lane < WARP / 2;
  const float factor = (is_key ? 1.f : scale) * rsqrtf(squares[0] + EPS);
  (is_key ? memory.key : memory.query)[warp * OWN + lane / 2 % OWN] = factor;
  const float of_key = __shfl_sync(ALL_LANES, factor, lane / 4 * 2);
  const float of_query = __shfl_sync(ALL_LANES, factor, WARP / 2 + lane / 4 * 2);
  begin_diagonal(memory, products[0] * of_key * of_query, warp, lane);
  __syncwarp();
}

// Tokens of groups of 2 Half: those in second halves are later, the others earlier, 32 of each, which are numbered.
template <int Half>
struct Groups {
  static __device__ __forceinline__ constexpr int number(int token) { return token / (2 * Half) * Half + token % Half; }
  static __device__ __forceinline__ int later(int number) { return earlier(number) + Half; }
  static __device__ __forceinline__ int earlier(int number) { return number / Half * (2 * Half) + number % Half; }
};

// The later tokens' keys and queries, of 8 after those of 8, and the earlier ones' keys from row `first` on.
template <int Half>
__device__ __forceinline__ void store_parts(Parts& later, Parts& earlier, int first, const Decayed& rows, int warp,
                                            unsigned lane) {
  const int begin = Groups<Half>::number(warp * OWN);
  char* const to_later = later.rows + (begin / 8 * TILE + begin % 8) * PITCH + lane * 8;
  char* const to_earlier = earlier.rows + (first + begin) * PITCH + lane * 8;
  const auto store = [&](int i, int number, bool is_later) {
    if (is_later) {
      store_quad(to_later + number * PITCH, rows.key[i]);
      store_quad(to_later + (number + 8) * PITCH, rows.query[i]);
    } else {
      store_quad(to_earlier + number * PITCH, rows.earlier[i]);
    }
  };
  if (Half < OWN) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, Groups<Half>::number(i), i & Half);
  } else if (warp * OWN & Half) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, i, true);
  } else {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, i, false);
  }
}

// Stores beta_i times the products of keys into A, those of queries into P, for a pair of columns or for one.
template <bool IsPair>
__device__ __forceinline__ void store_products(ChunkMemory& memory, int row, int column, const float* keys,
                                               const float* queries) {
  const float beta = memory.beta[row];
  const int row_tile = row / TILE, column_tile = column / TILE, r = row % TILE, c = column % TILE;
  char* const product = reinterpret_cast<char*>(memory.products) + banded<CHUNK>(row, column / 8) + column % 8 * 2;
  if (IsPair) {
    *reinterpret_cast<unsigned*>(product) = pack_bf16(queries[0], queries[1]);
    if (row_tile == column_tile)
      *reinterpret_cast<float2*>(&memory.coupling.diagonal[row_tile].tile[r][c]) =
          make_float2(beta * keys[0], beta * keys[1]);
    else
      *reinterpret_cast<unsigned*>(memory.coupling.below[tile_below(row_tile, column_tile)].places +
                                   HalfTile::place(r, c / 8) + c % 8) = pack_fp16(beta * keys[0], beta * keys[1]);
  } else {
    *reinterpret_cast<__nv_bfloat16*>(product) = __float2bfloat16(queries[0]);
    memory.coupling.diagonal[row_tile].tile[r][c] = beta * keys[0];
  }
}

// The products of 8 later tokens, those numbered from 8 block on, with the earlier ones of their groups.
template <int Half>
__device__ __forceinline__ void take_pairs(ChunkMemory& memory, const Parts& later, int first, int block,
                                           unsigned lane) {
  constexpr int COLUMNS = Half > 8 ? Half / 8 : 1;  // of 8 earlier tokens
  const int from = block / COLUMNS * COLUMNS;
  const unsigned x = shared_address(later.rows) + (block * TILE + lane % 16) * PITCH + lane / 16 * 16;
  const unsigned y = shared_address(memory.earlier.rows) + (first + from * 8 + lane % 8) * PITCH + lane / 8 * 16;
  Sum sums[COLUMNS] = {};
#pragma unroll
  for (int k = 0; k < KEY_TILES; k += 2) {
    Operand left[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      load_matrices(left[i], x + (k + i) * 32);
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) {
      unsigned right[4];
      load_matrices(right, y + n * (8 * PITCH) + k * 32);
      mma_bf16(sums[n], left[0], right[0], right[1]);
      mma_bf16(sums[n], left[1], right[2], right[3]);
    }
  }
  const int later_number = block * 8 + lane / 4;
  const int row = Groups<Half>::later(later_number);
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) {
    const int number = (from + n) * 8 + lane % 4 * 2;
    if (Half > 1) {
      if (later_number / Half == number / Half)
        store_products<true>(memory, row, Groups<Half>::earlier(number), &sums[n][0], &sums[n][2]);
    } else if (later_number / 2 == number / 2) {  // the pair has the token before
      const int second = later_number % 2;
      const float key = second ? sums[n][1] : sums[n][0], query = second ? sums[n][3] : sums[n][2];
      store_products<false>(memory, row, row - 1, &key, &query);
    }
  }
}

// Two sizes of groups, four warps each.
template <int Half>
__device__ __forceinline__ void take_two(ChunkMemory& memory, int warp, unsigned lane) {
  if (warp < SIDE)
    take_pairs<Half>(memory, memory.later[0], 0, warp, lane);
  else
    take_pairs<2 * Half>(memory, memory.later[1], CHUNK / 2, warp - SIDE, lane);
}

// (X [CHUNK, columns] in shared memory)^T T^T for 16 columns: what is solved for, transposed.
__device__ __forceinline__ void solve(Sum (&sums)[TOKEN_PAIRS], unsigned x, const Triangle& solved, int tile,
                                      unsigned lane) {
  Operand columns[SIDE];
  load_values(columns, x, tile, lane, banded<CHUNK>);
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.f;
  add_triangle(sums, columns, solved, lane);
}

__device__ __forceinline__ void store_columns(Rows& to, const Sum (&sums)[TOKEN_PAIRS], int tile, unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int lower = 0; lower < 2; ++lower)
      *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(to) +
                                   banded<CHUNK>(n * 8 + lane / 4, 2 * tile + lower) + lane % 4 * 4) =
          transpose(pack_bf16(sums[n][2 * lower], sums[n][2 * lower + 1]));
}

// Copies what the block has in shared memory, by bulk copies where there are any.
template <class T>
__device__ __forceinline__ void store_ready(T& to, const T& from) {
  store_block<THREADS>(&to, &from, sizeof(T));
}

// Block (h, i): chunk i of head h.
__device__ __forceinline__ void prepare(ChunkMemory& memory, const __nv_bfloat16* q, const __nv_bfloat16* k,
                                        const __nv_bfloat16* v, const __nv_bfloat16* g, const __nv_bfloat16* b,
                                        const float* A_log, const float* dt_bias, const long long* cu_seqlens,
                                        float scale, float lower_bound, AllReady* ready, int sequences) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  const int head = blockIdx.x, chunk = blockIdx.y;
  const Span span = find_chunk(cu_seqlens, sequences, chunk, lane);
  load_tile<GDN_V / 8, THREADS>(shared_address(memory.values), v + (span.begin * GDN_H + head) * GDN_V,
                                GDN_H * GDN_V, span.tokens, threadIdx.x, banded<CHUNK>);
  const float slope = -LOG2_E * exp2_fast(LOG2_E * A_log[head]);
  const float4 bias = reinterpret_cast<const float4*>(dt_bias + head * GDN_K)[lane];
  const int tokens = span.tokens - warp * OWN;
  const long long token = span.begin + warp * OWN, first = (token * GDN_H + head) * GDN_K + 4 * lane;
  Raw raw;
  Decayed rows;
  raw.load(k + first, q + first, g + first, tokens);
  if (lane < OWN)
    memory.beta[warp * OWN + lane] =
        static_cast<int>(lane) < tokens ? sigmoid(__bfloat162float(b[(token + lane) * GDN_H + head])) : 0.f;
  take_norms(memory, raw, scale, warp, lane);
  memory.logs[warp][lane] = rows.set_decays(raw.g, bias, slope, LOG2_E * lower_bound);
  rows.set_rows(raw, memory.key + warp * OWN, memory.query + warp * OWN);
  store_parts<1>(memory.later[0], memory.earlier, 0, rows, warp, lane);
  rows.widen<1>();
  store_parts<2>(memory.later[1], memory.earlier, CHUNK / 2, rows, warp, lane);
  rows.widen<2>();
  if (warp == 0) clear_above(memory.products, lane);
  __syncthreads();
  take_two<1>(memory, warp, lane);
  if (warp == 0) {
    float4 sum = memory.logs[0][lane];
#pragma unroll
    for (int i = 1; i < THREADS / WARP; ++i) sum = add_scaled(sum, 1.f, memory.logs[i][lane]);
    reinterpret_cast<float4*>(memory.whole)[lane] = exp2_of(sum);
    __syncwarp();
    clear_above(memory.solved, lane);
  }
  __syncthreads();
  store_parts<4>(memory.later[0], memory.earlier, 0, rows, warp, lane);
  rows.widen<4>();
  store_parts<8>(memory.later[1], memory.earlier, CHUNK / 2, rows, warp, lane);
  memory.kept[warp][lane] = rows.kept[0];
  __syncthreads();
  take_two<4>(memory, warp, lane);
  __syncthreads();
  const auto kept = [&](int of) { return memory.kept[of][lane]; };
  rows.widen(warp & 1, kept(warp ^ 1));
  store_parts<16>(memory.later[0], memory.earlier, 0, rows, warp, lane);
  const int half = (warp ^ 2) & ~1, others = (warp ^ 4) & ~3;
  rows.widen(warp & 2, times(kept(half), kept(half + 1)));
  store_parts<32>(memory.later[1], memory.earlier, CHUNK / 2, rows, warp, lane);
  rows.widen(warp & 4, times(times(kept(others), kept(others + 1)), times(kept(others + 2), kept(others + 3))));
  __syncthreads();
  take_two<16>(memory, warp, lane);
  __syncthreads();

#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    store_quad(memory.decayed, warp * OWN + i, lane, rows.key[i]);
    store_quad(memory.queries, warp * OWN + i, lane, rows.query[i]);
    store_quad(memory.keys, warp * OWN + i, lane, rows.earlier[i]);
  }
  if (warp < SIDE) invert_tiles<1>(&memory.coupling, warp, lane);
  wait_for_copies();
  __syncthreads();
  if (warp < SIDE) solve_row(memory.solved, memory.coupling, memory.beta, warp, lane);
  __syncthreads();
  AllReady& to = ready[static_cast<size_t>(chunk) * GDN_H + head];
  Sum sums[TOKEN_PAIRS];
  solve(sums, shared_address(memory.decayed), memory.solved, warp, lane);
  store_columns(memory.y, sums, warp, lane);
  if (warp < VALUE_TILES) {
    solve(sums, shared_address(memory.values), memory.solved, warp, lane);
    Operand w[SIDE];
    narrow_tokens(w, sums);
#pragma unroll
    for (int i = 0; i < SIDE; ++i) to.w[warp][i][lane] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
  }
  __syncthreads();
  store_ready(to.alike.y, memory.y);
  store_ready(to.alike.queries, memory.queries);
  store_ready(to.alike.keys, memory.keys);
  store_ready(to.alike.products, memory.products);
  store_ready(to.alike.whole, memory.whole);
  wait_for_block_stores();
}

}  // namespace kda
