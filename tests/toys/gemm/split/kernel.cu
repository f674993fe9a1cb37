#include <cuda_bf16.h>

extern "C" __global__ void partial_sums(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                                        float* __restrict__ sums, int M) {
    const int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= M * AXIS_N) return;
    constexpr int PART = AXIS_Kd / PARTS;
    float sum = 0.0f;
    for (int k = blockIdx.y * PART; k < (blockIdx.y + 1) * PART; ++k)
        sum += __bfloat162float(A[at / AXIS_N * AXIS_Kd + k]) * __bfloat162float(B[at % AXIS_N * AXIS_Kd + k]);
    sums[blockIdx.y * M * AXIS_N + at] = sum;
}

extern "C" __global__ void add_sums(const float* __restrict__ sums, __nv_bfloat16* __restrict__ C, int M) {
    const int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= M * AXIS_N) return;
    float sum = 0.0f;
    for (int part = 0; part < PARTS; ++part) sum += sums[part * M * AXIS_N + at];
    C[at] = __float2bfloat16(sum);
}
