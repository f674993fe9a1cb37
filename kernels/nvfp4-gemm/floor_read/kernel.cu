// A warp a row of B: loads it and its scales, 16 bytes a lane, and what an exclusive or makes of each goes to a column
// of C. Columns of a block are gathered, so that it stores 16 bytes at once.
#include <gdn/folded.cuh>

#include "gemm.cuh"

using gdn::folded, gdn::WARP;

constexpr unsigned STORED = 8;  // columns that a store of 16 bytes has

extern "C" __global__ void __launch_bounds__(WARP * WARPS) nvfp4_gemm_floor_read(GEMM_ARGUMENTS) {
  __shared__ __align__(16) unsigned short found[WARPS];
  const unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const unsigned begin = blockIdx.x * WARPS, column = begin + warp;
  const long long matrix = blockIdx.y;
  if (column < GEMM_N) {
    const long long row = matrix * GEMM_N + column, scales = matrix * rows_sfb + column;
    const unsigned low = folded(reinterpret_cast<const uint4*>(B + row * (GEMM_K / 2)), GEMM_K / 32, lane);
    const unsigned high = folded(reinterpret_cast<const uint4*>(sfb + scales * (GEMM_K / 16)), GEMM_K / 256, lane);
    if (lane == 0) found[warp] = static_cast<unsigned short>(low | high << 8);
  }
  __syncthreads();
  const unsigned stores = min(static_cast<unsigned>(WARPS), GEMM_N - begin) / STORED;  // of a row of C
  unsigned short* const rows = reinterpret_cast<unsigned short*>(C) + matrix * M * GEMM_N + begin;
  for (unsigned i = threadIdx.x; i < M * stores; i += WARP * WARPS) {
    const unsigned row = i / stores, part = i % stores * STORED;
    *reinterpret_cast<uint4*>(rows + static_cast<size_t>(row) * GEMM_N + part) =
        *reinterpret_cast<const uint4*>(found + part);
  }
}
