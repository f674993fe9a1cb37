#include <cuda_bf16.h>

extern "C" __global__ void rows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w,
                                float* __restrict__ y, float* __restrict__ total, int M) {
  const size_t row = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
  if (row >= M) return;
  float sum = 0.f;
  for (int i = 0; i < AXIS_N; ++i) sum += __bfloat162float(x[row * AXIS_N + i]);
  total[row] = sum;
}
