// v2 with what its study proposed, each by a param whose default is v2's way.
#include "multiply.cuh"

namespace gemm {

constexpr int THREADS = (GROUPS + 1) * GROUP;  // of the last warpgroup one brings A: registers are given by groups

// By one thread.
__device__ __forceinline__ void bring_rows(Memory& memory, const TensorMap& map, const Share& share) {
  GDNBENCH_PHASES_BEGIN();
  unsigned count = 0;
  for (int number = share.first; number < share.last; ++number) {
    const int row = tile_of(number, share.tiles).first_row;
    for (int band = 0; band < BANDS; ++band, ++count) {
      const unsigned place = Stages::place(count);
      if (count >= STAGES) wait(memory.free[place], Stages::parity(count - STAGES));
      GDNBENCH_PHASE(space);
      fill(memory, place, map, row, band * BAND, static_cast<int>(blockIdx.x) % SHARING);
      GDNBENCH_PHASE(copies);
    }
  }
}

}  // namespace gemm

#if CLUSTER > 1
#define CLUSTERED __cluster_dims__(gemm::SHARING)
#else
#define CLUSTERED
#endif

extern "C" __global__ void CLUSTERED __launch_bounds__(gemm::THREADS, 1)
    fp8_gemm_pos_v3(const __nv_fp8_e4m3* __restrict__ B, const float* __restrict__ scale_a,
                    const float* __restrict__ scale_b, const __nv_bfloat16* __restrict__ table,
                    __nv_bfloat16* __restrict__ C, const __grid_constant__ gdn::TensorMap map,
                    const __grid_constant__ gdn::TensorMap out, const int M) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(map);
    if (STAGED) prefetch(out);
    initialise(memory);
    fence_barriers();
  }
  if (SHARING > 1) {  // the others' barriers are there
    __syncwarp();
    arrive_at_cluster();
    wait_for_cluster();
  } else {
    __syncthreads();
  }
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP), group = warp / GROUP_WARPS;
  const Share share(M);
  if (group == GROUPS) {
    give_registers<24>();
    if (threadIdx.x == GROUPS * GROUP) bring_rows(memory, map, share);
  } else {
    take_registers<GROUPS == 3 ? 160 : 240>();
    multiply_rows(memory, B, *scale_a * *scale_b, table, C, out, share, M, group, warp % GROUP_WARPS, lane);
  }
  if (SHARING > 1) {  // until the others need this block's memory no more
    __syncwarp();
    arrive_at_cluster();
    wait_for_cluster();
  }
}
