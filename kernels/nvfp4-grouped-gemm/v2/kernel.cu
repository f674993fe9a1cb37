// Products of groups transposed, B A^T, as nvfp4-gemm-v4 has them, of tiles of all groups, which blocks take in turn. K
// is not split: a tile has so few rows of B that there are several for each block, or about one.
#include <cuda_fp16.h>
#include <gdnbench/phases.cuh>

#define MATRICES 1
#include "groups.cuh"

GDNBENCH_PHASE_NAMES(tile);

namespace gemm {

struct GroupedMemory : Memory {
  Groups groups;
};

// By a warp that multiplies: a tile whose products have so many columns.
template <int Columns>
__device__ __forceinline__ void multiply_tile(Memory& memory, Turn& turn, const Tile& tile, __half* C, int warp,
                                              int lane) {
  const Neighbours rows(tile.first_column, warp, lane);
  Sums sums;
  clear(sums);
  multiply_stages<Columns>(sums, memory, turn, rows.places, 0, STEPS);
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int column = tile.first_column + (each * WARPS + warp) * 16 + lane / 4 * 2;
    if (column >= GEMM_N) continue;
#pragma unroll
    for (int i = 0; i < Columns / 2; i += 4) {
      const int row = i * 2 + lane % 4 * 2;
      const float* const four = sums[each] + i;
      const Pairs pairs({four[0] * FROM_BOTH, four[1] * FROM_BOTH, four[2] * FROM_BOTH, four[3] * FROM_BOTH}, lane);
      auto* const to = reinterpret_cast<unsigned*>(C + static_cast<size_t>(tile.first_row + row) * GEMM_N + column);
      if (row < tile.rows) to[0] = rounded(pairs.upper);
      if (row + 1 < tile.rows) to[GEMM_N / 2] = rounded(pairs.lower);
    }
  }
}

// By a warp that multiplies: the block's tiles.
__device__ __forceinline__ void multiply_tiles(GroupedMemory& memory, __half* C, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  Turn turn;
#pragma unroll 1
  for (int number = blockIdx.x; number < memory.groups.tiles; number += BLOCKS) {
    const Tile tile = memory.groups.tile(number);
    switch (uniform(tile.columns)) {
      case 4: multiply_tile<64>(memory, turn, tile, C, warp, lane); break;
      case 5: multiply_tile<80>(memory, turn, tile, C, warp, lane); break;
      case 6: multiply_tile<96>(memory, turn, tile, C, warp, lane); break;
      case 7: multiply_tile<112>(memory, turn, tile, C, warp, lane); break;
      default: multiply_tile<128>(memory, turn, tile, C, warp, lane);
    }
    GDNBENCH_PHASE(tile);
  }
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_grouped_gemm_v2_widen(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa,
                                const int* __restrict__ ends, char* widened, const long long T, const long long G) {
  using namespace gemm;
  __shared__ int shared_ends[MOST_GROUPS + 1];
  let_next_begin();
  for (int i = threadIdx.x; i <= G; i += blockDim.x) shared_ends[i] = ends[i];
  __syncthreads();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread / WIDENING;
  if (row >= T) return;
  int i = 0;
  long long scales = 0;
  for (; row >= shared_ends[i + 1]; ++i) scales += Group(shared_ends[i], shared_ends[i + 1]).scale_rows();
  const Group group(shared_ends[i], shared_ends[i + 1]);
  const int of_group = row - group.first, first = of_group / group.rows * group.rows;
  LeftTile(widened, group.first + first, min(group.end - group.first - first, group.rows))
      .widen(of_group - first, A + static_cast<size_t>(row) * (GEMM_K / 2), sfa + scales * SCALES, of_group,
             thread % WIDENING);
}

extern "C" __global__ void __maxnreg__(gemm::REGISTERS)
    nvfp4_grouped_gemm_v2_multiply(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa,
                                   char* widened, const unsigned char* __restrict__ sfb, const int* __restrict__ ends,
                                   __half* __restrict__ C, const long long G, const long long rows_sfb,
                                   const __grid_constant__ gdn::TensorMap codes,
                                   const __grid_constant__ gdn::TensorMap scales) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  GroupedMemory& memory = *reinterpret_cast<GroupedMemory*>(bytes);
  memory.groups.fill(ends, static_cast<int>(G));
  prepare(memory, false);
  const int warp = uniform(threadIdx.x / WARP), lane = static_cast<int>(threadIdx.x) % WARP;
  if (warp < WARPS) {
    take_registers<CONSUMER_REGISTERS>();
    if (static_cast<int>(blockIdx.x) < memory.groups.tiles) {
      const Tile tile = memory.groups.tile(blockIdx.x);
      const Group& group = memory.groups.groups[tile.group];
      const LeftRows left = {A + static_cast<size_t>(tile.first_row) * (GEMM_K / 2),
                             sfa + static_cast<long long>(group.scales) * SCALES, tile.first_row - group.first,
                             tile.rows};
      left.widen_first(memory, 0, STEPS);
    }
    return multiply_tiles(memory, C, warp, lane);
  }
  give_registers<FILLER_REGISTERS>();
  if (threadIdx.x != CONSUMERS) return;
  Turn turn;
  bool is_first = true;
#pragma unroll 1
  for (int number = blockIdx.x; number < memory.groups.tiles; number += BLOCKS) {
    const Tile tile = memory.groups.tile(number);
    const LeftTile left(widened, tile.first_row, tile.rows);
    const unsigned char* const plain = sfb + tile.group * rows_sfb * SCALES;
    fill_stages(memory, turn, left, 0, STEPS, is_first, [&](Place& stage, Barrier& there, int step) {
      bring_right(stage, there, codes, scales, plain, static_cast<int>(rows_sfb), 0, tile.first_column, step,
                  tile.group);
    });
  }
  wait_for_earlier();  // where the block has no tile, too: the next call's launches come after this one
}
