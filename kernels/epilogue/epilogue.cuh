// What the CUDA kernels of the epilogue share: the argument list.
#pragma once
#include <cuda_bf16.h>

// The op's argument list, the same for every CUDA kernel: inputs, the output, then the batch size.
#define GDN_EPILOGUE_ARGUMENTS                                                              \
  const __nv_bfloat16 *__restrict__ o, const __nv_bfloat16 *__restrict__ z,                 \
      const __nv_bfloat16 *__restrict__ weight, __nv_bfloat16 *__restrict__ y, const int batches
