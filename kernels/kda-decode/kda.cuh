// The argument list that the CUDA kernels of Kimi Delta Attention's decode step share.
#pragma once
#include <cuda_bf16.h>
#include <gdn/channel_decays.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `pool` is what `new_pool` holds before a launch; kernels update that one where it stands.
#define KDA_DECODE_ARGUMENTS                                                                                  \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ g,                           \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const float scale,                   \
      const float lower_bound, const float beta_limit, __nv_bfloat16 *__restrict__ output,                    \
      gdn::State *new_pool, const int batches, const long long slots, const long long mixed
