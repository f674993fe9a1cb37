#pragma once

namespace gdn {

// A power of two that brings numbers up to `greatest` near fp16's largest, and its reciprocal. Smaller ones than 2^-30
// are scaled as that is: fp16 has exponents for them, and products of two scales must not overflow.
struct PowerOfTwo {
  float to, from;

  explicit __device__ __forceinline__ PowerOfTwo(float greatest) {
    constexpr int BIAS = 127, TOP = 14;
    const int exponent = min(max(static_cast<int>(__float_as_uint(greatest) >> 23), BIAS - 30), BIAS + 60);
    to = __uint_as_float(static_cast<unsigned>(2 * BIAS + TOP - exponent) << 23);
    from = __uint_as_float(static_cast<unsigned>(exponent - TOP) << 23);
  }
};

}  // namespace gdn
