// Hopper's tensor cores on fp16: a warpgroup's four warps multiply at once, the left operand in registers and the right
// one in shared memory. Asynchronous: between fence_products() and wait_for_products() neither the sums nor the left
// operand may be touched.
//
// Of sums [64, 128] warp w of the four has rows 16 w to 16 w + 15. For columns 8 n to 8 n + 7 its lane l has four:
// those of columns 2 (l % 4) and the next, in row l / 4, then in the row 8 further down. The left operand [64, 16] is
// laid out likewise for inner numbers 0 to 7, then for the others, a pair a register.
#pragma once
#include <gdn/products.cuh>

#include "asynchronous.cuh"

namespace gemm {

constexpr int COLUMNS = 128;  // of the sums
constexpr int INNER = 16;     // numbers that a product sums over
constexpr int BAND_BYTES = COLUMNS * BAND;

// What wgmma takes for a band of the right operand, 64 numbers of each of its rows, from a place in its rows on
// ("Matrix Descriptor Format" in the PTX ISA). The high half is alike for all: how far eight rows reach, in units of 16
// bytes, and that they are swizzled in rows of 128 bytes. The low half begins with the address, in the same units, so
// that a place further on takes an addition.
__device__ __forceinline__ unsigned low_half(unsigned address) { return 1u << 16 | address / 16; }

__device__ __forceinline__ unsigned long long descriptor(unsigned low) {
  constexpr unsigned SWIZZLE_128_BYTES = 1u << 30, EIGHT_ROWS = 8 * BAND / 16;
  return static_cast<unsigned long long>(SWIZZLE_128_BYTES | EIGHT_ROWS) << 32 | low;
}

using gdn::keep_in_place;

// The same of operands.
template <int Count>
__device__ __forceinline__ void keep_in_place(unsigned (&operands)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(operands[i])::"memory");
}

#define GEMM_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define GEMM_SUMS_16(i) GEMM_SUMS_4(i), GEMM_SUMS_4(i + 4), GEMM_SUMS_4(i + 8), GEMM_SUMS_4(i + 12)

// Sums [64, 128] of A [64, 16] and B [128, 16], added to what the sums hold if `adds`.
__device__ __forceinline__ void multiply(float (&sums)[COLUMNS / 2], const unsigned* a, unsigned long long b,
                                         bool adds) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63}, {%64, %65, %66, %67}, %68, adds, 1, 1, 0; }"
      : GEMM_SUMS_16(0), GEMM_SUMS_16(16), GEMM_SUMS_16(32), GEMM_SUMS_16(48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
}

#undef GEMM_SUMS_16
#undef GEMM_SUMS_4

}  // namespace gemm
