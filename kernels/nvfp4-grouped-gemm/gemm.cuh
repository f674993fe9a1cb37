// What the floors of the grouped product in nvfp4 share: the argument list.
#pragma once
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// The op's argument list, the same for every CUDA kernel: inputs, outputs, then derived sizes.
#define GEMM_ARGUMENTS                                                                                             \
  const unsigned char *__restrict__ A, const __nv_fp8_e4m3 *__restrict__ sfa, const unsigned char *__restrict__ B,    \
      const __nv_fp8_e4m3 *__restrict__ sfb, const int *__restrict__ ends, __half *__restrict__ C, const long long T, \
      const long long G, const long long ENDS, const long long packed, const long long blocks,                     \
      const long long rows_sfa, const long long rows_sfb
