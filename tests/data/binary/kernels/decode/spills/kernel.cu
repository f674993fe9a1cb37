// 200 values live at once in a thread that two blocks of 1024 leave 32 registers.
#include "gdn.cuh"

constexpr int VALUES = 200;

extern "C" __global__ void __launch_bounds__(1024, 2) spills(GDN_DECODE_ARGUMENTS) {
  float x[VALUES];
#pragma unroll
  for (int i = 0; i < VALUES; ++i) x[i] = state[i * threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < VALUES; ++i) new_state[i * threadIdx.x] = x[i] * x[(i * 7 + 100) % VALUES];
}
