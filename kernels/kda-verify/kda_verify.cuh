// What the CUDA kernels of Kimi Delta Attention over draft tokens share: the argument list, and what is kept.
#pragma once
#include <cuda_bf16.h>
#include <gdn/channel_decays.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
#define KDA_VERIFY_ARGUMENTS                                                                                  \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ g,                           \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const float scale,                   \
      const float lower_bound, const float beta_limit, __nv_bfloat16 *__restrict__ output,                    \
      gdn::State *__restrict__ states, const int batches, const long long slots, const long long mixed,       \
      const long long kept

namespace kda {

constexpr int TOKENS = GDN_T;
constexpr int KEEP_LAST = 0, KEEP_EACH = 1;  // of GDN_KEEP, beside none
constexpr int KEPT = GDN_KEEP == KEEP_EACH ? TOKENS : GDN_KEEP == KEEP_LAST;  // states of a sequence that are written

}  // namespace kda
