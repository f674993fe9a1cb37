// A chunk prepared by a team of eight warps, of which two have sixteen tokens, where gates have a bound of 5 nats a token.
//
// Sixteen tokens keep no less than e^-80, whose reciprocal bf16 holds, too. So the products of 32 tokens with each other are
// one product of matrices, of what is kept since the middle and, before it, of what is kept divided by all that is lost to
// there. Those of the later with the earlier 32 are one more, of the same later rows, and of earlier ones times what is kept
// between the middles. All are taken between the same two barriers.
#pragma once
#include "ring.cuh"

namespace kda {

static_assert(GDN_GATE == 1, "the products of sixteen decays have reciprocals");
constexpr int TEAMS = 2;  // in a block
constexpr int TEAM = THREADS / TEAMS;
static_assert(TEAM == 2 * SIDE * WARP && KEY_TILES == 2 * SIDE && VALUE_TILES == 2 * SIDE, "a team has 8 warps");

constexpr int EARLIER = CHUNK + CHUNK / 2;

// By all warps of a team.
__device__ __forceinline__ void synchronise(int team) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(TEAM) : "memory");
}

struct TeamMemory {
  union {
    struct {
      alignas(1024) Rows y, queries, keys, decayed;
    };
    struct {  // what products are made of
      Rows near_keys, near_queries;
      __nv_bfloat16 earlier[EARLIER * GDN_K];  // of all tokens, with later ones of their 32, then of the first 32, with the others
    };
  };
  alignas(1024) Triangle products;
  union {
    alignas(1024) Triangle solved;
    struct {
      float2 kept[SIDE][PAIRS];                           // of all sixteen tokens
      float squares[GDN_K / (2 * WARP)][SIDE][2 * TILE];  // of a warp's channels: k·k, then q·q
      unsigned norms[2 * SIDE][TILE][2];                  // of a warp's tokens, pairs of 1 / |k| and scale / |q|
    };
  };
  alignas(1024) __nv_bfloat16 values[CHUNK * GDN_V];
  union {
    alignas(128) Coupling coupling;
    uint4 first_w[SIDE][SIDE][WARP];
  };
  uint4 second_w[SIDE][SIDE][WARP];
  float whole[GDN_K];
  alignas(16) float beta[CHUNK];
};

// A lane's two channels of its warp's sixteen tokens.
struct Sixteen {
  unsigned key[TILE], query[TILE], earlier[TILE];  // at first k, q and g
  unsigned kept[TILE];                             // from the first token on
  float2 whole;                                    // to the last

  // After the sequence's end nothing is written, and by a gate of minus infinity nothing decays.
  __device__ __forceinline__ void load_tokens(const Inputs& in, long long first, int tokens) {
    load(key, in.k + first, tokens, 0);
    load(query, in.q + first, tokens, 0);
  }
  static __device__ __forceinline__ void load(unsigned (&to)[TILE], const __nv_bfloat16* from, int tokens, unsigned none) {
    const auto pair = [&](int i) { return *reinterpret_cast<const unsigned*>(from + i * (GDN_H * GDN_K)); };
    if (tokens >= TILE) {  // as nearly always
#pragma unroll
      for (int i = 0; i < TILE; ++i) to[i] = pair(i);
    } else {
#pragma unroll
      for (int i = 0; i < TILE; ++i) to[i] = i < tokens ? pair(i) : none;
    }
  }

