// What the CUDA kernels of the decode step with slots to read and to write share: the argument list.
#pragma once
#include <cuda_bf16.h>
#include <gdn/state_rows.cuh>
#include <gdn/warp.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `pool` is what `new_pool` holds before a launch; kernels read and write that one.
#define GDN_SPLIT_ARGUMENTS                                                                                    \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                            \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ read_slot,                                  \
      const int *__restrict__ write_slot, const float scale, const float beta_limit,                           \
      __nv_bfloat16 *__restrict__ output, gdn::State *new_pool, const int batches, const long long slots,      \
      const long long mixed
