// What kernels share that take 32 tokens of a head at a time: how they lie in shared memory, their products, and what is prepared of a
// step in the places where its tokens came. What of it has other places in one kernel than in another is in the kernel's own headers.
#pragma once
#include <gdn/tensor_map.cuh>

#include "pairs.cuh"

namespace kda {

static_assert(GDN_GATE == 1, "the products of sixteen decays have reciprocals");
constexpr int TOKENS = 32, TILES = TOKENS / TILE;  // that are taken at once: a step
constexpr int BAND = BAND_BYTES / 2, BANDS = GDN_K / BAND;  // elements of a row in a band
constexpr int CARRIERS = GDN_V / TILE, PREPARERS = 2;  // warps that have 16 rows of the state, and warpgroups
constexpr int FUSED_THREADS = (CARRIERS + PREPARERS * GROUP_WARPS) * WARP;

using TokenSums = Sum[TOKENS / 8];
using Square = char[TOKENS * BAND_BYTES];  // two matrices [TOKENS, TOKENS] side by side
constexpr int BESIDE = 2 * TILES;          // of its pieces the second one's first

// A step's tokens as they come, and in their places what is prepared of them, in swizzled bands. With G the products of a
// channel's decays from the step's first token on, and G_m that of its first 16 tokens:
struct PreparedBand {
  char keys[TOKENS * BAND_BYTES], queries[TOKENS * BAND_BYTES];  // times G / G_m
  char earlier[TOKENS * BAND_BYTES];  // keys times G_m / G; at first gates
};

// Where a row's piece lies, from where the first band's rows begin.
template <class Band>
__device__ __forceinline__ constexpr int in_bands(int row, int piece) {
  return piece / 8 * static_cast<int>(sizeof(Band)) + banded<TOKENS>(row, piece % 8);
}

// Of a warpgroup that prepares.
struct Solving {
  DiagonalBlocks blocks[TILES];
  alignas(128) HalfTile first;  // the inverse of the first tile
  float norms[TOKENS];          // 1 / |k|
  struct {
    float squares[BANDS][TOKENS], betas[TOKENS];  // of queries
  } tokens[2];  // of its steps in turns: some warps begin the next one while others read those of the last
};

// Where the op's tensors lie, of all tokens.
struct Tensors {
  const TensorMap *q, *k, *v, *g;
  const __nv_bfloat16* b;
  const float *A_log, *dt_bias;
  float scale, lower_bound;
};

#define KDA_SUM(of, n) "+f"(of[n][0]), "+f"(of[n][1]), "+f"(of[n][2]), "+f"(of[n][3])
#define KDA_SUMS(of) KDA_SUM(of, 0), KDA_SUM(of, 1), KDA_SUM(of, 2), KDA_SUM(of, 3)

// Sums [64, 32] of A [64, 16] and B [16, 32], whose columns are rows in shared memory; added to the sums if Adds.
template <bool Adds>
__device__ __forceinline__ void multiply_tokens(TokenSums& sums, const Operand& a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, adds, 1, 1, 0; }"
      : KDA_SUMS(sums)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(Adds)));
}

// The same with A, too, in shared memory; its columns are rows there if IsTransposed.
template <bool Adds, bool IsTransposed = false>
__device__ __forceinline__ void multiply_tokens(TokenSums& sums, unsigned long long a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, adds, 1, 1, %19, 0; }"
      : KDA_SUMS(sums)
      : "l"(a), "l"(b), "n"(static_cast<int>(Adds)), "n"(static_cast<int>(IsTransposed)));
}

// Sums [64, 64] of A [64, 16] and B [16, 64], those of its last columns apart.
template <bool Adds>
__device__ __forceinline__ void multiply_both(TokenSums& sums, TokenSums& others, const Operand& a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0; }"
      : KDA_SUMS(sums), KDA_SUMS(others)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(Adds)));
}

#undef KDA_SUMS
#undef KDA_SUM

// A step's rows of a band to shared memory, where they are wanted. Without a branch, so that it goes between products.
__device__ __forceinline__ void bring_box(unsigned to, const TensorMap* map, int column, int head, int token, Barrier& barrier,
                                          bool is_wanted) {
  asm volatile(
      "{ .reg .pred one; setp.ne.b32 one, %6, 0;\n"
      "@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%5], %7;\n"
      "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5]; }" ::"r"(to),
      "l"(map), "r"(column), "r"(head), "r"(token), "r"(shared_address(&barrier)), "r"(static_cast<int>(is_wanted)),
      "n"(TOKENS * BAND_BYTES)
      : "memory");
}

