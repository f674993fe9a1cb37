// A warp a row of B1 and of B2: loads them and their scales, 16 bytes a lane, and what an exclusive or makes of either
// goes to a column of C. Columns of a block are gathered, so that it stores 16 bytes at once.
#include <gdn/folded.cuh>

#include "gemm.cuh"

using gdn::folded, gdn::WARP;

constexpr unsigned STORED = 8;  // columns that a store of 16 bytes has

// Of a row and its scales.
__device__ __forceinline__ unsigned folded(const unsigned char* bits, const __nv_fp8_e4m3* scales, unsigned row,
                                           unsigned lane) {
  const size_t at = row;
  return folded(reinterpret_cast<const uint4*>(bits + at * (GEMM_K / 2)), GEMM_K / 32, lane) ^
         folded(reinterpret_cast<const uint4*>(scales + at * (GEMM_K / 16)), GEMM_K / 256, lane);
}

extern "C" __global__ void __launch_bounds__(WARP * WARPS) nvfp4_dual_gemm_floor_read(GEMM_ARGUMENTS) {
  __shared__ __align__(16) unsigned short found[WARPS];
  const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const unsigned begin = blockIdx.x * WARPS, column = begin + warp;
  if (column < GEMM_N) {
    const unsigned low = folded(B1, sfb1, column, lane), high = folded(B2, sfb2, column, lane);
    if (lane == 0) found[warp] = static_cast<unsigned short>(low | high << 8);
  }
  __syncthreads();
  const unsigned stores = min(static_cast<unsigned>(WARPS), GEMM_N - begin) / STORED;  // of a row of C
  unsigned short* const rows = reinterpret_cast<unsigned short*>(C) + begin;
  for (unsigned i = threadIdx.x; i < M * stores; i += WARP * WARPS) {
    const unsigned row = i / stores, part = i % stores * STORED;
    *reinterpret_cast<uint4*>(rows + static_cast<size_t>(row) * GEMM_N + part) =
        *reinterpret_cast<const uint4*>(found + part);
  }
}
