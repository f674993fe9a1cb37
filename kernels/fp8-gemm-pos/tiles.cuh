// Tiles of 64 rows of C: in which order they are made, and how one is finished.
#pragma once
#include "gemm.cuh"
#include "products.cuh"

namespace gemm {

// Of P and the rows of a tile, powers of two alone count.
constexpr int COMMON = (GEMM_P & -GEMM_P) < GROUP_ROWS ? (GEMM_P & -GEMM_P) : GROUP_ROWS;
constexpr int PERIOD = GEMM_P / COMMON;  // tiles after which rows of the table come again

struct Tile {
  int first_row, place;  // its place in the period: tiles of one place take the same rows of the table
};

// The tile with this number. With KEEP, first come those at place 0 of each period, then those at place 1; else they
// come as they lie.
__device__ __forceinline__ Tile tile_of(int number, int tiles) {
  if (!KEEP) return {number * GROUP_ROWS, number % PERIOD};
  const int periods = tiles / PERIOD, more = tiles % PERIOD;  // places that one more tile is at
  const int in_longer = more * (periods + 1), beyond = number - in_longer;
  const int place = beyond < 0 ? number / (periods + 1) : more + beyond / periods;
  const int period = beyond < 0 ? number % (periods + 1) : beyond % periods;
  return {(period * PERIOD + place) * GROUP_ROWS, place};
}

// Of 32 columns of C, the one that column `column` of the sums is. A thread has of the sums two neighbours in each 8
// columns; so it has of C 8 neighbours in each 32, that are loaded, and stored, as 16 bytes.
__device__ __forceinline__ constexpr int column_of_sums(int column) {
  return column / 2 % 4 * 8 + column / 8 * 2 + column % 2;
}

// A thread's part of the table: rows l / 4 and l / 4 + 8 of the warp's 16, and 8 columns of each 32.
template <int Columns>
using Added = uint4[2][Columns / 32];

// `row` and `column` are those of the thread's first number.
template <int Columns>
__device__ __forceinline__ void load_table(Added<Columns>& added, const __nv_bfloat16* table, int row, int column) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __nv_bfloat16* const from = table + (row + 8 * half) % GEMM_P * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < Columns / 32; ++i)
      added[half][i] = column + 32 * i < GEMM_N ? __ldg(reinterpret_cast<const uint4*>(from + 32 * i)) : uint4{};
  }
}

// Two sums, scaled, and two numbers of the table, rounded to bf16.
__device__ __forceinline__ unsigned finish(float low, float high, float scale, unsigned added) {
  const float2 sum = make_float2(fmaf(scale, low, __uint_as_float(added << 16)),
                                 fmaf(scale, high, __uint_as_float(added & 0xffff0000u)));
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(sum.y), "f"(sum.x));
  return pair;
}

template <int Columns>
__device__ __forceinline__ void store_tile(__nv_bfloat16* C, const float (&sums)[Columns / 2], float scale,
                                           const Added<Columns>& added, int row, int column, int rows) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= rows) break;
    __nv_bfloat16* const to = C + static_cast<size_t>(row + 8 * half) * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < Columns / 32; ++i) {
      const float* const x = sums + 16 * i + 2 * half;
      const uint4 more = added[half][i];
      const uint4 eight = {finish(x[0], x[1], scale, more.x), finish(x[4], x[5], scale, more.y),
                           finish(x[8], x[9], scale, more.z), finish(x[12], x[13], scale, more.w)};
      if (column + 32 * i < GEMM_N) *reinterpret_cast<uint4*>(to + 32 * i) = eight;
    }
  }
}

}  // namespace gemm