// Stores an operand [16, 16] transposed, as rows of two pieces; lane l tells where row l % 8 + l / 16 * 8 has its piece l / 8 % 2.
__device__ __forceinline__ void store_transposed(unsigned address, const Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

// A lane's factors of channels from `From` on.
template <int From = 0, int To = GDN_K>
struct Factors {
  float2 by[(To - From) / 8];

  Factors() = default;
  __device__ __forceinline__ Factors(const float* factors, unsigned lane) { load(factors, lane); }
  __device__ __forceinline__ void load(const float* factors, unsigned lane) {
#pragma unroll
    for (int n = From / 8; n < To / 8; ++n) by[n - From / 8] = *reinterpret_cast<const float2*>(&factors[n * 8 + lane % 4 * 2]);
  }
  __device__ __forceinline__ void multiply_with(const Factors& others) {
#pragma unroll
    for (int n = 0; n < (To - From) / 8; ++n) by[n] = times(by[n], others.by[n]);
  }
  __device__ __forceinline__ void scale(State& s) const {
#pragma unroll
    for (int n = From / 8; n < To / 8; ++n) {
      const float2 own = by[n - From / 8];
      s[n][0] *= own.x, s[n][1] *= own.y, s[n][2] *= own.x, s[n][3] *= own.y;
    }
  }
};

__device__ __forceinline__ void narrow_sums(Operand (&to)[TILES], const TokenSums& sums) {
#pragma unroll
  for (int i = 0; i < TILES; ++i) narrow(to[i], sums[2 * i], sums[2 * i + 1]);
}

// Of outputs those of a tile of tokens, times norms.
__device__ __forceinline__ void narrow_outputs(Operand& to, const TokenSums& sums, const __nv_bfloat16 (&norms)[TOKENS], int tile,
                                               unsigned lane) {
  narrow(to, sums[2 * tile], sums[2 * tile + 1]);
#pragma unroll
  for (int n = 0; n < 4; ++n)
    to[n] = times(to[n], *reinterpret_cast<const unsigned*>(&norms[tile * TILE + n / 2 * 8 + lane % 4 * 2]));
}

// Of one of the warpgroups that prepare.
__device__ __forceinline__ void synchronise_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(GROUP_WARPS * WARP) : "memory");
}

// Of its first two warps: the second one waits for what the first has told.
enum Told : unsigned { NORMS, FIRST };
constexpr int TOLD = 2;
__device__ __forceinline__ void tell(Told what, int group) {
  asm volatile("bar.arrive %0, %1;" ::"r"(1 + PREPARERS + TOLD * group + what), "n"(2 * WARP) : "memory");
}
__device__ __forceinline__ void hear(Told what, int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + PREPARERS + TOLD * group + what), "n"(2 * WARP) : "memory");
}

// A lane's two channels: their decays are 2^(1 / (bound + bound 2^(slope g + shift))).
struct Channels {
  float2 shift;
  float slope, bound;  // one by the bound

  __device__ __forceinline__ Channels(const Tensors& in, int head, int pair) {
    slope = -LOG2_E * exp2_fast(LOG2_E * in.A_log[head]), bound = reciprocal(LOG2_E * in.lower_bound);
    shift = times(slope, reinterpret_cast<const float2*>(in.dt_bias + head * GDN_K)[pair]);
  }
  __device__ __forceinline__ float2 log_decays(unsigned gates) const {
    const float2 x = unpack_bf16(gates);
    const auto log = [&](float x, float shift) { return reciprocal(fmaf(exp2_fast(fmaf(slope, x, shift)), bound, bound)); };
    return make_float2(log(x.x, shift.x), log(x.y, shift.y));
  }
};

// A lane's pairs of channels in a band, of sixteen rows. The compiler would not know by itself that rows lie apart, and an address
// for each of them would fill registers.
struct Pairs {
  unsigned base;  // in shared memory, of the first row

  __device__ __forceinline__ Pairs(const PreparedBand& band, int first, unsigned lane)
      : base(shared_address(&band) + first * BAND_BYTES + lane * 4) {}
  __device__ __forceinline__ unsigned place(int part, int row) const {
    return (base ^ row % 8 * 16) + part + row * BAND_BYTES;
  }
  __device__ __forceinline__ unsigned load(int part, int row) const {
    unsigned x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(place(part, row)));
    return x;
  }
  __device__ __forceinline__ void store(int part, int row, unsigned x) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(place(part, row)), "r"(x));
  }
};
constexpr int KEYS = 0, QUERIES = sizeof(PreparedBand::keys), EARLIER = QUERIES + sizeof(PreparedBand::queries);  // as they lie in a band

