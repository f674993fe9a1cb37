// What the CUDA kernels over a tree of draft tokens share: the argument list.
#pragma once
#include <cuda_bf16.h>
#include <gdn/state_rows.cuh>
#include <gdn/warp.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
#define GDN_TREE_ARGUMENTS                                                                                     \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                            \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const int *__restrict__ parent,       \
      const float scale, const float beta_limit, __nv_bfloat16 *__restrict__ output,                           \
      gdn::State *__restrict__ states, const int batches, const long long slots, const long long mixed
