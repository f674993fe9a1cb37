// Wrong: a semicolon is missing.
#include "gdn.cuh"

extern "C" __global__ void broken(GDN_DECODE_ARGUMENTS) {
  new_state[0] = state[0]
}
