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
#define GROUPS 1  // warpgroups of rows of the state
#include "../prefill/inverse.cuh"
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
  union {
    alignas(1024) __nv_bfloat16 values[CHUNK * GDN_V];
    uint4 w[VALUE_TILES][SIDE][WARP];
  };
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

  // Groups of so many tokens from `begin` on, each token set by `token`. A group's halves are done
  // one after the other, so that few numbers wait in registers.
  template <int Size, class Token>
  __device__ __forceinline__ void take(int begin, const Token& token) {
    if constexpr (Size == 1) {
      token(*this, begin);
    } else {
      take<Size / 2>(begin, token);
      take<Size / 2>(begin + Size / 2, token);
      widen<Size / 2>(begin);
    }
  }
  // From groups of so many tokens to one of twice as many.
  template <int Half>
  __device__ __forceinline__ void widen(int begin) {
    const float4 first = kept[begin], second = kept[begin + Half];
#pragma unroll
    for (int i = begin; i < begin + Half; ++i) {
      earlier[i] = times(earlier[i], second);
      key[i + Half] = times(key[i + Half], first);
      query[i + Half] = times(query[i + Half], first);
    }
    kept[begin] = times(first, second);
  }
  // The same for all groups.
  template <int Half>
  __device__ __forceinline__ void widen_all() {
#pragma unroll
    for (int begin = 0; begin < OWN; begin += 2 * Half) widen<Half>(begin);
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
  float squares[2 * OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const float4 k = gdn::widen(raw.k[i]), q = gdn::widen(raw.q[i]);
    squares[i] = dot(k, k);
    squares[OWN + i] = dot(q, q);
  }
  scatter_sums<WARP, 1>(squares, lane);  // two lanes have one
  const bool is_key = lane < WARP / 2;
  const float factor = (is_key ? 1.f : scale) * rsqrtf(squares[0] + EPS);
  (is_key ? memory.key : memory.query)[warp * OWN + lane / 2 % OWN] = factor;
#if GDN_GATE != 1
  float products[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) products[i] = dot(gdn::widen(raw.k[i]), gdn::widen(raw.q[i]));
  scatter_sums<WARP, 1>(products, lane);  // four lanes have one
  const float of_key = __shfl_sync(ALL_LANES, factor, lane / 4 * 2);
  const float of_query = __shfl_sync(ALL_LANES, factor, WARP / 2 + lane / 4 * 2);
  begin_diagonal(memory, products[0] * of_key * of_query, warp, lane);
#endif
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

// With a bound on the gate, eight tokens keep no less than e^-40, whose reciprocal bf16 holds: a tile of 16 tokens needs no
// smaller groups. All is kept from the tile's middle to a token or, of those before it, divided by what they lose to there.
__device__ __forceinline__ void store_tile_parts(ChunkMemory& memory, const Decayed& rows, int warp, unsigned lane) {
  const float4 x = rows.kept[0];
  const float4 back = make_float4(reciprocal(x.x), reciprocal(x.y), reciprocal(x.z), reciprocal(x.w));
  const int place = warp * OWN * PITCH + lane * 8;
  char *const keys = memory.later[0].rows + place, *const queries = memory.later[1].rows + place;
  char* const earlier = memory.earlier.rows + place;
  if (warp % 2) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      store_quad(keys + i * PITCH, rows.key[i]);
      store_quad(queries + i * PITCH, rows.query[i]);
      store_quad(earlier + i * PITCH, times(rows.earlier[i], back));
    }
  } else {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      store_quad(keys + i * PITCH, times(rows.key[i], back));
      store_quad(queries + i * PITCH, times(rows.query[i], back));
      store_quad(earlier + i * PITCH, rows.earlier[i]);
    }
  }
}

