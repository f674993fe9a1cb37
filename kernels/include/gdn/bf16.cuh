// bf16 as they lie in memory, and as floats.
#pragma once
#include <cuda_bf16.h>

namespace gdn {

// Four consecutive bf16 as one 8-byte load, and in a second step as floats.
__device__ __forceinline__ uint2 load_bits(const __nv_bfloat16* p) { return *reinterpret_cast<const uint2*>(p); }

// Four bf16 as floats.
__device__ __forceinline__ float4 widen(uint2 bits) {
  return make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
                     __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u));
}

__device__ __forceinline__ unsigned pack(float first, float second) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const unsigned*>(&two);
}

}  // namespace gdn
