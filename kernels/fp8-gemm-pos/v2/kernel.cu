// One thread copies A, a stage at once.
#include <gdn/tensor_map.cuh>

#include "persistent.cuh"

namespace gemm {

constexpr int THREADS = (CONSUMERS + 1) * GROUP;  // of the third warpgroup one brings A: registers are given by groups

// By one thread of each of the blocks that take these rows: into L2 a part of those of a tile, as they lie.
__device__ __forceinline__ void announce(const __nv_fp8_e4m3* A, int first_row, int rows) {
  constexpr int PART = (GROUP_ROWS + ACROSS - 1) / ACROSS;
  const int first = first_row + static_cast<int>(blockIdx.x % ACROSS) * PART;
  const int last = min(min(first + PART, first_row + GROUP_ROWS), rows);
  if (first < last)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(A + static_cast<size_t>(first) * GEMM_K),
                 "r"((last - first) * GEMM_K)
                 : "memory");
}

// By one thread.
__device__ __forceinline__ void bring_rows(Memory& memory, const __nv_fp8_e4m3* A, const TensorMap& map,
                                           const Share& share, int rows) {
  GDNBENCH_PHASES_BEGIN();
  unsigned count = 0;
  for (int number = share.first; number < share.last; ++number) {
    const int row = tile_of(number, share.tiles).first_row;
    if (AHEAD > 0 && number + AHEAD < share.last) announce(A, tile_of(number + AHEAD, share.tiles).first_row, rows);
    for (int band = 0; band < BANDS; ++band, ++count) {
      const unsigned place = Stages::place(count);
      if (count >= STAGES) wait(memory.free[place], Stages::parity(count - STAGES));
      GDNBENCH_PHASE(space);
      arrive_expecting(memory.there[place], STAGE_BYTES);
      load_box(memory.rows[place], map, row, band * BAND, memory.there[place]);
      GDNBENCH_PHASE(copies);
    }
  }
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1)
    fp8_gemm_pos_v2(const __nv_fp8_e4m3* __restrict__ A, const __nv_fp8_e4m3* __restrict__ B,
                    const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                    const __nv_bfloat16* __restrict__ table, __nv_bfloat16* __restrict__ C,
                    const __grid_constant__ gdn::TensorMap map, const int M) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(map);
    initialise(memory, 1);
    fence_barriers();
  }
  __syncthreads();
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP), group = warp / GROUP_WARPS;
  const Share share(M);
  if (group == CONSUMERS) {
    give_registers<24>();
    if (threadIdx.x == CONSUMERS * GROUP) bring_rows(memory, A, map, share, M);
  } else {
    take_registers<240>();
    multiply_rows<false>(memory, B, *scale_a * *scale_b, table, C, share, M, group, warp % GROUP_WARPS, lane);
  }
}
