// The normalisation of norms.py in CUDA C++, a block of 256 threads a row.

#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(256) rms_norm(const __nv_bfloat16* __restrict__ x,
                                                           const __nv_bfloat16* __restrict__ w,
                                                           __nv_bfloat16* __restrict__ y, int K) {
    __shared__ float of_warp[8];
    x += static_cast<size_t>(blockIdx.x) * K;
    y += static_cast<size_t>(blockIdx.x) * K;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
        const float value = __bfloat162float(x[k]);
        sum += value * value;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < 8; ++warp) sum += of_warp[warp];
    const float scale = rsqrtf(sum / K + 1e-6f);
    for (int k = threadIdx.x; k < K; k += blockDim.x)
        y[k] = __float2bfloat16(__bfloat162float(x[k]) * scale * __bfloat162float(w[k]));
}
