// A warp a row: loads it and its scales, 16 bytes a lane, and leaves what an exclusive or makes of each in c.
#include <gdn/folded.cuh>

#include "gemv.cuh"

using gdn::folded, gdn::WARP;

extern "C" __global__ void __launch_bounds__(WARP * WARPS) nvfp4_gemv_floor_read(GEMV_ARGUMENTS) {
  const long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / WARP;
  const unsigned lane = threadIdx.x % WARP;
  if (row >= static_cast<long long>(L) * M) return;
  const unsigned low = folded(reinterpret_cast<const uint4*>(a + row * (GEMV_K / 2)), GEMV_K / 32, lane);
  const unsigned high = folded(reinterpret_cast<const uint4*>(sfa + row * (GEMV_K / 16)), GEMV_K / 256, lane);
  if (lane == 0) reinterpret_cast<unsigned short*>(c)[row] = static_cast<unsigned short>(low | high << 8);
}
