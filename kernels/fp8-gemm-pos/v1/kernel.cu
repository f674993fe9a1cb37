// A third warpgroup copies A, 16 bytes a lane.
#include "persistent.cuh"

namespace gemm {

constexpr int THREADS = (CONSUMERS + 1) * GROUP;

// By the producing warps, which take stages in turn.
__device__ __forceinline__ void bring_rows(Memory& memory, const __nv_fp8_e4m3* A, const Share& share, int rows,
                                           int warp, int lane) {
  constexpr int STEP = WARP / 8;
  const int row = lane / 8, piece = lane % 8;
  const unsigned stages = static_cast<unsigned>(share.last - share.first) * BANDS;
  GDNBENCH_PHASES_BEGIN();
  for (unsigned count = warp; count < stages; count += GROUP_WARPS) {
    const int first_row = tile_of(share.first + static_cast<int>(count / BANDS), share.tiles).first_row + row;
    const int inner = static_cast<int>(count % BANDS) * BAND + piece * PIECE;
    const unsigned place = Stages::place(count);
    const unsigned to = shared_address(memory.rows[place]);
    const __nv_fp8_e4m3* const from = A + static_cast<size_t>(first_row) * GEMM_K + inner;
    if (count >= STAGES) wait(memory.free[place], Stages::parity(count - STAGES));
    GDNBENCH_PHASE(space);
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i += STEP)
      copy_async(to + swizzled(row + i, piece), from + i * GEMM_K, first_row + i < rows && inner < GEMM_K);
    arrive_after_copies(memory.there[place]);
    GDNBENCH_PHASE(copies);
  }
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1) fp8_gemm_pos_v1(GEMM_ARGUMENTS) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) initialise(memory, WARP);
  __syncthreads();
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP), group = warp / GROUP_WARPS;
  const Share share(M);
  if (group == CONSUMERS) {
    give_registers<40>();
    bring_rows(memory, A, share, M, warp % GROUP_WARPS, lane);
  } else {
    take_registers<232>();
    multiply_rows<true>(memory, B, *scale_a * *scale_b, table, C, share, M, group, warp % GROUP_WARPS, lane);
  }
}
