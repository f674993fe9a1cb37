// What the CUDA kernels of Kimi Delta Attention's decode step share: the argument list, where things lie, and gates.
#pragma once
#include <cuda_bf16.h>
#include <gdn/math.cuh>
#include <gdn/quads.cuh>
#include <gdn/state_rows.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `pool` is what `new_pool` holds before a launch; kernels update that one where it stands.
#define KDA_DECODE_ARGUMENTS                                                                                  \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ g,                           \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const float scale,                   \
      const float lower_bound, const float beta_limit, __nv_bfloat16 *__restrict__ output,                    \
      gdn::State *new_pool, const int batches, const long long slots, const long long mixed

namespace kda {

constexpr unsigned QUERIES = GDN_H * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_H * GDN_V;  // of a token's queries, keys and values
constexpr float EPS = 1e-6f;                             // below the root of a norm
constexpr float LOG2_E = 1.442695041f;
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

__device__ __forceinline__ float sigmoid(float x) {
  return gdn::reciprocal_mufu(1.f + gdn::exp2_mufu(-LOG2_E * x));
}

// What a channel keeps, of its raw gate with the bias and the head's rate, exp(A_log). The softplus is max(x, 0) +
// log1p(exp(-|x|)): no overflow, and full relative precision where it is tiny.
__device__ __forceinline__ float decay(float x, float rate, float lower_bound) {
#if GDN_GATE == 1
  return gdn::exp2_mufu(LOG2_E * lower_bound * sigmoid(rate * x));
#else
  const float softplus = fmaxf(x, 0.f) + log1pf(gdn::exp2_mufu(-LOG2_E * fabsf(x)));
  return gdn::exp2_mufu(-LOG2_E * rate * softplus);
#endif
}

// A block's threads work the decays of its head's channels out, one after the other; rows read them behind a barrier.
template <int Threads>
__device__ __forceinline__ void decays(float (&to)[GDN_K], const __nv_bfloat16* g, const float* dt_bias, float A_log,
                                       float lower_bound) {
  const float rate = gdn::exp2_mufu(LOG2_E * A_log);
#pragma unroll
  for (unsigned first = 0; first < GDN_K; first += Threads) {
    const unsigned channel = first + threadIdx.x;
    if (GDN_K % Threads == 0 || channel < GDN_K)
      to[channel] = decay(__bfloat162float(g[channel]) + dt_bias[channel], rate, lower_bound);
  }
}

// What a lane's part of a row keeps: each element times its channel's decay.
template <int Lanes, int Quads>
__device__ __forceinline__ void decay_row(float4 (&s)[Quads], const float (&decays)[GDN_K], unsigned lane) {
#pragma unroll
  for (int i = 0; i < Quads; ++i) {
    const float4 d = *reinterpret_cast<const float4*>(decays + gdn::column<Lanes>(lane, i));
    s[i] = make_float4(d.x * s[i].x, d.y * s[i].y, d.z * s[i].z, d.w * s[i].w);
  }
}

}  // namespace kda
