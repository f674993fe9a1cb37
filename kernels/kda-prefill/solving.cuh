// Y and W of a chunk by warpgroups: one has Y, with tokens as rows, the other W, with values as rows.
#pragma once
#include "sixteens.cuh"

namespace kda {

#define KDA_SUM(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define KDA_SUMS_8(n)                                                                                         \
  KDA_SUM(n), KDA_SUM(n + 1), KDA_SUM(n + 2), KDA_SUM(n + 3), KDA_SUM(n + 4), KDA_SUM(n + 5), KDA_SUM(n + 6), \
      KDA_SUM(n + 7)

// Sums [64, 128] of A [64, 16] and B [16, 128], both in shared memory, B's rows as rows; added to the sums if `adds`.
__device__ __forceinline__ void multiply_rows_of(Sum (&sums)[16], unsigned long long a, unsigned long long b, bool adds) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 1; }"
      : KDA_SUMS_8(0), KDA_SUMS_8(8)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

// Sums [64, 64] of A [64, 16] and B [16, 64], both in shared memory, A's columns and B's as rows.
__device__ __forceinline__ void multiply_columns_of(Sum (&sums)[8], unsigned long long a, unsigned long long b, bool adds) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, 1, 1, 1, 0; }"
      : KDA_SUMS_8(0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

#undef KDA_SUMS_8
#undef KDA_SUM

// By a team that has fenced what they are made of.
__device__ __forceinline__ void solve_by_groups(TeamMemory& memory, int warp, unsigned lane) {
  const Matrix inverse = matrix(memory.solved);
  if (warp < SIDE) {
    Sum sums[2 * KEY_TILES];
    const Matrix keys = matrix(memory.decayed, CHUNK * BAND_BYTES);
    fence_warpgroup();
#pragma unroll
    for (int k = 0; k < SIDE; ++k)
      multiply_rows_of(sums, inverse.descriptor(banded<CHUNK>(0, 2 * k)), keys.descriptor(k * (TILE * BAND_BYTES)), k > 0);
    commit_group();
    wait_for_groups<0>();
    keep_in_place(sums);
#pragma unroll
    for (int n = 0; n < KEY_TILES; ++n) {
      Operand narrowed;
      narrow(narrowed, sums[2 * n], sums[2 * n + 1]);
      store_matrices(shared_address(memory.y) + banded<CHUNK>(warp * TILE + lane % 16, 2 * n + lane / 16), narrowed);
    }
  } else {
    Sum sums[2][TOKEN_PAIRS];
    const Matrix values = matrix(memory.values);
    fence_warpgroup();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int k = 0; k < SIDE; ++k)
        multiply_columns_of(sums[half], values.descriptor(half * (CHUNK * BAND_BYTES) + k * (TILE * BAND_BYTES)),
                            inverse.descriptor(banded<CHUNK>(0, 2 * k)), k > 0);
    commit_group();
    wait_for_groups<0>();
    keep_in_place(sums[0]);
    keep_in_place(sums[1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Operand w[SIDE];
      narrow_tokens(w, sums[half]);
      auto& to = half == 0 ? memory.first_w[warp - SIDE] : memory.second_w[warp - SIDE];
#pragma unroll
      for (int i = 0; i < SIDE; ++i) to[i][lane] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
    }
  }
}

}  // namespace kda
