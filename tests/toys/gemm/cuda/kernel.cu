#include <cuda_bf16.h>

extern "C" __global__ void element(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                                   __nv_bfloat16* __restrict__ C, int M) {
    const int at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= M * AXIS_N) return;
    float sum = 0.0f;
    for (int k = 0; k < AXIS_Kd; ++k)
        sum += __bfloat162float(A[at / AXIS_N * AXIS_Kd + k]) * __bfloat162float(B[at % AXIS_N * AXIS_Kd + k]);
    C[at] = __float2bfloat16(sum);
}
