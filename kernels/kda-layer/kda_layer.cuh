// What the CUDA kernels of a Kimi Delta Attention layer's decode step share: the argument list, and the convolution.
#pragma once
#include <cuda_bf16.h>
#include <gdn/channel_decays.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
// `conv_pool` and `pool` are what `new_conv_pool` and `new_pool` hold before a launch; kernels update those where they
// stand.
#define KDA_LAYER_ARGUMENTS                                                                                         \
  const __nv_bfloat16 *__restrict__ x, const float *__restrict__ conv_weight,                                       \
      const __nv_bfloat16 *__restrict__ conv_pool, const int *__restrict__ slot,                                    \
      const __nv_bfloat16 *__restrict__ g, const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log,    \
      const float *__restrict__ dt_bias, const gdn::State *__restrict__ pool, const __nv_bfloat16 *__restrict__ z,  \
      const float *__restrict__ weight, const float scale, const float lower_bound, __nv_bfloat16 *__restrict__ y,  \
      __nv_bfloat16 *new_conv_pool, gdn::State *new_pool, const int batches, const long long slots,                 \
      const long long channels, const long long mixed

namespace kda {

constexpr int TAPS = 4;
constexpr int KEPT_INPUTS = TAPS - 1;
constexpr float OUTPUT_EPS = 1e-5f;  // below the root of the norm of outputs
static_assert(GDN_K == GDN_V, "the convolution has as many channels of values as of keys");

// Four channels that follow each other: their inputs, and the weights of their taps, the oldest first.
struct Convolution {
  uint2 now, before[KEPT_INPUTS];
  float4 weight[TAPS];

  // What does not wait for the slot; `channel` is one of the token's MIXED.
  __device__ __forceinline__ void load_new(const __nv_bfloat16* token, const float* weights, unsigned channel) {
    now = gdn::load_bits(token + channel);
    const float* const first = weights + channel / QUERIES * TAPS * QUERIES + channel % QUERIES;
#pragma unroll
    for (int i = 0; i < TAPS; ++i) weight[i] = *reinterpret_cast<const float4*>(first + i * QUERIES);
  }

  // `inputs` are a slot's, [KEPT_INPUTS][MIXED].
  __device__ __forceinline__ void load_before(const __nv_bfloat16* inputs, unsigned channel) {
#pragma unroll
    for (int i = 0; i < KEPT_INPUTS; ++i) before[i] = gdn::load_bits(inputs + i * MIXED + channel);
  }

  // The newest input comes in, the oldest goes.
  __device__ __forceinline__ void store_shifted(__nv_bfloat16* inputs, unsigned channel) const {
#pragma unroll
    for (int i = 0; i < KEPT_INPUTS; ++i)
      *reinterpret_cast<uint2*>(inputs + i * MIXED + channel) = i + 1 < KEPT_INPUTS ? before[i + 1] : now;
  }

  // SiLU of the sums of taps.
  __device__ __forceinline__ float4 convolved() const {
    float4 sum = tap(weight[KEPT_INPUTS], now, make_float4(0.f, 0.f, 0.f, 0.f));
#pragma unroll
    for (int i = 0; i < KEPT_INPUTS; ++i) sum = tap(weight[i], before[i], sum);
    return make_float4(silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w));
  }

 private:
  __device__ __forceinline__ static float silu(float x) { return x * sigmoid(x); }

  __device__ __forceinline__ static float4 tap(float4 w, uint2 bits, float4 sum) {
    const float4 c = gdn::widen(bits);
    return make_float4(fmaf(w.x, c.x, sum.x), fmaf(w.y, c.y, sum.y), fmaf(w.z, c.z, sum.z), fmaf(w.w, c.w, sum.w));
  }
};

}  // namespace kda
