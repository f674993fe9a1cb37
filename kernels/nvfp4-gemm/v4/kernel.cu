// C transposed, B A^T. A block has the products of TILE rows of B and up to 128 of A over a part of K: one thread fills a
// ring of stages, and two or three warpgroups widen B in registers, wgmma's left operand, and multiply. The blocks of a
// tile's parts are a cluster, and each adds up a part of the tile. A launch of its own widens A before that, and the
// next begins beside it.
//
// Where tiles do not make as many blocks as there are SMs, the others are helpers, which have the last steps of all
// tiles, one tile after the other. They wait for nobody, and come first in the grid.
#include <cuda_fp16.h>
#include <gdnbench/phases.cuh>

#define MATRICES 1
#include "exchange.cuh"

GDNBENCH_PHASE_NAMES(begin, steps, exchange, store);

namespace gemm {

constexpr int TILES = (GEMM_N + TILE - 1) / TILE;
constexpr int HELPER_BLOCKS = HELPERS * PARTS;

// Some of a tile's last steps, which are a helper's.
struct HelpedPart {
  int tile, number, begin, end;

  explicit __device__ __forceinline__ HelpedPart(int item) : tile(item / HELP_PARTS), number(item % HELP_PARTS) {
    begin = OWN_STEPS + number * HELPED_STEPS / HELP_PARTS, end = OWN_STEPS + (number + 1) * HELPED_STEPS / HELP_PARTS;
  }
};
constexpr int HELPED_PARTS = HELPED_STEPS > 0 ? TILES * HELP_PARTS : 0;

struct Block {
  int part, first_column, first_row, matrix;

  // Of one's own tile, or of another one of the same rows of A.
  __device__ __forceinline__ Block() : Block((static_cast<int>(blockIdx.x) - HELPER_BLOCKS) / PARTS) {}
  explicit __device__ __forceinline__ Block(int tile) {
    part = blockIdx.x % PARTS, first_column = tile * TILE;
    first_row = blockIdx.y * COLUMNS, matrix = blockIdx.z;
  }

  // A lane's place in C, or in sums that lie as C does: two rows and two columns from there on, if they are there.
  __device__ __forceinline__ int column(int each, int warp, int lane) const {
    return first_column + (each * WARPS + warp) * 16 + lane / 4 * 2;
  }
  __device__ __forceinline__ int row(int four, int lane) const { return first_row + four * 8 + lane % 4 * 2; }
  __device__ __forceinline__ size_t place(int row, int column, int M) const {
    return (static_cast<size_t>(matrix) * M + row) * GEMM_N + column;
  }
};

// What helpers leave, and by which flags they tell it.
struct Help {
  float* sums;
  unsigned* flags;

  __device__ __forceinline__ unsigned* flag(const Block& block, int part) const {
    return flags + static_cast<size_t>(block.matrix) * GEMM_N + block.first_column + blockIdx.y * HELP_PARTS + part;
  }

  __device__ __forceinline__ float* of(int part, int M) const {
    return sums + static_cast<size_t>(part) * gridDim.z * M * GEMM_N;
  }

  // By all threads that multiply, when their sums of a tile are stored.
  __device__ __forceinline__ void tell(const Block& block, int part) const {
    __threadfence();
    synchronise_consumers();
    if (threadIdx.x > 0) return;
    wait_for_earlier();
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag(block, part)) : "memory");
  }

  // By all lanes of a warp, when all parts of a tile are told: those fours that a block adds up.
  __device__ __forceinline__ void load(Helped& helped, const Block& block, int M, int warp, int lane) const {
    if (HELPED_STEPS == 0) return;
    if (lane < HELP_PARTS) {
      wait_for_earlier();
      unsigned is_told = 0;
      while (!is_told)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_told) : "l"(flag(block, lane)) : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OWN_FOURS; ++i) {
      const int number = min(block.part * OWN_FOURS + i, FOURS - 1);
      const int column = min(block.column(number / (COLUMNS / 8), warp, lane), GEMM_N - 2);
      const int row = block.row(number % (COLUMNS / 8), lane);
      float2 upper = {}, lower = {};
#pragma unroll
      for (int part = 0; part < HELP_PARTS; ++part) {
        const float* const from = of(part, M);
        const float2 first = __ldcg(
            reinterpret_cast<const float2*>(from + block.place(min(row, M - 1), column, M)));
        const float2 second = __ldcg(
            reinterpret_cast<const float2*>(from + block.place(min(row + 1, M - 1), column, M)));
        upper.x += first.x, upper.y += first.y, lower.x += second.x, lower.y += second.y;
      }
      helped[i] = lane < 16 ? float4{upper.x, lower.x, upper.y, lower.y} : float4{upper.y, lower.y, upper.x, lower.x};
    }
  }
};

// By a warp that multiplies: steps of a tile.
__device__ __forceinline__ void sum_up(Sums& sums, Memory& memory, Turn& turn, const Block& block, int begin, int end,
                                       int warp, int lane) {
  const Neighbours rows(block.first_column, warp, lane);
  clear(sums);
  multiply_stages<COLUMNS>(sums, memory, turn, rows.places, begin, end);
}

