// Waits for nothing and does nothing, on a grid of its own.
#include "gdn.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) gdn_decode_nothing(GDN_DECODE_ARGUMENTS) {}
