// Hopper's tensor cores on e4m3: a warpgroup's four warps multiply at once, A and B in shared memory. Asynchronous:
// between fence_products() and wait_for_products() sums may not be touched.
//
// Of sums [64, N] warp w has rows 16 w to 16 w + 15. For columns 8 n to 8 n + 7 its lane l has four: those of columns
// 2 (l % 4) and the next, in row l / 4, then in the row 8 further down.
#pragma once
#include <gdn/products.cuh>

#include "asynchronous.cuh"

namespace gemm {

constexpr int GROUP_ROWS = 64;  // of sums
constexpr int INNER = 32;       // e4m3, of a byte each, that a product sums over

// What wgmma takes for a matrix of rows of a band: where it begins and how far eight rows reach, in units of 16 bytes,
// and that it is swizzled in rows of 128 bytes ("Matrix Descriptor Format" in the PTX ISA). One that begins `INNER`
// further on in each row is told by adding 2: the address is swizzled after that.
__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
  constexpr unsigned long long SWIZZLE_128_BYTES = 1ull << 62, EIGHT_ROWS = 8ull * BAND / 16 << 32, NOT_USED = 1 << 16;
  return SWIZZLE_128_BYTES | EIGHT_ROWS | NOT_USED | address / 16;
}

#define GEMM_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define GEMM_SUMS_16(i) GEMM_SUMS_4(i), GEMM_SUMS_4(i + 4), GEMM_SUMS_4(i + 8), GEMM_SUMS_4(i + 12)
#define GEMM_SUMS_32(i) GEMM_SUMS_16(i), GEMM_SUMS_16(i + 16)

// Sums [64, 192] of A [64, 32] and B [192, 32], added to what the sums hold if `adds`.
__device__ __forceinline__ void multiply(float (&sums)[96], unsigned long long a, unsigned long long b, bool adds) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
      "%96, %97, adds, 1, 1; }"
      : GEMM_SUMS_32(0), GEMM_SUMS_32(32), GEMM_SUMS_32(64)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

// The same of B [256, 32].
__device__ __forceinline__ void multiply(float (&sums)[128], unsigned long long a, unsigned long long b, bool adds) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
      "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "
      "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
      "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, adds, 1, 1; }"
      : GEMM_SUMS_32(0), GEMM_SUMS_32(32), GEMM_SUMS_32(64), GEMM_SUMS_32(96)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

#undef GEMM_SUMS_32
#undef GEMM_SUMS_16
#undef GEMM_SUMS_4

}  // namespace gemm
