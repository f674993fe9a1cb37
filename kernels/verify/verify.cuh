// What the CUDA kernels over draft tokens share: the argument list, where things lie, gates and sums.
#pragma once
#include <cuda_bf16.h>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
#define GDN_VERIFY_ARGUMENTS                                                                                   \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                            \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::Element *__restrict__ pool, const int *__restrict__ slot, const float scale,                  \
      __nv_bfloat16 *__restrict__ output, gdn::Element *__restrict__ states, const int batches,                \
      const long long slots, const long long mixed, const long long kept

namespace gdn {

using Element = float;  // of a state

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int TOKENS = GDN_T;
constexpr int KEPT = GDN_KEEP ? TOKENS : 1;               // states of a sequence that are written
constexpr unsigned QUERIES = GDN_HQ * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_HV * GDN_V;  // of a token's queries, keys and values
constexpr unsigned STATE = GDN_V * GDN_K;                 // of a head's state
constexpr float EPS = 1e-6f;                              // below the root of a norm
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = sigmoid(b)
};

// 2^x and 1/x by the special function unit: an error of 2 ulp, and none of the library's branches.
__device__ __forceinline__ float exp2_mufu(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_mufu(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ Gates gates(float A_log, float dt_bias, float a, float b) {
  constexpr float LOG2_E = 1.442695041f;
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1pf(exp2_mufu(-LOG2_E * fabsf(x)));
  const float rate = exp2_mufu(LOG2_E * A_log) * softplus;
  return {exp2_mufu(-LOG2_E * rate), reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * b))};
}

// A branch that is never taken, for the batch size is not 0. Past it ptxas moves no load, which it else does to save
// registers, down to where the load is used, so that two trips to memory take place one after the other.
__device__ __forceinline__ void loads_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, 0; @never trap; }" ::"r"(batches) : "memory");
}

// Four consecutive bf16 by one load of 8 bytes, and as floats where they are waited for.
__device__ __forceinline__ uint2 load_bits(const __nv_bfloat16* p) { return *reinterpret_cast<const uint2*>(p); }

__device__ __forceinline__ float4 widen(uint2 bits) {
  return make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
                     __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u));
}

// Four consecutive elements of a state as they are loaded, and as floats; and floats stored as such.
using Quad = float4;

__device__ __forceinline__ Quad load_quad(const Element* p) { return *reinterpret_cast<const Quad*>(p); }
__device__ __forceinline__ float4 widen(Quad quad) { return quad; }
__device__ __forceinline__ void store_quad(Element* p, float4 x) { *reinterpret_cast<Quad*>(p) = x; }

// A dot product over several quads: two chains that run side by side.
template <int Quads>
__device__ __forceinline__ float dot_of_quads(const float4 (&x)[Quads], const float4 (&y)[Quads]) {
  float odd = x[0].y * y[0].y, even = x[0].x * y[0].x;
#pragma unroll
  for (int i = 0; i < Quads; ++i) {
    if (i > 0) even = fmaf(x[i].x, y[i].x, even), odd = fmaf(x[i].y, y[i].y, odd);
    even = fmaf(x[i].z, y[i].z, even);
    odd = fmaf(x[i].w, y[i].w, odd);
  }
  return even + odd;
}

// Sum over groups of so many neighbouring lanes, in every lane.
template <int Lanes>
__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

// x * y
__device__ __forceinline__ float4 scaled(float x, float4 y) {
  return make_float4(x * y.x, x * y.y, x * y.z, x * y.w);
}

// x + s * y
__device__ __forceinline__ float4 add_scaled(float4 x, float s, float4 y) {
  return make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
}

}  // namespace gdn
