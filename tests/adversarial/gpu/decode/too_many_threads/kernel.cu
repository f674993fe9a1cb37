// Wrong: nothing in it; the declaration asks for 2048 threads.
#include "gdn.cuh"

extern "C" __global__ void wide(GDN_DECODE_ARGUMENTS) { new_state[threadIdx.x] = state[threadIdx.x]; }
