// Takes the op's arguments, so that passing them is part of the floor.
#include "kda.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS) kda_decode_floor_empty(KDA_DECODE_ARGUMENTS) {}
