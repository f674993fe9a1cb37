// The op's argument list, the same for every CUDA kernel of one launch: inputs, scalars, outputs, then derived sizes.
#pragma once
#include <cuda_bf16.h>

#define KDA_PREFILL_ARGUMENTS                                                                                    \
  const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k, const __nv_bfloat16 *__restrict__ v, \
      const __nv_bfloat16 *__restrict__ g, const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, \
      const float *__restrict__ dt_bias, const float *__restrict__ state,                                        \
      const long long *__restrict__ cu_seqlens, const float scale, const float lower_bound,                      \
      __nv_bfloat16 *__restrict__ output, float *__restrict__ new_state, const long long tokens,                 \
      const long long sequences, const long long ends, const long long chunks
