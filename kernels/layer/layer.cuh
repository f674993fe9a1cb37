// What the CUDA kernels of a layer's decode step share: the argument list, gates, convolution, norms and sums.
#pragma once
#include <cuda_bf16.h>
#include <gdn/conv.cuh>
#include <gdn/quads.cuh>

// The op's argument list, the same for every CUDA kernel of one launch: inputs, scalars, outputs, the batch size, then
// derived sizes. `conv_pool` and `pool` are what `new_conv_pool` and `new_pool` hold before a launch; kernels update
// those where they stand.
#define GDN_LAYER_ARGUMENTS                                                                                           \
  const __nv_bfloat16 *__restrict__ x, const __nv_bfloat16 *__restrict__ conv_weight,                                 \
      const __nv_bfloat16 *__restrict__ conv_pool, const int *__restrict__ slot, const __nv_bfloat16 *__restrict__ a, \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias,        \
      const float *__restrict__ pool, const __nv_bfloat16 *__restrict__ z, const __nv_bfloat16 *__restrict__ weight,  \
      const float scale, const float beta_limit, __nv_bfloat16 *__restrict__ y, __nv_bfloat16 *new_conv_pool,         \
      float *new_pool, const int batches, const long long slots, const long long mixed

namespace gdn {

constexpr unsigned QUERIES = GDN_HQ * GDN_K;              // channels; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_HV * GDN_V;  // channels of a token
constexpr unsigned SHARING = GDN_HV / GDN_HQ;             // value heads that read one query and key head
constexpr unsigned STATE = GDN_V * GDN_K;                 // elements of a head's state
constexpr float EPS = 1e-6f;                              // below the root of a norm
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "four channels begin where a load of 16 bytes of their weights may");

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = beta_limit * sigmoid(b)
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ Gates gates(float A_log, float dt_bias, float a, float b, float beta_limit) {
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1pf(exp2_mufu(-LOG2_E * fabsf(x)));
  return {exp2_mufu(-LOG2_E * (exp2_mufu(LOG2_E * A_log) * softplus)), beta_limit * sigmoid(b)};
}

__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }

}  // namespace gdn
