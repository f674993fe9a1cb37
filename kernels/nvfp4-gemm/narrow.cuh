// Products with as many columns as a tile of A has rows, 32, 64, 96 or 128 of them: what tensor cores take grows with
// that. The sums of fewer are laid out as the first of 128.
#pragma once
#include "step.cuh"

namespace gemm {

#define GEMM_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define GEMM_SUMS_16(i) GEMM_SUMS_4(i), GEMM_SUMS_4(i + 4), GEMM_SUMS_4(i + 8), GEMM_SUMS_4(i + 12)
#define GEMM_PLACES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GEMM_PLACES_32 \
  GEMM_PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GEMM_PLACES_48 \
  GEMM_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define GEMM_OTHERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds))

// Sums [64, Columns] of A [64, 16] and B [Columns, 16], added to what the sums hold if `adds`.
template <int Columns>
__device__ __forceinline__ void multiply(float (&sums)[Columns / 2], const unsigned* a, unsigned long long b,
                                         bool adds) {
  if constexpr (Columns == 32)
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" GEMM_PLACES_16
        "}, {%16, %17, %18, %19}, %20, adds, 1, 1, 0; }"
        : GEMM_SUMS_16(0)
        : GEMM_OTHERS);
  else if constexpr (Columns == 64)
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" GEMM_PLACES_32
        "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0; }"
        : GEMM_SUMS_16(0), GEMM_SUMS_16(16)
        : GEMM_OTHERS);
  else if constexpr (Columns == 96)
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %53, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {" GEMM_PLACES_48
        "}, {%48, %49, %50, %51}, %52, adds, 1, 1, 0; }"
        : GEMM_SUMS_16(0), GEMM_SUMS_16(16), GEMM_SUMS_16(32)
        : GEMM_OTHERS);
  else
    gemm::multiply(sums, a, b, adds);
}

#undef GEMM_OTHERS
#undef GEMM_PLACES_48
#undef GEMM_PLACES_32
#undef GEMM_PLACES_16
#undef GEMM_SUMS_16
#undef GEMM_SUMS_4

// As multiply_step of step.cuh.
template <int Columns, typename Call>
__device__ __forceinline__ void multiply_step(float (&sums)[Columns / 2], unsigned (&operands)[2][8],
                                              const RightWords& words, unsigned bands, bool adds,
                                              Call when_last_is_read) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    wait_for_products<1>();  // what had these registers is complete
    if (word == 1) when_last_is_read();
    unsigned(&a)[8] = operands[word % 2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      unsigned pairs[4];
      widen(pairs, words.codes[row][word], words.scales[row][word / 2]);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[2 * i + row] = pairs[i];
    }
    keep_in_place(a);
    fence_products();
    const unsigned b = bands + (word / 2 * BAND_BYTES + word % 2 * 4 * PIECE) / 16;
    multiply<Columns>(sums, a, descriptor(b), adds || word > 0);
    multiply<Columns>(sums, a + 4, descriptor(b + 2 * PIECE / 16), true);
    commit_products();
  }
}

}  // namespace gemm
