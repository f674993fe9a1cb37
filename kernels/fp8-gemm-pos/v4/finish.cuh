// How a tile of C is finished: the table's rows, which stay in registers, the arithmetic, and the stores.
#pragma once
#include "memory.cuh"

namespace gemm {

// Loads that compilers leave where they are: those of read-only memory move behind products, to where they are used.
__device__ __forceinline__ uint4 load_early(const __nv_bfloat16* from) {
  uint4 found;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(from)
               : "memory");
  return found;
}

// A thread's part of the table, in pairs of bf16, or in fp32 in the same order. Pairs lie in the first half until they
// are widened.
constexpr int NUMBERS = COLUMNS / 2;
using Kept = float[FLOATS ? NUMBERS : NUMBERS / 2];

// `row` and `column` are those of the thread's first number.
__device__ __forceinline__ void load_kept(Kept& kept, const __nv_bfloat16* table, int row, int column) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __nv_bfloat16* const from = table + (row + 8 * half) % GEMM_P * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
      const uint4 found = column + 32 * i < GEMM_N ? load_early(from + 32 * i) : uint4{};
      float* const to = kept + (half * PARTS + i) * 4;
      to[0] = __uint_as_float(found.x);
      to[1] = __uint_as_float(found.y);
      to[2] = __uint_as_float(found.z);
      to[3] = __uint_as_float(found.w);
    }
  }
}

__device__ __forceinline__ void widen(Kept& kept) {
#if FLOATS
#pragma unroll
  for (int i = NUMBERS / 2 - 1; i >= 0; --i) {
    const unsigned pair = __float_as_uint(kept[i]);
    kept[2 * i] = __uint_as_float(pair << 16);
    kept[2 * i + 1] = __uint_as_float(pair & 0xffff0000u);
  }
#endif
}

// Pair i of those that are kept, added to two sums.
__device__ __forceinline__ unsigned finish_pair(const float* sums, float scale, const Kept& kept, int i) {
  if (!FLOATS) return finish(sums[0], sums[1], scale, __float_as_uint(kept[i]));
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
      : "=r"(pair)
      : "f"(fmaf(scale, sums[1], kept[2 * i + 1])), "f"(fmaf(scale, sums[0], kept[2 * i])));
  return pair;
}

__device__ __forceinline__ void store(__nv_bfloat16* to, uint4 eight) {
  if (!PAST_L1)
    *reinterpret_cast<uint4*>(to) = eight;
  else
    asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(eight.x), "r"(eight.y),
                 "r"(eight.z), "r"(eight.w)
                 : "memory");
}

// Eight neighbours in each 32 columns: two sums of each of the four parts of a tile that boxes of B made.
__device__ __forceinline__ void store_rows(__nv_bfloat16* C, const float (&sums)[COLUMNS / 2], float scale,
                                           const Kept& kept, int row, int column, int rows) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= rows) break;
    __nv_bfloat16* const to = C + static_cast<size_t>(row + 8 * half) * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
      const float* const x = sums + 4 * i + 2 * half;
      constexpr int NEXT = 4 * PARTS;
      const int first = (half * PARTS + i) * 4;
      const uint4 eight = {finish_pair(x, scale, kept, first), finish_pair(x + NEXT, scale, kept, first + 1),
                           finish_pair(x + 2 * NEXT, scale, kept, first + 2),
                           finish_pair(x + 3 * NEXT, scale, kept, first + 3)};
      if (column + 32 * i < GEMM_N) store(to + 32 * i, eight);
    }
  }
}

}  // namespace gemm
