#include "gdn.cuh"

extern "C" __global__ void present(GDN_DECODE_ARGUMENTS) {}
