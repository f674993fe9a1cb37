#include <cuda_bf16.h>

extern "C" __global__ void rows(const __nv_bfloat16* __restrict__ x, const float* __restrict__ w,
                                float* __restrict__ y, float* __restrict__ total, int M) {
  __shared__ float parts[128];
  parts[threadIdx.x] = __bfloat162float(x[static_cast<size_t>(blockIdx.x) * AXIS_N + threadIdx.x]);
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      __syncthreads();
      parts[threadIdx.x] += parts[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) total[blockIdx.x] = parts[0];
}
