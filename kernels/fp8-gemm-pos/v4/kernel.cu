// v3-banded, whose columns of B come by bulk tensor copies, too.
#include "finish.cuh"

namespace gemm {

constexpr int THREADS = (CONSUMERS + 1) * GROUP;  // of the third warpgroup one brings A and B

// By a consumer: every second tile of the block's.
__device__ __forceinline__ void multiply_rows(Memory& memory, float scale, const __nv_bfloat16* table,
                                              __nv_bfloat16* C, const Share& share, int rows, int group, int warp,
                                              int lane) {
  GDNBENCH_PHASES_BEGIN();
  if (group == 1) arrive_at<CONSUMERS * GROUP>(TURN);
  const unsigned long long of_columns = descriptor(shared_address(memory.columns));
  const unsigned long long of_rows = descriptor(shared_address(memory.rows));
  const int row = warp * 16 + lane / 4, column = share.first_column + lane % 4 * 8;
  int place_kept = -1;  // whose rows of the table are in registers
  unsigned count = group * BANDS;
  Kept kept;
  for (int i = group; i < share.count; i += CONSUMERS, count += (CONSUMERS - 1) * BANDS) {
    const Tile tile = share.tile(i);
    const bool renews = tile.place != place_kept;
    if (renews) load_kept(kept, table, tile.first_row + row, column);
    place_kept = tile.place;
    float sums[COLUMNS / 2];
    // A barrier tells a phase from the next one alone: a stage is waited for when the rows that were in it before, the
    // other's perhaps, are known to have come, and not sooner.
    synchronise<CONSUMERS * GROUP>(TURN + group);
    GDNBENCH_PHASE(turn);
#pragma unroll
    for (int band = 0; band < BANDS; ++band, ++count) {
      const unsigned place = Stages::place(count);
      wait(memory.there[place], Stages::parity(count));
      GDNBENCH_PHASE(rows);
      fence_products();
#pragma unroll
      for (int inner = 0; inner < BAND; inner += INNER)
        multiply(sums, of_rows + (place * STAGE_BYTES + inner) / 16,
                 of_columns + (band * COLUMNS_BYTES + inner) / 16, band + inner > 0);
      commit_products();
      if (band > 0) {  // the last stage's products are complete
        wait_for_products<1>();
        if (lane == 0) arrive(memory.free[Stages::place(count - 1)]);
      }
      GDNBENCH_PHASE(products);
    }
    if (i + 1 < share.count) arrive_at<CONSUMERS * GROUP>(TURN + 1 - group);
    wait_for_products<0>();
    keep_in_place(sums);
    if (lane == 0) arrive(memory.free[Stages::place(count - 1)]);
    GDNBENCH_PHASE(last);
    if (renews) widen(kept);
    store_rows(C, sums, scale, kept, tile.first_row + row, column, rows);
    GDNBENCH_PHASE(finish);
  }
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1)
    fp8_gemm_pos_v4(const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                    const __nv_bfloat16* __restrict__ table, __nv_bfloat16* __restrict__ C,
                    const __grid_constant__ gdn::TensorMap of_rows, const __grid_constant__ gdn::TensorMap of_columns,
                    const int M) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) {
    prefetch(of_rows);
    prefetch(of_columns);
    initialise(memory);
    fence_barriers();
  }
  __syncthreads();
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP), group = warp / GROUP_WARPS;
  const Share share(M);
  if (group == CONSUMERS) {
    give_registers<40>();
    if (threadIdx.x == CONSUMERS * GROUP) bring(memory, of_rows, of_columns, share);
  } else {
    take_registers<232>();
    multiply_rows(memory, *scale_a * *scale_b, table, C, share, M, group, warp % GROUP_WARPS, lane);
  }
}
