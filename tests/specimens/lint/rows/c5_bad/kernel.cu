#include <cuda_bf16.h>

extern "C" __global__ void rows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w,
                                float* __restrict__ y, float* __restrict__ total, int M) {
  const int row = blockIdx.x;
  const int at = row * AXIS_N + threadIdx.x;
  y[at] = __bfloat162float(x[at]);
}
