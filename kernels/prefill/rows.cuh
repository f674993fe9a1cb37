// What warpgroups that carry rows of the state share, whether another launch prepares the chunks or their own block
// does: products of what they have in registers, and what they hand on to the warpgroup of the outputs.
#pragma once
#include "scan.cuh"
#include "warpgroup.cuh"

namespace gdn {

constexpr int GROUP = GROUP_WARPS * WARP;
constexpr int ROWS = GROUPS * GROUP_ROWS;  // of the state in a block
constexpr int STATE_WARPS = GROUPS * GROUP_WARPS;
static_assert(GDN_V % ROWS == 0, "a block works on one head");

// The chunks that a block takes, of one sequence and value head.
struct Walk {
  int chunks;  // in all
  int silent;  // of them, the first ones: another block writes their outputs
  int tokens;  // of all of them
};

// What the warpgroups of the state hand on to that of the outputs: all of their warps arrive when it is there, and
// those of the outputs when they are done with it.
template <int Columns>
struct Handed {
  alignas(1024) __nv_bfloat16 rows[ROWS * Columns];
  Barrier there, free;

  __device__ __forceinline__ void initialise() {
    gdn::initialise(there, STATE_WARPS);
    gdn::initialise(free, GROUP_WARPS);
  }
};

// Of a warp, once all of its lanes have come.
__device__ __forceinline__ void arrive_together(Barrier& barrier, unsigned lane) {
  __syncwarp();
  if (lane == 0) arrive(barrier);
}

// X Y^T, for X [CHUNK, Columns] and Y [Right, Columns] in shared memory.
template <int Columns, int Right, bool Adds, int N>
__device__ __forceinline__ void multiply_rows(Sum (&sums)[N], Matrix x, Matrix y) {
  static_assert(Right == 8 * N, "a sum for each eight of Y's rows");
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long left = x.descriptor(banded<CHUNK>(0, 2 * i)),
                             right = y.descriptor(banded<Right>(0, 2 * i));
    if (i == 0)
      multiply<Adds>(sums, left, right);
    else
      multiply<true>(sums, left, right);
  }
}

// The same for X as operands: of the state's rows, or of the chunk's tokens.
template <int Columns, int Right, bool Adds, int N>
__device__ __forceinline__ void multiply_operands(Sum (&sums)[N], const Operand (&x)[Columns / TILE], Matrix m) {
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long right = m.descriptor(banded<Right>(0, 2 * i));
    if (i == 0)
      multiply<Adds>(sums, x[i], right);
    else
      multiply<true>(sums, x[i], right);
  }
}

// The products since the last commit, once they are complete.
template <int N>
__device__ __forceinline__ void complete(Sum (&sums)[N]) {
  commit_group();
  wait_for_groups<0>();
  keep_in_place(sums);
}

// Of each tile of 16 rows the upper and the lower half's, times the lane's factor.
template <int N>
__device__ __forceinline__ void scale_rows(Sum (&sums)[N], const float (&factors)[2]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] *= factors[i / 2];
}

// Each token's column times its factor, as operands.
template <class PerToken>
__device__ __forceinline__ void fade_tokens(Operand (&to)[SIDE], const Sum (&sums)[TOKEN_PAIRS],
                                            const PerToken& factors, unsigned lane) {
#pragma unroll
  for (int tile = 0; tile < SIDE; ++tile) {
    const float4 factor = factors.of_tile(tile, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float first = half == 0 ? factor.x : factor.z, second = half == 0 ? factor.y : factor.w;
      const Sum& sum = sums[2 * tile + half];
      to[tile][2 * half] = pack_bf16(first * sum[0], second * sum[1]);
      to[tile][2 * half + 1] = pack_bf16(first * sum[2], second * sum[3]);
    }
  }
}

// S + U^T K, for U^T [ROWS, CHUNK] as operands and keys [CHUNK, K] in shared memory.
__device__ __forceinline__ void add_written(State& s, const Operand (&u)[SIDE], Matrix keys) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
    multiply<true, true>(s, u[token], keys.descriptor(token * (TILE * BAND_BYTES)));
}

// Operands [16, 16] side by side into a matrix of Height rows.
template <int Height, int Tiles>
__device__ __forceinline__ void store_rows(unsigned to, const Operand (&x)[Tiles], int warp, unsigned lane) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i) store_matrices(to + banded<Height>(warp * TILE + lane % 16, 2 * i + lane / 16), x[i]);
}

}  // namespace gdn
