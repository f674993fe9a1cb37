// Arithmetic on four floats at once.
#pragma once

namespace gdn {

__device__ __forceinline__ float4 scaled(float s, float4 x) {
  return make_float4(s * x.x, s * x.y, s * x.z, s * x.w);
}

__device__ __forceinline__ float dot(float4 x, float4 y) {
  return fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, x.w * y.w)));
}

// x + s * y
__device__ __forceinline__ float4 add_scaled(float4 x, float s, float4 y) {
  return make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
}

// decay * x + s * y
__device__ __forceinline__ float4 decayed_plus(float decay, float4 x, float s, float4 y) {
  return make_float4(fmaf(s, y.x, decay * x.x), fmaf(s, y.y, decay * x.y), fmaf(s, y.z, decay * x.z),
                     fmaf(s, y.w, decay * x.w));
}

}  // namespace gdn
