// Powers of two and reciprocals by the special function unit, dot products, and sums over lanes.
#pragma once
#include <gdn/warp.cuh>

namespace gdn {

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

// A dot product over several quads: two chains that run side by side, and one instruction an element.
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

}  // namespace gdn
