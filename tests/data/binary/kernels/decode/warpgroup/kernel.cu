// Sums [64, 64] of operands that nobody filled: only the code that this is compiled to counts.
#include "gdn.cuh"

#define SUM(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])

__device__ __forceinline__ void multiply(float (&sums)[32], unsigned long long a, unsigned long long b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
      : SUM(0), SUM(4), SUM(8), SUM(12), SUM(16), SUM(20), SUM(24), SUM(28)
      : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(128) products(GDN_DECODE_ARGUMENTS) {
  float sums[32] = {};
  const unsigned long long operand = threadIdx.x / 128;
  for (int step = 0; step < GDN_K / 16; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < PRODUCTS; ++i) multiply(sums, operand + i, operand + step);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (TOUCHED) sums[0] += 1;
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) new_state[i * 128 + threadIdx.x] = sums[i];
}
