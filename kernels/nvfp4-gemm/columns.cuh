// Products with as many columns as rows of A come to in units of 16, from 64 on.
#pragma once
#include "narrow.cuh"

namespace gemm {

#define GEMM_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define GEMM_SUMS_8(i) GEMM_SUMS_4(i), GEMM_SUMS_4(i + 4)

// Adds to sums [64, Columns] the product of A [64, 16] and B [Columns, 16].
template <int Columns>
__device__ __forceinline__ void multiply_more(float (&sums)[Columns / 2], const unsigned* a, unsigned long long b) {
  if constexpr (Columns == 80)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, {%40, %41, %42, %43}, %44, 1, 1, 1, 0;"
        : GEMM_SUMS_8(0), GEMM_SUMS_8(8), GEMM_SUMS_8(16), GEMM_SUMS_8(24), GEMM_SUMS_8(32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else if constexpr (Columns == 112)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
        "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55}, {%56, %57, %58, %59}, %60, 1, 1, 1, 0;"
        : GEMM_SUMS_8(0), GEMM_SUMS_8(8), GEMM_SUMS_8(16), GEMM_SUMS_8(24), GEMM_SUMS_8(32), GEMM_SUMS_8(40), GEMM_SUMS_8(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    multiply<Columns>(sums, a, b, true);
}

#undef GEMM_SUMS_8
#undef GEMM_SUMS_4

}  // namespace gemm
