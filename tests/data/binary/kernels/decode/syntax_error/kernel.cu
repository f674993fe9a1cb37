#include "gdn.cuh"

extern "C" __global__ void bad(GDN_DECODE_ARGUMENTS) {
  int never_used;
  output[0] = undefined_name;
}
