// What the floors of the product in nvfp4 share: the argument list.
#pragma once
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// The op's argument list, the same for every CUDA kernel: inputs, outputs, axes, then derived sizes.
#define GEMV_ARGUMENTS                                                                                          \
  const unsigned char *__restrict__ a, const __nv_fp8_e4m3 *__restrict__ sfa, const unsigned char *__restrict__ b, \
      const __nv_fp8_e4m3 *__restrict__ sfb, __half *__restrict__ c, const int M, const int L,                  \
      const long long packed, const long long blocks