// A lane's part of four rows as they come.
struct Four {
  unsigned keys[4], queries[4], gates[4];
};

// By a warp: a band of the rows of sixteen tokens after the middle if they are Later, else before it, and of their queries' squares.
// Away from the middle decays are multiplied, and reciprocals taken of every fourth product. Returns what is kept of the tokens.
// Squares in bf16 are added up by tensor cores: a product of four tokens' with ones in two columns gives sums of eight channels.
template <bool Later>
__device__ __forceinline__ float2 prepare_rows(float* squares, const Pairs& pairs, const Channels& channels, unsigned lane) {
  const auto row = [](int i) { return Later ? i : TILE - 1 - i; };
  Four rows[2];  // in turns: the next ones are loaded before others are stored, which takes as long
  const auto load = [&](int from) {
    Four& to = rows[from / 4 % 2];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.gates[i] = pairs.load(EARLIER, row(from + i));
#pragma unroll
    for (int i = 0; i < 4; ++i) to.keys[i] = pairs.load(KEYS, row(from + i)), to.queries[i] = pairs.load(QUERIES, row(from + i));
  };
  load(0);
  float2 all = make_float2(1.f, 1.f);
  Sum sums = {};
#pragma unroll
  for (int from = 0; from < TILE; from += 4) {
    const Four& own = rows[from / 4 % 2];
    if (from + 4 < TILE) load(from + 4);
    float2 decays[4];
    unsigned small[4], large[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      decays[i] = exp2_of(channels.log_decays(own.gates[i]));
      if (Later) all = times(all, decays[i]);
      small[i] = narrowed(all);
      if (!Later && i < 3) all = times(all, decays[i]);
    }
    float2 inverse = make_float2(reciprocal(all.x), reciprocal(all.y));
    if (!Later) all = times(all, decays[3]);
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      large[i] = narrowed(inverse);
      if (i > 0) inverse = times(inverse, decays[Later ? i : i - 1]);
    }
    Operand products;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned later = Later ? small[i] : large[i], earlier = Later ? large[i] : small[i];
      pairs.store(KEYS, row(from + i), times(own.keys[i], later));
      pairs.store(QUERIES, row(from + i), times(own.queries[i], later));
      pairs.store(EARLIER, row(from + i), times(own.keys[i], earlier));
      products[i] = times(own.queries[i], own.queries[i]);
    }
    const int column = lane / 4;
    mma_bf16(sums, products, column == from / 2 ? 0x3f803f80u : 0, column == from / 2 + 1 ? 0x3f803f80u : 0);
  }
  scatter_sums<8, 4>(sums, lane);
  squares[row(lane % 4 * 4 + lane / 16 + lane / 8 % 2 * 2)] = sums[0];
  return all;
}

// A tile of a matrix [TOKENS, TOKENS], whose pieces begin at `piece`.
__device__ __forceinline__ void store_tile(Square& to, const TileSums& x, int row, int column, int piece, unsigned lane) {
  Operand pairs;
  narrow(pairs, x[0], x[1]);
  store_matrices(shared_address(to) + banded<TOKENS>(row * TILE + lane % 16, piece + 2 * column + lane / 16), pairs);
}

// Numbers of a tile's tokens, as a lane has them in its columns, and in its rows.
struct OfColumns {
  float at[2][2];
  __device__ __forceinline__ OfColumns(const float* numbers, int tile, unsigned lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair = *reinterpret_cast<const float2*>(&numbers[tile * TILE + half * 8 + lane % 4 * 2]);
      at[half][0] = pair.x, at[half][1] = pair.y;
    }
  }
};
struct OfRows {
  float at[2];
  __device__ __forceinline__ OfRows(const float* numbers, int tile, unsigned lane)
      : at{numbers[tile * TILE + lane / 4], numbers[tile * TILE + lane / 4 + 8]} {}
};

// A tile times numbers of its rows and its columns.
__device__ __forceinline__ void scale_tile(TileSums& x, const float (&rows)[2], const OfColumns& columns) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) x[half][i] *= rows[i / 2] * columns.at[half][i % 2];
}

