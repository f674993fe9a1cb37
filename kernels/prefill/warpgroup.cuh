// Hopper's tensor cores by warpgroups: four warps multiply at once, and the right operand, in shared memory, is read
// once for all of them. Asynchronous: between fence_warpgroup() and wait_for_groups() a
// sum may not be touched.
//
// Of the sums [64, N] warp w of the four has rows 16 w …, laid out for each 8 columns as mma's; the left operand
// [64, 16] likewise. The right one is told by a descriptor.
#pragma once
#include "tensor.cuh"

namespace gdn {

constexpr int GROUP_WARPS = 4;
constexpr int GROUP_ROWS = GROUP_WARPS * TILE;

// What wgmma takes for an operand in shared memory, in swizzled bands: a descriptor ("Matrix Descriptor" in the PTX
// ISA's chapter on wgmma), whose low half tells where it begins, in units of 16 bytes, and whose high half is alike for
// all. A descriptor further on takes one addition; worked out from its address each time, it would delay its product.
constexpr unsigned TO_NEXT_EIGHT_ROWS = EIGHT_ROWS / 16;
constexpr unsigned SWIZZLE_128_BYTES = 1u << 30;

struct Matrix {
  unsigned low;

  __device__ __forceinline__ unsigned long long descriptor(int offset) const {
    return static_cast<unsigned long long>(SWIZZLE_128_BYTES | TO_NEXT_EIGHT_ROWS) << 32 | (low + offset / 16);
  }
};

// A matrix that begins at a multiple of 1024 in shared memory. `to_next_band` counts where it is taken transposed.
__device__ __forceinline__ Matrix matrix(const void* from, unsigned to_next_band = 16) {
  return {shared_address(from) / 16 | to_next_band / 16 << 16};
}

// Orders what registers and shared memory hold before the products that follow.
__device__ __forceinline__ void fence_warpgroup() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Stores an operand [16, 16] as rows of two pieces; lane l tells where row l % 16 has its piece l / 16.
__device__ __forceinline__ void store_matrices(unsigned address, const Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]), "r"(a[1]),
               "r"(a[2]), "r"(a[3])
               : "memory");
}

// The products since the last commit are a group.
__device__ __forceinline__ void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// All groups but the last `Pending` are complete.
template <int Pending>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Ties sums, or operands, to the place where this stands: the compiler, which does not know that products run on, moves
// no use of theirs to the other side of it.
template <int N>
__device__ __forceinline__ void keep_in_place(Sum (&sums)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums[n][i])::"memory");
}

template <int N>
__device__ __forceinline__ void keep_in_place(Operand (&operands)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(operands[n][i])::"memory");
}

#define GDN_SUM(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define GDN_SUMS_8(n)                                                                                         \
  GDN_SUM(n), GDN_SUM(n + 1), GDN_SUM(n + 2), GDN_SUM(n + 3), GDN_SUM(n + 4), GDN_SUM(n + 5), GDN_SUM(n + 6), \
      GDN_SUM(n + 7)

// Sums [64, 64] of A [64, 16] and B [16, 64], whose columns are rows in shared memory; added to the sums if Adds.
template <bool Adds>
__device__ __forceinline__ void multiply(Sum (&sums)[8], const Operand& a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0; }"
      : GDN_SUMS_8(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(Adds)));
}

// The same with A, too, in shared memory.
template <bool Adds>
__device__ __forceinline__ void multiply(Sum (&sums)[8], unsigned long long a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, 1, 1, 0, 0; }"
      : GDN_SUMS_8(0)
      : "l"(a), "l"(b), "n"(static_cast<int>(Adds)));
}

// The same for B [16, 128].
template <bool Adds>
__device__ __forceinline__ void multiply(Sum (&sums)[16], unsigned long long a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, adds, 1, 1, 0, 0; }"
      : GDN_SUMS_8(0), GDN_SUMS_8(8)
      : "l"(a), "l"(b), "n"(static_cast<int>(Adds)));
}

// The same for A in registers. B's rows, if it is Transposed, are rows in shared memory.
template <bool Adds, bool Transposed = false>
__device__ __forceinline__ void multiply(Sum (&sums)[16], const Operand& a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, %70; }"
      : GDN_SUMS_8(0), GDN_SUMS_8(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(Adds)),
        "n"(static_cast<int>(Transposed)));
}

#undef GDN_SUMS_8
#undef GDN_SUM

}  // namespace gdn
