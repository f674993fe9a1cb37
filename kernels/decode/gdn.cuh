// What the CUDA kernels of the decode step share: the argument list, the gates, bf16 loads and warp sums.
// A new kernel may use these or bring its own; measured differences then lie in the kernel's own idea.
#pragma once
#include <cuda_bf16.h>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, then the batch size.
#define GDN_DECODE_ARGUMENTS                                                                                  \
  const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k, const __nv_bfloat16 *__restrict__ v, \
      const float *__restrict__ state, const float *__restrict__ A_log, const float *__restrict__ dt_bias,     \
      const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, const float scale,             \
      __nv_bfloat16 *__restrict__ output, float *__restrict__ new_state, const int batches

namespace gdn {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int PER_LANE = GDN_K / WARP;  // elements of a key row that one lane holds
static_assert(GDN_K % WARP == 0 && PER_LANE == 4, "a warp spans a row of 128 in float4s");

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = sigmoid(b)
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }

__device__ __forceinline__ Gates gates(float A_log, float dt_bias, __nv_bfloat16 a, __nv_bfloat16 b) {
  const float rate = expf(A_log) * softplus(__bfloat162float(a) + dt_bias);
  return {expf(-rate), 1.f / (1.f + expf(-__bfloat162float(b)))};
}

// Four consecutive bf16 as one 8-byte load.
__device__ __forceinline__ float4 load_bf16x4(const __nv_bfloat16* p) {
  const uint2 bits = *reinterpret_cast<const uint2*>(p);
  const float2 lo = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
  const float2 hi = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
  return make_float4(lo.x, lo.y, hi.x, hi.y);
}

__device__ __forceinline__ float dot(float4 x, float4 y) {
  return fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, x.w * y.w)));
}

__device__ __forceinline__ float4 scaled(float s, float4 x) {
  return make_float4(s * x.x, s * x.y, s * x.z, s * x.w);
}

// x + s * y
__device__ __forceinline__ float4 add_scaled(float4 x, float s, float4 y) {
  return make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
}

// The dot product of two rows in one thread, a float4 at a time: each is summed by itself, then joins one of four sums.
// So no addition waits for the one before it, and the rounding error is that of a warp's tree of sums.
struct RowSum {
  float parts[4] = {};

  __device__ __forceinline__ void add(int quad, float4 x, float4 y) { parts[quad % 4] += dot(x, y); }
  __device__ __forceinline__ float total() const { return (parts[0] + parts[1]) + (parts[2] + parts[3]); }
};

// Sum over the warp, in every lane.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

}  // namespace gdn