// Of (I + A)^-1 a tile, or minus it: a tile of T, and of what lies beside it.
__device__ __forceinline__ void store_solved(Square& solved, const float (&beta)[TOKENS], TileSums& x, bool is_negative,
                                             const OfRows& norms, const OfColumns& others, int row, int column, unsigned lane) {
  const float sign = is_negative ? -1.f : 1.f;
  const float rows[2] = {sign * norms.at[0], sign * norms.at[1]}, minus[2] = {-1.f, -1.f};
  scale_tile(x, rows, OfColumns(beta, column, lane));
  store_tile(solved, x, row, column, 0, lane);
  scale_tile(x, minus, others);
  store_tile(solved, x, row, column, BESIDE, lane);
}

// By a warpgroup: the products of the step's tokens with each other. Warps have tiles' rows of keys, then of queries.
template <class Band>
__device__ __forceinline__ void take_products(TokenSums& sums, const Matrix& left, const Matrix& right) {
  fence_warpgroup();
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long a = left.descriptor(in_bands<Band>(0, 2 * k)), b = right.descriptor(in_bands<Band>(0, 2 * k));
    if (k == 0)
      multiply_tokens<false>(sums, a, b);
    else
      multiply_tokens<true>(sums, a, b);
  }
  commit_group();
  wait_for_groups<0>();
  keep_in_place(sums);
}

// Of a number that is at least EPS.
__device__ __forceinline__ float rsqrt_mufu(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// By a warp of keys: the inverse of I + A.
__device__ __forceinline__ void solve(Square& solved, Solving& memory, const float (&beta)[TOKENS], TileSums& diagonal, TileSums& below,
                                      int group, int tile, unsigned lane) {
  const int row = lane / 4;
  if (lane % 4 == row / 2) {  // has squares of keys, which are on the diagonal
    memory.norms[tile * TILE + row] = rsqrt_mufu((row % 2 ? diagonal[0][1] : diagonal[0][0]) + EPS);
    memory.norms[tile * TILE + 8 + row] = rsqrt_mufu((row % 2 ? diagonal[1][3] : diagonal[1][2]) + EPS);
  }
  __syncwarp();
  if (tile == 0) tell(NORMS, group);
  const OfRows norms(memory.norms, tile, lane), betas(beta, tile, lane);
  const OfColumns own(memory.norms, tile, lane);
  const float rows[2] = {norms.at[0] * betas.at[0], norms.at[1] * betas.at[1]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (half * 8 + lane % 4 * 2 + i % 2 >= lane / 4 + i / 2 * 8) diagonal[half][i] = 0.f;
  scale_tile(diagonal, rows, own);
  Operand inverse;
  invert_tile(inverse, memory.blocks[tile], diagonal, lane);
  const auto store_own = [&] {
    TileSums found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack_fp16(inverse[i]);
      found[i / 2][i % 2 * 2] = pair.x, found[i / 2][i % 2 * 2 + 1] = pair.y;
    }
    store_solved(solved, beta, found, false, norms, own, tile, tile, lane);
  };
  if (tile == 0) {
    store_matrices(half_tile_address(memory.first, lane), inverse);
    tell(FIRST, group);
    store_own();
    return;
  }
  hear(NORMS, group);
  const OfColumns first(memory.norms, 0, lane);
  scale_tile(below, rows, first);
  TileSums beside = {}, found = {};
  Operand narrowed;
  unsigned right[4];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    mma_fp16(beside[half], inverse, transpose(pack_fp16(below[half][0], below[half][1])),
             transpose(pack_fp16(below[half][2], below[half][3])));
  store_own();
  narrow_fp16(narrowed, beside);
  hear(FIRST, group);
  load_matrices_transposed(right, half_tile_address(memory.first, lane));
#pragma unroll
  for (int half = 0; half < 2; ++half) mma_fp16(found[half], narrowed, right[2 * half], right[2 * half + 1]);
  store_solved(solved, beta, found, true, norms, first, 1, 0, lane);
}

// By a warp of queries: their products, whose tiles `store` stores, and norms, which `to` has.
template <class WithNorms, class Store>
__device__ __forceinline__ void show_queries(WithNorms& to, const float (&squares)[BANDS][TOKENS], TileSums& diagonal,
                                             const TileSums& below, float scale, int tile, unsigned lane, Store store) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (half * 8 + lane % 4 * 2 + i % 2 > lane / 4 + i / 2 * 8) diagonal[half][i] = 0.f;
  store(diagonal, tile, tile, lane);
  if (tile == 1) store(below, 1, 0, lane);
  const int token = tile * TILE + lane % TILE;
  if (lane < TILE) to.norms[token] = __float2bfloat16(scale * rsqrt_mufu(squares[0][token] + squares[1][token] + EPS));
}

}  // namespace kda
