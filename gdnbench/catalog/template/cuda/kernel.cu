// Macros: AXIS_N, the compile-time axis of op.py, and WARPS, the param of variant.py. Arguments: inputs, scalars, outputs
// and the other axes (int), in the order of op.py. M, the rows, is the size of the grid in variant.py.
#include <cuda_bf16.h>

extern "C" __global__ void normalise_rows(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                                          float eps, __nv_bfloat16* __restrict__ y, int M) {
    __shared__ float sums[WARPS];
    const long long row = static_cast<long long>(blockIdx.x) * AXIS_N;
    float sum = 0.0f;
    for (int column = threadIdx.x; column < AXIS_N; column += 32 * WARPS) {
        const float value = __bfloat162float(x[row + column]);
        sum += value * value;
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lane);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < WARPS; ++warp) sum += sums[warp];

    const float scale = rsqrtf(sum / AXIS_N + eps);
    for (int column = threadIdx.x; column < AXIS_N; column += 32 * WARPS)
        y[row + column] =
            __float2bfloat16(__bfloat162float(x[row + column]) * scale * __bfloat162float(w[column]));
}