// By a warp: the inverse of I and a diagonal tile of A, or one of P if `of_queries`.
__device__ __forceinline__ void take_tile(ChunkMemory& memory, int tile, bool of_queries, unsigned lane) {
  const unsigned row = tile * TILE + lane % 16, piece = lane / 16 * 16;
  const unsigned x = shared_address(memory.later[of_queries].rows) + row * PITCH + piece;
  const unsigned y = shared_address(memory.earlier.rows) + (tile * TILE + lane / 16 * 8 + lane % 8) * PITCH +
                     lane / 8 % 2 * 16;
  TileSums sums = {};
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    Operand left;
    unsigned right[4];
    load_matrices(left, x + k * 32);
    load_matrices(right, y + k * 32);
    mma_bf16(sums[0], left, right[0], right[1]);
    mma_bf16(sums[1], left, right[2], right[3]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = lane / 4 + i / 2 * 8, c = half * 8 + lane % 4 * 2 + i % 2;
      if (c >= r + of_queries) sums[half][i] = 0.f;
    }
  if (of_queries) {
    const unsigned pairs[2][2] = {{pack_bf16(sums[0][0], sums[0][1]), pack_bf16(sums[1][0], sums[1][1])},
                                  {pack_bf16(sums[0][2], sums[0][3]), pack_bf16(sums[1][2], sums[1][3])}};
    store_tile(memory.products, tile, tile, pairs, lane);
    return;
  }
  const float beta[2] = {memory.beta[tile * TILE + lane / 4], memory.beta[tile * TILE + lane / 4 + 8]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[half][i] *= beta[i / 2];
  Coupling::Diagonal& diagonal = memory.coupling.diagonal[tile];
  static_assert(sizeof(DiagonalBlocks) <= sizeof(diagonal.tile), "the tile's place is free");
  Operand inverse;
  invert_tile(inverse, reinterpret_cast<DiagonalBlocks&>(diagonal.tile), sums, lane);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<unsigned*>(diagonal.inverse.places + HalfTile::place(lane / 4 + i % 2 * 8, i / 2) +
                                 lane % 4 * 2) = inverse[i];
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

// What chunks are prepared from, of all tokens and heads.
struct Inputs {
  const __nv_bfloat16 *q, *k, *v, *g, *b;
  const float *A_log, *dt_bias;
  float scale, lower_bound;
};

// By a block whose last barrier came after a chunk was prepared: copies it. Until wait_for_block_stores, shared memory
// may not be written.
__device__ __forceinline__ void store_chunk(AllReady& to, const ChunkMemory& memory) {
  store_block<THREADS>(&to.alike.y, &memory.y, sizeof(Rows));
  store_block<THREADS>(&to.alike.queries, &memory.queries, sizeof(Rows));
  store_block<THREADS>(&to.alike.keys, &memory.keys, sizeof(Rows));
  store_block<THREADS>(&to.alike.products, &memory.products, sizeof(Triangle));
  store_block<THREADS>(&to.alike.whole, &memory.whole, sizeof(memory.whole));
  store_block<THREADS>(&to.w, &memory.w, sizeof(memory.w));
}

// By a block: prepares a chunk of a head in shared memory, in the places that store_chunk copies. What it stored from
// there before may still be read: it waits for that once the chunk's tokens are on their way. It does `early` a little
// later, and `late` before the last barrier.
template <class Early, class Late>
__device__ __forceinline__ void prepare_chunk(ChunkMemory& memory, const Inputs& in, int head, const Span& span,
                                              Early early, Late late) {
  // Addresses are worked out for each chunk: all of them would fill registers. A shuffle hides where the number comes
  // from, which ptxas would read anew at each use.
  const unsigned thread = __shfl_xor_sync(ALL_LANES, worked_out_anew(threadIdx.x), 0), lane = thread % WARP;
  const unsigned warp = uniform(thread / WARP);
  const float slope = -LOG2_E * exp2_fast(LOG2_E * in.A_log[head]);
  const float4 bias = reinterpret_cast<const float4*>(in.dt_bias + head * GDN_K)[lane];
  const int tokens = span.tokens - warp * OWN;
  const long long token = span.begin + warp * OWN, first = (token * GDN_H + head) * GDN_K + 4 * lane;
  Raw raw;
  Decayed rows;
  raw.load(in.k + first, in.q + first, in.g + first, tokens);
  wait_for_block_stores();
  __syncthreads();
  load_tile<GDN_V / 8, THREADS>(shared_address(memory.values), in.v + (span.begin * GDN_H + head) * GDN_V,
                                GDN_H * GDN_V, span.tokens, thread, banded<CHUNK>);
  if (lane < OWN)
    memory.beta[warp * OWN + lane] =
        static_cast<int>(lane) < tokens ? sigmoid(__bfloat162float(in.b[(token + lane) * GDN_H + head])) : 0.f;
  take_norms(memory, raw, in.scale, warp, lane);
  float4 logs = make_float4(0.f, 0.f, 0.f, 0.f);
  const float bound = LOG2_E * in.lower_bound;
  const auto take_token = [&](Decayed& to, int i) {
    const float4 x = gdn::widen(raw.g[i]);
    const float4 log = make_float4(log_decay(x.x + bias.x, slope, bound), log_decay(x.y + bias.y, slope, bound),
                                   log_decay(x.z + bias.z, slope, bound), log_decay(x.w + bias.w, slope, bound));
    logs = add_scaled(logs, 1.f, log);
    to.kept[i] = exp2_of(log);
    to.earlier[i] = scaled(memory.key[warp * OWN + i], gdn::widen(raw.k[i]));
    to.key[i] = times(to.earlier[i], to.kept[i]);
    to.query[i] = times(scaled(memory.query[warp * OWN + i], gdn::widen(raw.q[i])), to.kept[i]);
  };
  if (warp == 0) clear_above(memory.products, lane);
  const auto find_whole = [&] {
    float4 sum = memory.logs[0][lane];
#pragma unroll
    for (int i = 1; i < THREADS / WARP; ++i) sum = add_scaled(sum, 1.f, memory.logs[i][lane]);
    reinterpret_cast<float4*>(memory.whole)[lane] = exp2_of(sum);
    __syncwarp();
    clear_above(memory.solved, lane);
  };
#if GDN_GATE == 1
  rows.take<OWN>(0, take_token);
  memory.logs[warp][lane] = logs;
  memory.kept[warp][lane] = rows.kept[0];
  store_tile_parts(memory, rows, warp, lane);
  __syncthreads();
  early();
  take_tile(memory, warp / 2, warp % 2, lane);
  if (warp == 1) find_whole();
  __syncthreads();
#else
#pragma unroll
  for (int i = 0; i < OWN; ++i) take_token(rows, i);
  memory.logs[warp][lane] = logs;
  store_parts<1>(memory.later[0], memory.earlier, 0, rows, warp, lane);
  rows.widen_all<1>();
  store_parts<2>(memory.later[1], memory.earlier, CHUNK / 2, rows, warp, lane);
  rows.widen_all<2>();
  __syncthreads();
  early();
  take_two<1>(memory, warp, lane);
  if (warp == 0) find_whole();
  __syncthreads();
  store_parts<4>(memory.later[0], memory.earlier, 0, rows, warp, lane);
  rows.widen_all<4>();
  store_parts<8>(memory.later[1], memory.earlier, CHUNK / 2, rows, warp, lane);
  memory.kept[warp][lane] = rows.kept[0];
  __syncthreads();
  take_two<4>(memory, warp, lane);
  __syncthreads();
#endif
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
#if GDN_GATE != 1
  if (warp < SIDE) invert_tiles<1>(&memory.coupling, warp, lane);
  __syncthreads();
#endif
  wait_for_copies();
  if (warp < SIDE) solve_row(memory.solved, memory.coupling, memory.beta, warp, lane);
  __syncthreads();
  Sum sums[TOKEN_PAIRS];
  solve(sums, shared_address(memory.decayed), memory.solved, warp, lane);
  store_columns(memory.y, sums, warp, lane);
  Operand w[SIDE];
  if (warp < VALUE_TILES) {
    solve(sums, shared_address(memory.values), memory.solved, warp, lane);
    narrow_tokens(w, sums);
  }
  __syncthreads();
  if (warp < VALUE_TILES) {
#pragma unroll
    for (int i = 0; i < SIDE; ++i) memory.w[warp][i][lane] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
  }
  late();
  __syncthreads();
}

}  // namespace kda