  // Makes of gates what is kept from the first token on, and from after a token to the end: products of decays, which are at
  // most 1.
  __device__ __forceinline__ void decay(const float* A_log, const float* dt_bias, float lower_bound) {
    const float2 bias = *reinterpret_cast<const float2*>(dt_bias);
    const float slope = -LOG2_E * exp2_fast(LOG2_E * *A_log), bound = LOG2_E * lower_bound;
    const float2 shift = times(slope, bias);
    const auto decay = [&](float x, float shift) {
      return exp2_fast(bound * reciprocal(1.f + exp2_fast(fmaf(slope, x, shift))));
    };
    float2 decays[TILE], after = make_float2(1.f, 1.f);
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
      const float2 x = unpack_bf16(earlier[i]);
      decays[i] = make_float2(decay(x.x, shift.x), decay(x.y, shift.y));
      whole = i == 0 ? decays[0] : times(whole, decays[i]);
      kept[i] = narrowed(whole);
    }
#pragma unroll
    for (int i = TILE - 1; i >= 0; --i) {
      earlier[i] = narrowed(after);
      after = times(after, decays[i]);
    }
  }

  // The warp's part of squares of keys, and of queries: of these 32 numbers each lane is left with that of `square_of`. Squares
  // in bf16 are added up by tensor cores: a product with ones in row i alone gives token i its sums of eight channels.
  __device__ __forceinline__ float take_squares(unsigned lane) const {
    Sum keys = {}, queries = {};
#pragma unroll
    for (int i = 0; i < TILE / 2; ++i) {
      const unsigned ones = lane / 4 == i ? 0x3f803f80u : 0;
      const Operand rows = {ones, 0, 0, ones};
      mma_bf16(keys, rows, times(key[i], key[i]), times(key[i + TILE / 2], key[i + TILE / 2]));
      mma_bf16(queries, rows, times(query[i], query[i]), times(query[i + TILE / 2], query[i + TILE / 2]));
    }
    float sums[4] = {keys[0] + keys[1], keys[2] + keys[3], queries[0] + queries[1], queries[2] + queries[3]};
    scatter_sums<4, 1>(sums, lane);
    return sums[0];
  }
  static __device__ __forceinline__ int square_of(unsigned lane) { return lane % 4 * (TILE / 2) + lane / 4; }

  // Keys and queries are divided by their norms, and decayed: from the first token on or, those of earlier tokens, to the end.
  __device__ __forceinline__ void normalise(const unsigned (&norms)[TILE][2]) {
#pragma unroll
    for (int i = 0; i < TILE; i += 2) {
      const uint4 by = *reinterpret_cast<const uint4*>(norms[i]);
#pragma unroll
      for (int n = i; n < i + 2; ++n) {
        const unsigned k = times(key[n], n == i ? by.x : by.z);
        query[n] = times(times(query[n], n == i ? by.y : by.w), kept[n]);
        earlier[n] = times(k, earlier[n]);
        key[n] = times(k, kept[n]);
      }
    }
  }
};

// What is kept of a pair of channels: before the own sixteen tokens, and after them; from there to the middle of the later 32,
// if they are earlier.
struct Kept {
  unsigned before, after, to_later;

  __device__ __forceinline__ Kept(TeamMemory& memory, int tile, int pair) {
    const float2 one = make_float2(1.f, 1.f);
    float2 all = one, products[3] = {one, one, one};
#pragma unroll
    for (int of = 0; of < SIDE; ++of) {
      const float2 own = memory.kept[of][pair];
      all = times(all, own);
      if (of < tile) products[0] = times(products[0], own);
      if (of > tile) products[1] = times(products[1], own);
      if (of > tile && of <= SIDE / 2) products[2] = times(products[2], own);
    }
    before = narrowed(products[0]), after = narrowed(products[1]), to_later = narrowed(products[2]);
    if (tile == 0) reinterpret_cast<float2*>(memory.whole)[pair] = all;
  }
};

// By a warp: the rows that products within the chunk are made of.
__device__ __forceinline__ void store_parts(TeamMemory& memory, const Sixteen& rows, const Kept& kept, int tile, int pair) {
  const unsigned back = narrowed(make_float2(reciprocal(rows.whole.x), reciprocal(rows.whole.y)));
  const auto store_earlier = [&](int row, unsigned x) {
    store_pair(reinterpret_cast<char*>(memory.earlier) + banded<EARLIER>(row, pair / 4) + pair % 4 * 4, x);
  };
  if (tile % 2) {
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
      store_pair(memory.near_keys, tile * TILE + i, pair, rows.key[i]);
      store_pair(memory.near_queries, tile * TILE + i, pair, rows.query[i]);
      store_earlier(tile * TILE + i, times(rows.earlier[i], back));
    }
  } else {
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
      store_pair(memory.near_keys, tile * TILE + i, pair, times(rows.key[i], back));
      store_pair(memory.near_queries, tile * TILE + i, pair, times(rows.query[i], back));
      store_earlier(tile * TILE + i, rows.earlier[i]);
    }
  }
  if (tile >= SIDE / 2) return;
#pragma unroll
  for (int i = 0; i < TILE; ++i) store_earlier(CHUNK + tile * TILE + i, times(rows.earlier[i], kept.to_later));
}

// Sums [64, EARLIER] of A [64, 16] and B [16, EARLIER], both in shared memory, B's columns as rows; added to the sums if Adds.
template <bool Adds>
__device__ __forceinline__ void multiply_earlier(Sum (&sums)[EARLIER / 8], unsigned long long a, unsigned long long b) {
#define KDA_SUM(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47}, %48, %49, adds, 1, 1, 0, 0; }"
      : KDA_SUM(0), KDA_SUM(1), KDA_SUM(2), KDA_SUM(3), KDA_SUM(4), KDA_SUM(5), KDA_SUM(6), KDA_SUM(7), KDA_SUM(8),
        KDA_SUM(9), KDA_SUM(10), KDA_SUM(11)
      : "l"(a), "l"(b), "n"(static_cast<int>(Adds)));
