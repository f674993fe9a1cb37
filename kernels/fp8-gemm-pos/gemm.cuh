// What the floors of the product in fp8 share: the argument list.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp8.h>

// The op's argument list, the same for every CUDA kernel: inputs, outputs, then the rows of A and C.
#define GEMM_ARGUMENTS                                                                                       \
  const __nv_fp8_e4m3 *__restrict__ A, const __nv_fp8_e4m3 *__restrict__ B, const float *__restrict__ scale_a, \
      const float *__restrict__ scale_b, const __nv_bfloat16 *__restrict__ table, __nv_bfloat16 *__restrict__ C, \
      const int M
