// What the CUDA kernels of the decode step over a pool share: the argument list, where things lie, gates and sums.
#pragma once
#include <cuda_bf16.h>
#include <gdn/math.cuh>
#include <gdn/quads.cuh>
#include <gdn/state_rows.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `pool` is what `new_pool` holds before a launch; kernels update that one where it stands.
#define GDN_POOL_ARGUMENTS                                                                                          \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                                 \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias,      \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const float scale, const float beta_limit, \
      __nv_bfloat16 *__restrict__ output, gdn::State *new_pool, const int batches, const long long slots,           \
      const long long mixed

namespace gdn {

constexpr unsigned QUERIES = GDN_HQ * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_HV * GDN_V;  // of a token's queries, keys and values
constexpr float EPS = 1e-6f;                              // below the root of a norm
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = beta_limit * sigmoid(b)
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ Gates gates(float A_log, float dt_bias, float a, float b, float beta_limit) {
  constexpr float LOG2_E = 1.442695041f;
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1pf(exp2_mufu(-LOG2_E * fabsf(x)));
  const float rate = exp2_mufu(LOG2_E * A_log) * softplus;
  return {exp2_mufu(-LOG2_E * rate), beta_limit * reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * b))};
}

}  // namespace gdn
