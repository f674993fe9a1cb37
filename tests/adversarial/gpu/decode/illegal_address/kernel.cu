// Wrong: writes far outside every allocation.
#include "gdn.cuh"

extern "C" __global__ void fault(GDN_DECODE_ARGUMENTS) { reinterpret_cast<volatile float*>(0x10)[threadIdx.x] = scale; }
