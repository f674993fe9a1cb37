// What the CUDA kernels over draft tokens with slots of their own share: the argument list, and a sequence's slots.
#pragma once
#include <cuda_bf16.h>
#include <gdn/state_rows.cuh>
#include <gdn/warp.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `pool` is what `new_pool` holds before a launch; kernels read and write that one.
#define GDN_ROLLBACK_ARGUMENTS                                                                                 \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                            \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slots, const int *__restrict__ accepted,    \
      const float scale, const float beta_limit, __nv_bfloat16 *__restrict__ output, gdn::State *new_pool,     \
      const int batches, const long long slots_of_pool, const long long mixed

namespace gdn {

// Where a sequence's states go, and which of these slots it reads: asked for together, so that the address of the state
// waits for one trip to memory and not for two.
struct Slots {
  int places[GDN_T], count;

  __device__ __forceinline__ Slots(const int* slots, const int* accepted, unsigned sequence)
      : count(accepted[sequence]) {
#pragma unroll
    for (int t = 0; t < GDN_T; ++t) places[t] = slots[sequence * GDN_T + t];
  }

  // The slot that is read; 0 for padding, whatever its count is.
  __device__ __forceinline__ int read() const {
    int place = 0;
#pragma unroll
    for (int t = 0; t < GDN_T; ++t)
      if (t == count - 1) place = places[t];
    return max(place, 0);
  }
};

}  // namespace gdn