__device__ __forceinline__ void multiply_block(Memory& memory, const Help& help, __half* C, int M, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  const Block block;
  const Part part(block.part);
  Turn turn;
  Sums sums;
  GDNBENCH_PHASE(begin);
  sum_up(sums, memory, turn, block, part.begin, part.end, warp, lane);
  GDNBENCH_PHASE(steps);
  Others& others = reinterpret_cast<Others&>(memory);
  Helped helped;
  exchange<true>(others, sums, block.part, [&] { help.load(helped, block, M, warp, lane); });
  GDNBENCH_PHASE(exchange);
  add_up(
      others, sums, block.part, helped,
      [&](int each, int four, const float4& sum) {
        const int column = block.column(each, warp, lane), row = block.row(four, lane);
        if (column >= GEMM_N) return;
        const Pairs pairs({sum.x * FROM_BOTH, sum.y * FROM_BOTH, sum.z * FROM_BOTH, sum.w * FROM_BOTH}, lane);
        auto* const to = reinterpret_cast<unsigned*>(C + block.place(row, column, M));
        if (row < M) to[0] = rounded(pairs.upper);
        if (row + 1 < M) to[GEMM_N / 2] = rounded(pairs.lower);
      });
  GDNBENCH_PHASE(store);
}

// By a warp that multiplies, of a helper.
__device__ __forceinline__ void multiply_for_others(Memory& memory, const Help& help, int M, int warp, int lane) {
  Turn turn;
#pragma unroll 1
  for (int item = blockIdx.x; item < HELPED_PARTS; item += HELPER_BLOCKS) {
    const HelpedPart part(item);
    const Block block(part.tile);
    Sums sums;
    sum_up(sums, memory, turn, block, part.begin, part.end, warp, lane);
    float* const into = help.of(part.number, M);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
      const int column = block.column(i / (COLUMNS / 8), warp, lane), row = block.row(i % (COLUMNS / 8), lane);
      const Pairs pairs(four_of(sums, i), lane);
      auto* const to = reinterpret_cast<float2*>(into + block.place(row, column, M));
      if (column < GEMM_N && row < M) __stcg(to, pairs.upper);
      if (column < GEMM_N && row + 1 < M) __stcg(to + GEMM_N / 2, pairs.lower);
    }
    help.tell(block, part.number);
  }
}

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_gemm_v4_widen(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa, char* widened,
                        unsigned* flags, const int M, const int L, const long long rows_sfa) {
  using namespace gemm;
  let_next_begin();
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (HELPERS > 0)
    for (long long i = thread; i < static_cast<long long>(L) * GEMM_N; i += gridDim.x * blockDim.x) flags[i] = 0;
  const int number = static_cast<int>(thread / WIDENING), matrix = number / M, row = number % M;
  const int first = row / COLUMNS * COLUMNS;
  if (matrix < L)
    LeftTile(widened, static_cast<long long>(matrix) * M + first, M - first)
        .widen(row - first, A + static_cast<size_t>(number) * (GEMM_K / 2), sfa + matrix * rows_sfa * SCALES, row,
               static_cast<int>(thread % WIDENING));
}

// Block (helpers, then part and tile of B; tile of A; matrix).
extern "C" __global__ void __cluster_dims__(gemm::PARTS) __maxnreg__(gemm::REGISTERS)
    nvfp4_gemm_v4_multiply(const unsigned char* __restrict__ A, const unsigned char* __restrict__ sfa, char* widened,
                           const unsigned char* __restrict__ sfb, float* sums, unsigned* flags, __half* __restrict__ C,
                           const int M, const long long rows_sfa, const long long rows_sfb,
                           const __grid_constant__ gdn::TensorMap codes,
                           const __grid_constant__ gdn::TensorMap scales) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  const Help help = {sums, flags};
  const bool helps = blockIdx.x < HELPER_BLOCKS;
  const int warp = uniform(threadIdx.x / WARP), lane = static_cast<int>(threadIdx.x) % WARP;
  prepare(memory, M - static_cast<int>(blockIdx.y) * COLUMNS >= COLUMNS);
  if (warp < WARPS) {
    take_registers<CONSUMER_REGISTERS>();
    const int row = blockIdx.y * COLUMNS, matrix = blockIdx.z;
    const LeftRows left = {A + (static_cast<size_t>(matrix) * M + row) * (GEMM_K / 2), sfa + matrix * rows_sfa * SCALES,
                           row, min(M - row, COLUMNS)};
    const Part part(static_cast<int>(blockIdx.x) % PARTS);
    const HelpedPart helped(min(static_cast<int>(blockIdx.x), HELPED_PARTS - 1));
    if (!helps || HELPED_PARTS > 0)
      left.widen_first(memory, helps ? helped.begin : part.begin, helps ? helped.end : part.end);
    if (helps) return multiply_for_others(memory, help, M, warp, lane);
    return multiply_block(memory, help, C, M, warp, lane);
  }
  give_registers<FILLER_REGISTERS>();
  if (threadIdx.x == CONSUMERS) {
    Turn turn;
    bool is_first = true;
    const auto fill = [&](const Block& block, int begin, int end) {
      const LeftTile left(widened, static_cast<long long>(block.matrix) * M + block.first_row, M - block.first_row);
      fill_stages(memory, turn, left, begin, end, is_first, [&](Place& stage, Barrier& there, int step) {
        bring_right(stage, there, codes, scales, sfb + block.matrix * rows_sfb * SCALES, static_cast<int>(rows_sfb), 0,
                    block.first_column, step, block.matrix);
      });
    };
    const Part part(static_cast<int>(blockIdx.x) % PARTS);
    if (!helps) fill(Block(), part.begin, part.end);
    for (int item = blockIdx.x; helps && item < HELPED_PARTS; item += HELPER_BLOCKS) {
      const HelpedPart helped(item);
      fill(Block(helped.tile), helped.begin, helped.end);
    }
    wait_for_earlier();  // of helpers without a tile, too
  }
  __syncwarp();
  if (!helps) exchange<false>(reinterpret_cast<Others&>(memory), {}, 0, [] {});
}
