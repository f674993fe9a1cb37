// What the CUDA kernels of the decode step share: the argument list, the gates, bf16 loads and warp sums.
// A new kernel may use these or bring its own; measured differences then lie in the kernel's own idea.
#pragma once
#include <cuda_bf16.h>
#include <gdn/bf16.cuh>
#include <gdn/math.cuh>
#include <gdn/quads.cuh>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, then the batch size.
#define GDN_DECODE_ARGUMENTS                                                                                  \
  const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k, const __nv_bfloat16 *__restrict__ v, \
      const float *__restrict__ state, const float *__restrict__ A_log, const float *__restrict__ dt_bias,     \
      const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, const float scale,             \
      __nv_bfloat16 *__restrict__ output, float *__restrict__ new_state, const int batches

namespace gdn {

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

// log(1 + u) for u in [0, 1], to 3e-8: the degree-8 interpolation of log1p(u) / u at the Chebyshev nodes. Relative to
// the result, as a logarithm of 1 + u is not: 1 + u has lost a small u. Summed by halves, five operations deep.
__device__ __forceinline__ float log1p_unit(float u) {
  const float u2 = u * u, u4 = u2 * u2;
  const float p01 = fmaf(u, -0.49999446f, 0.99999994f), p23 = fmaf(u, -0.24835399f, 0.3331812f);
  const float p45 = fmaf(u, -0.13602248f, 0.19076881f), p67 = fmaf(u, -0.029074065f, 0.077516086f);
  const float low = fmaf(u2, p23, p01), high = fmaf(u4, 0.0051261024f, fmaf(u2, p67, p45));
  return u * fmaf(u4, high, low);
}

// The gates in two dozen instructions: where nothing else is left to wait for, they are the longest chain.
__device__ __forceinline__ Gates short_gates(float A_log, float dt_bias, float a, float b) {
  constexpr float LOG2_E = 1.442695041f;
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1p_unit(exp2_mufu(-LOG2_E * fabsf(x)));
  const float rate = exp2_mufu(LOG2_E * A_log) * softplus;
  return {exp2_mufu(-LOG2_E * rate), reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * b))};
}

// Four consecutive bf16 as one 8-byte load.
__device__ __forceinline__ float4 load_bf16x4(const __nv_bfloat16* p) {
  const uint2 bits = *reinterpret_cast<const uint2*>(p);
  const float2 lo = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
  const float2 hi = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
  return make_float4(lo.x, lo.y, hi.x, hi.y);
}

// The dot product of two rows in one thread, a float4 at a time: each is summed by itself, then joins one of four sums.
// So no addition waits for the one before it, and the rounding error is that of a warp's tree of sums.
struct RowSum {
  float parts[4] = {};

  __device__ __forceinline__ void add(int quad, float4 x, float4 y) { parts[quad % 4] += dot(x, y); }
  __device__ __forceinline__ float total() const { return (parts[0] + parts[1]) + (parts[2] + parts[3]); }
};

// Branches that are never taken, for ptxas, which schedules as if a wait for memory cost little. To save registers it
// moves loads down to their uses, past the wait for other loads, so that two trips to memory take place one after the
// other; and it puts off arithmetic until its result is wanted. Past a branch it moves no load, and what a branch asks
// for is computed before it. The batch size is not 0, and a gate is not negative.
__device__ __forceinline__ void loads_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, 0; @never trap; }" ::"r"(batches) : "memory");
}

// What is given is computed before this, and so before a branch that follows.
__device__ __forceinline__ void ready(float x) { asm volatile("" ::"f"(x)); }

__device__ __forceinline__ void gates_first(Gates gate) {
  asm volatile("{ .reg .pred never; setp.lt.f32 never, %0, 0f00000000; @never trap; }" ::"f"(gate.decay * gate.write)
               : "memory");
}

// Sum over the warp, in every lane.
__device__ __forceinline__ float warp_sum(float x) { return group_sum<WARP>(x); }

}  // namespace gdn
