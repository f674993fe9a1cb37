// What floors that read make of all that they load.
#pragma once
#include <gdn/warp.cuh>

namespace gdn {

// The exclusive or of all bytes that the warp has seen in `count` times 16 of them.
__device__ __forceinline__ unsigned folded(const uint4* row, unsigned count, unsigned lane) {
  unsigned all = 0;
  for (unsigned first = lane; first < count; first += WARP * EACH) {
    uint4 bits[EACH];
#pragma unroll
    for (unsigned i = 0; i < EACH; ++i)
      bits[i] = first + i * WARP < count ? row[first + i * WARP] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (unsigned i = 0; i < EACH; ++i) all ^= bits[i].x ^ bits[i].y ^ bits[i].z ^ bits[i].w;
  }
#pragma unroll
  for (unsigned apart = WARP / 2; apart > 0; apart /= 2) all ^= __shfl_xor_sync(0xffffffffu, all, apart);
  all ^= all >> 16;
  return (all ^ all >> 8) & 0xff;
}

}  // namespace gdn
