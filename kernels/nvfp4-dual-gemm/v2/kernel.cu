// Both products transposed, B1 A^T and B2 A^T, in one launch, as nvfp4-gemm-v4 does one. Of the 16 rows of a warp's left
// operand the first eight are B1's and the others the same of B2, so that a thread has both sums of an element of C.
#include <cuda_fp16.h>
#include <gdnbench/phases.cuh>

#define MATRICES 2
#define HELPERS 0
#define HELPED 0
#define HELP_PARTS 1
#include "../nvfp4-gemm/exchange.cuh"

GDNBENCH_PHASE_NAMES(begin, steps, exchange, store);

namespace gemm {

constexpr int ROWS = TILE / 2;  // of B1, and of B2

struct Block {
  int part, first_column, first_row;

  __device__ __forceinline__ Block() {
    part = blockIdx.x % PARTS, first_column = static_cast<int>(blockIdx.x) / PARTS * ROWS;
    first_row = blockIdx.y * COLUMNS;
  }
};

// silu of a sum of B1, times the one of B2: x y / (1 + exp(-x)).
__device__ __forceinline__ float gated(float x, float y) {
  x *= FROM_BOTH;
  return __fdividef(x, 1 + __expf(-x)) * FROM_BOTH * y;
}

__device__ __forceinline__ void multiply_block(Memory& memory, const Block& block, __half* C, int M, int warp,
                                               int lane) {
  GDNBENCH_PHASES_BEGIN();
  RightPlaces places[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int first = half * ROWS + warp * 8;
    places[half] = RightPlaces(first + lane % 8, first + lane / 4, block.first_column, lane);
  }
  const Part part(block.part);
  Turn turn;
  Sums sums;
  clear(sums);
  GDNBENCH_PHASE(begin);
  multiply_stages<COLUMNS>(sums, memory, turn, places, part.begin, part.end);
  GDNBENCH_PHASE(steps);
  Others& others = reinterpret_cast<Others&>(memory);
  exchange<true>(others, sums, block.part, [] {});
  GDNBENCH_PHASE(exchange);
  const bool is_odd = lane / 4 % 2;  // of two lanes with neighbours in two rows each stores one row
  add_up(others, sums, block.part, {}, [&](int each, int four, float4 sum) {
    const float upper = gated(sum.x, sum.z), lower = gated(sum.y, sum.w);
    const float other = __shfl_xor_sync(0xffffffffu, is_odd ? upper : lower, 4);
    const int column = block.first_column + (each * WARPS + warp) * 8 + lane / 8 * 2;
    const int row = block.first_row + four * 8 + lane % 4 * 2 + is_odd;
    if (column < GEMM_N && row < M)
      *reinterpret_cast<unsigned*>(C + static_cast<size_t>(row) * GEMM_N + column) =
          rounded(is_odd ? float2{other, lower} : float2{upper, other});
  });
  GDNBENCH_PHASE(store);
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_dual_gemm_v2_widen(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa, char* widened,
                        const int M) {
  using namespace gemm;
  let_next_begin();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread / WIDENING, first = row / COLUMNS * COLUMNS;
  if (row < M)
    LeftTile(widened, first, M - first)
        .widen(row - first, A + static_cast<size_t>(row) * (GEMM_K / 2), sfa, row, thread % WIDENING);
}

// Block (part and tile of B1 and B2, tile of A).
extern "C" __global__ void __cluster_dims__(gemm::PARTS) __maxnreg__(gemm::REGISTERS)
    nvfp4_dual_gemm_v2_multiply(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa, char* widened,
                       const unsigned char* __restrict__ sfb1, const unsigned char* __restrict__ sfb2,
                       __half* __restrict__ C, const int M, const long long rows_sfb,
                       const __grid_constant__ gdn::TensorMap codes1, const __grid_constant__ gdn::TensorMap scales1,
                       const __grid_constant__ gdn::TensorMap codes2, const __grid_constant__ gdn::TensorMap scales2) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  const Block block;
  prepare(memory, M - block.first_row >= COLUMNS);
  const int warp = uniform(threadIdx.x / WARP), lane = static_cast<int>(threadIdx.x) % WARP;
  if (warp < WARPS) {
    take_registers<CONSUMER_REGISTERS>();
    const LeftRows left = {A + static_cast<size_t>(block.first_row) * (GEMM_K / 2), sfa, block.first_row,
                           min(M - block.first_row, COLUMNS)};
    const Part part(block.part);
    left.widen_first(memory, part.begin, part.end);
    return multiply_block(memory, block, C, M, warp, lane);
  }
  give_registers<FILLER_REGISTERS>();
  if (threadIdx.x == CONSUMERS) {
    const Part part(block.part);
    const LeftTile left(widened, block.first_row, M - block.first_row);
    Turn turn;
    bool is_first = true;
    fill_stages(memory, turn, left, part.begin, part.end, is_first, [&](Place& stage, Barrier& there, int step) {
      const int rows = static_cast<int>(rows_sfb);
      bring_right(stage, there, codes1, scales1, sfb1, rows, 0, block.first_column, step);
      bring_right(stage, there, codes2, scales2, sfb2, rows, 1, block.first_column, step);
    });
    wait_for_earlier();
  }
  __syncwarp();
  exchange<false>(reinterpret_cast<Others&>(memory), {}, block.part, [] {});
}