#undef KDA_SUM
}

__device__ __forceinline__ void store_queries(TeamMemory& memory, const TileSums& x, int row, int column, unsigned lane) {
  const unsigned pairs[2][2] = {{pack_bf16(x[0][0], x[0][1]), pack_bf16(x[1][0], x[1][1])},
                                {pack_bf16(x[0][2], x[0][3]), pack_bf16(x[1][2], x[1][3])}};
  store_tile(memory.products, row, column, pairs, lane);
}

// Keys' products times beta of the later token.
__device__ __forceinline__ void times_beta(TileSums& x, const TeamMemory& memory, int row, unsigned lane) {
  const float beta[2] = {memory.beta[row * TILE + lane / 4], memory.beta[row * TILE + lane / 4 + 8]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) x[half][i] *= beta[i / 2];
}

// A tile below the diagonal of A, or of P if `of_queries`.
__device__ __forceinline__ void store_below(TeamMemory& memory, TileSums& x, bool of_queries, int row, int column,
                                            unsigned lane) {
  if (of_queries) {
    store_queries(memory, x, row, column, lane);
    return;
  }
  times_beta(x, memory, row, lane);
  const Operand tile = {pack_fp16(x[0][0], x[0][1]), pack_fp16(x[0][2], x[0][3]), pack_fp16(x[1][0], x[1][1]),
                        pack_fp16(x[1][2], x[1][3])};
  store_matrices(half_tile_address(memory.coupling.below[tile_below(row, column)], lane), tile);
}

// And one on it, of A the inverse of it and I.
__device__ __forceinline__ void store_diagonal(TeamMemory& memory, TileSums& x, bool of_queries, int tile, unsigned lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = lane / 4 + i / 2 * 8, c = half * 8 + lane % 4 * 2 + i % 2;
      if (c >= r + of_queries) x[half][i] = 0.f;
    }
  if (of_queries) {
    store_queries(memory, x, tile, tile, lane);
    return;
  }
  times_beta(x, memory, tile, lane);
  Coupling::Diagonal& diagonal = memory.coupling.diagonal[tile];
  static_assert(sizeof(DiagonalBlocks) <= sizeof(diagonal.tile), "the tile's place is free");
  Operand inverse;
  invert_tile(inverse, reinterpret_cast<DiagonalBlocks&>(diagonal.tile), x, lane);
  __syncwarp();
  store_matrices(half_tile_address(diagonal.inverse, lane), inverse);
}

// By a team: the products of the chunk's tokens with each other, and the inverses of the diagonal tiles of I + A. One warpgroup
// has those of keys, the other those of queries; a warp has a row of tiles. `meanwhile` is done while they are worked out.
template <class Meanwhile>
__device__ __forceinline__ void take_products(TeamMemory& memory, int warp, unsigned lane, Meanwhile meanwhile) {
  const bool of_queries = warp >= SIDE;
  const int row = warp % SIDE;
  Sum sums[EARLIER / 8];
  const Matrix left = matrix(of_queries ? memory.near_queries : memory.near_keys), right = matrix(memory.earlier);
  fence_warpgroup();
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long a = left.descriptor(banded<CHUNK>(0, 2 * k)), b = right.descriptor(banded<EARLIER>(0, 2 * k));
    if (k == 0)
      multiply_earlier<false>(sums, a, b);
    else
      multiply_earlier<true>(sums, a, b);
  }
  commit_group();
  meanwhile();
  __syncwarp();
  wait_for_groups<0>();
  keep_in_place(sums);
  TileSums diagonal, beside, far[2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto near = [&](int tile) { return sums[2 * tile + half][i]; };
      beside[half][i] = row < 2 ? near(0) : near(2);
      diagonal[half][i] = row % 2 ? (row < 2 ? near(1) : near(3)) : beside[half][i];
      far[0][half][i] = sums[8 + half][i], far[1][half][i] = sums[10 + half][i];
    }
  if (row >= SIDE / 2) {
    store_below(memory, far[0], of_queries, row, 0, lane);
    store_below(memory, far[1], of_queries, row, 1, lane);
  }
  if (row % 2) store_below(memory, beside, of_queries, row, row - 1, lane);
  store_diagonal(memory, diagonal, of_queries, row, lane);
}

// By the one thread that speaks for all readers of a head's chunks: the place of one is free.
__device__ __forceinline__ void release_place(int head, int step) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(&chunks_read[head][step % PLACES]), "n"(READERS) : "memory");
}

// By the same, once all chunks have been read.
__device__ __forceinline__ void clear_counters(int head) {
  for (int i = 0; i < PLACES; ++i) chunks_put[head][i] = chunks_read[head][i] = 0;
}

}  // namespace kda
