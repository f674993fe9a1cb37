#include "gdn.cuh"

extern "C" __global__ void shared(GDN_DECODE_ARGUMENTS) {
  __shared__ float staged[64];
  staged[threadIdx.x] = state[threadIdx.x];
  __syncthreads();
  new_state[threadIdx.x] = staged[63 - threadIdx.x];
}
