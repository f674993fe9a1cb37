// Tokens of a head as a block takes them, 32 at a time, and its shared memory.
#pragma once
#include <gdn/tensor_map.cuh>

#include "../pairs.cuh"

namespace kda {

static_assert(GDN_GATE == 1, "the products of sixteen decays have reciprocals");
constexpr int TOKENS = 32, TILES = TOKENS / TILE;  // that are taken at once: a step
constexpr int STEPS = CHUNK / TOKENS;              // of the chunks by which sequences are cut
constexpr int BAND = BAND_BYTES / 2, BANDS = GDN_K / BAND;  // elements of a row in a band
constexpr int STAGES = 5;                          // steps in shared memory
constexpr int CARRIERS = GDN_V / TILE, PREPARERS = 2;  // warps that have 16 rows of the state, and warpgroups
constexpr int FUSED_THREADS = (CARRIERS + PREPARERS * GROUP_WARPS) * WARP;

using TokenSums = Sum[TOKENS / 8];
using Square = char[TOKENS * BAND_BYTES];  // two matrices [TOKENS, TOKENS] side by side
constexpr int BESIDE = 2 * TILES;          // of its pieces the second one's first

// A step's tokens as they come, and in their places what is prepared of them, in swizzled bands. With G the products of a
// channel's decays from the step's first token on, and G_m that of its first 16 tokens:
struct Band {
  char keys[TOKENS * BAND_BYTES], queries[TOKENS * BAND_BYTES];  // times G / G_m
  char earlier[TOKENS * BAND_BYTES];  // keys times G_m / G; at first gates
  char values[TOKENS * BAND_BYTES];   // and outputs
};

struct alignas(1024) Stage {
  Band bands[BANDS];
  Square solved;      // T = diag(1 / |k|) (I + A)^-1 diag(beta), and beside it -T diag(1 / |k|)
  Square products;    // of queries and keys
  float rest[GDN_K];  // of what is kept after the first 16 tokens
  float since[GDN_K], before[GDN_K];  // what is kept since the last step's first 16 tokens, or G_m where that is too small; the last `rest`
  __nv_bfloat16 norms[TOKENS];        // scale / |q|
  alignas(8) int is_small[BANDS];     // of a band's channels any
};

// Where a row's piece lies, from where the first band's rows begin.
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

struct FusedMemory {
  Stage stages[STAGES];
  Solving solving[PREPARERS];
  Barrier come[STAGES], decayed[STAGES], full[STAGES], empty[STAGES];  // as it comes; `rest` is there; prepared; and read

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(come[i], CARRIERS);
      gdn::initialise(decayed[i], BANDS);
      gdn::initialise(full[i], GROUP_WARPS);
      gdn::initialise(empty[i], BANDS);
    }
    fence_async_proxy();
  }
};

// Where the op's tensors lie, of all tokens.
struct Tensors {
  const TensorMap *q, *k, *v, *g;
  const __nv_bfloat16* b;
  const float *A_log, *dt_bias;
  float scale, lower_bound;
};

// A range of a sequence's tokens and what becomes of it. All threads of a block know it.
struct Item {
  const float* state;        // [V, K] that it begins with; null for zeros, or for I
  float* new_state;          // where the last one goes, or null
  __nv_bfloat16* output;     // [T, H, V], of all tokens,
  const TensorMap* outputs;  // and as boxes
  int head, begin, tokens;   // the first token by its number among all; not a token is one, too
  int silent;                // steps at first whose outputs nobody wants
  bool is_transition;        // begins with I and writes no values: outputs and states are what a state is multiplied with

  __device__ __forceinline__ int steps() const { return (tokens + TOKENS - 1) / TOKENS; }
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

}  // namespace kda
