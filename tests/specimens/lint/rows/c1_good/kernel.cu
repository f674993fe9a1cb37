#include <cuda_bf16.h>

extern "C" __global__ void rows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w,
                                float* __restrict__ y, float* __restrict__ total, int M) {
  const size_t row = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
  if (row >= M) return;
  float sum = 0.f;
  for (int i = 0; i < AXIS_N; i += 4) {
    const uint2 bits = *reinterpret_cast<const uint2*>(x + row * AXIS_N + i);
    sum += __uint_as_float(bits.x << 16) + __uint_as_float(bits.x & 0xffff0000u);
    sum += __uint_as_float(bits.y << 16) + __uint_as_float(bits.y & 0xffff0000u);
  }
  total[row] = sum;
}
