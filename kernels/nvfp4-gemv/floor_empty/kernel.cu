// Takes the op's arguments, so that passing them is part of the floor.
#include "gemv.cuh"

extern "C" __global__ void __launch_bounds__(128) nvfp4_gemv_floor_empty(GEMV_ARGUMENTS) {}
