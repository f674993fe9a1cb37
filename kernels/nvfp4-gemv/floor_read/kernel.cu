// A warp a row: loads it and its scales, 16 bytes a lane, and leaves what an exclusive or makes of each in c.
#include "gemv.cuh"

constexpr unsigned WARP = 32;

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

extern "C" __global__ void __launch_bounds__(WARP * WARPS) nvfp4_gemv_floor_read(GEMV_ARGUMENTS) {
  const long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / WARP;
  const unsigned lane = threadIdx.x % WARP;
  if (row >= static_cast<long long>(L) * M) return;
  const unsigned low = folded(reinterpret_cast<const uint4*>(a + row * (GEMV_K / 2)), GEMV_K / 32, lane);
  const unsigned high = folded(reinterpret_cast<const uint4*>(sfa + row * (GEMV_K / 16)), GEMV_K / 256, lane);
  if (lane == 0) reinterpret_cast<unsigned short*>(c)[row] = static_cast<unsigned short>(low | high << 8);
}
