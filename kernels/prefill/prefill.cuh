// What the CUDA kernels of the prefill share: the argument list, the gates, bf16 loads and sums over lanes.
// A new kernel may use these or bring its own; measured differences then lie in the kernel's own idea.
#pragma once
#include <cuda_bf16.h>
#include <gdn/async.cuh>
#include <gdn/bf16.cuh>
#include <gdn/quads.cuh>
#include <gdn/warp.cuh>

// The op's argument list, the same for every CUDA kernel of one launch: inputs, scalars, outputs, then derived sizes.
#define GDN_PREFILL_ARGUMENTS                                                                                    \
  const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k, const __nv_bfloat16 *__restrict__ v, \
      const float *__restrict__ state, const float *__restrict__ A_log, const float *__restrict__ dt_bias,       \
      const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b,                                  \
      const long long *__restrict__ cu_seqlens, const float scale, __nv_bfloat16 *__restrict__ output,           \
      float *__restrict__ new_state, const long long tokens, const long long sequences, const long long ends,    \
      const long long chunks

namespace gdn {

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = sigmoid(b)
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }

// -log g, the rate at which the state decays.
__device__ __forceinline__ float decay_rate(float A_log, float dt_bias, __nv_bfloat16 a) {
  return expf(A_log) * softplus(__bfloat162float(a) + dt_bias);
}

__device__ __forceinline__ Gates gates(float A_log, float dt_bias, __nv_bfloat16 a, __nv_bfloat16 b) {
  return {expf(-decay_rate(A_log, dt_bias, a)), 1.f / (1.f + expf(-__bfloat162float(b)))};
}

// The dot product over several quads: four chains that run side by side, and one instruction an element.
template <int Quads>
__device__ __forceinline__ float dot_of_quads(const float4 (&x)[Quads], const float4 (&y)[Quads]) {
  float4 sum = make_float4(x[0].x * y[0].x, x[0].y * y[0].y, x[0].z * y[0].z, x[0].w * y[0].w);
#pragma unroll
  for (int i = 1; i < Quads; ++i) {
    sum.x = fmaf(x[i].x, y[i].x, sum.x);
    sum.y = fmaf(x[i].y, y[i].y, sum.y);
    sum.z = fmaf(x[i].z, y[i].z, sum.z);
    sum.w = fmaf(x[i].w, y[i].w, sum.w);
  }
  return (sum.x + sum.y) + (sum.z + sum.w);
}

// What all lanes of a warp hold alike, known to be so: ptxas then sees that branches on it part no warp.
template <class T>
__device__ __forceinline__ T uniform(T x) {
  return __shfl_sync(ALL_LANES, x, 0);
}

// Sum over groups of Lanes lanes that lie Stride lanes apart, in every lane.
template <int Lanes, int Stride = 1>
__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int offset = Lanes / 2 * Stride; offset >= Stride; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

// Sums of Count values over such groups, with about Count shuffles instead of Count log2(Lanes): each lane is left with
// `scattered<Count, Lanes>` of the sums at the front of x, for it gives its partner the half that the partner keeps.
// The lane numbered n in its group is left with the sums from n * Count / Lanes on.
template <int Count, int Lanes>
constexpr int scattered = Count > Lanes ? Count / Lanes : 1;

template <int Lanes, int Stride, int Count>
__device__ __forceinline__ void scatter_sums(float (&x)[Count], unsigned lane) {
  int left = Count;
#pragma unroll
  for (int offset = Lanes / 2 * Stride; offset >= Stride; offset /= 2) {
    const bool upper = lane & offset;
    if (left == 1) {
      x[0] += __shfl_xor_sync(ALL_LANES, x[0], offset);
      continue;
    }
    left /= 2;
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) {
      if (i >= left) break;
      const float given = upper ? x[i] : x[i + left], kept = upper ? x[i + left] : x[i];
      x[i] = kept + __shfl_xor_sync(ALL_LANES, given, offset);
    }
  }
}

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(&barrier))
               : "memory");
}

// Hopper and later can let a warp sleep until the phase is complete.
__device__ __forceinline__ void wait(const Barrier& barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "  @!done bra again; }" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      "  @!done bra again; }" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace gdn
