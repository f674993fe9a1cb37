// C transposed, B A^T: B, of which there is more, is the left operand of wgmma, and each warpgroup widens its own 64
// rows of it in registers. The right one is A, which the first launch has widened, for all blocks. A block sums up a
// part of K for BN rows of B and up to 128 of A, and the last launch adds the parts in order.
#include <gdnbench/phases.cuh>

#include "gemm.cuh"
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(begin, codes, rows, products);

namespace gemm {

// By a warpgroup: adds up the part for 64 rows of B.
__device__ __forceinline__ void sum_part(float (&sums)[COLUMNS / 2], Memory& memory, RightSource source, const Tile& tile,
                                         const Part& part, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  RightRows(&rows)[AHEAD] = memory.rows[warp];
#pragma unroll
  for (int step = 0; step < AHEAD - 1; ++step) {
    if (step < part.steps) source.copy(rows[step], lane);
    commit_copies();
  }
  __syncthreads();  // barriers are there, and zeros
  GDNBENCH_PHASE(begin);
  unsigned operands[2][8];
#pragma unroll 1
  for (int step = 0; step < part.steps; ++step) {
    wait_for_copies<AHEAD - 2>();
    __syncwarp();  // scales are there; and all have read what the next copies overwrite
    const RightWords words(rows[Places::place(step)], lane);
    if (step + AHEAD - 1 < part.steps) source.copy(rows[Places::place(step + AHEAD - 1)], lane);
    commit_copies();
    GDNBENCH_PHASE(codes);
    const unsigned stage = Stages::place(step), bands = low_half(shared_address(memory.stages[stage]));
    wait(memory.there[stage], Stages::parity(step));
    GDNBENCH_PHASE(rows);
    multiply_step(sums, operands, words, bands, step > 0, [&] {
      if (step > 0 && lane == 0) arrive(memory.free[Stages::place(step - 1)]);
    });
    // The other warps are hardly behind: they have freed the last step's stage, or are about to.
    if (threadIdx.x == 0 && step > 0 && step - 1 + STAGES < part.steps) bring(memory, tile, part, step - 1 + STAGES);
    GDNBENCH_PHASE(products);
  }
  wait_for_products<0>();
  keep_in_place(sums);
  GDNBENCH_PHASE(products);
}

// Two numbers of C.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// To C, or to a part's sums: a lane's two neighbours in each of 32 rows of the tile.
__device__ __forceinline__ void store_sums(const float (&sums)[COLUMNS / 2], float* parts, __half* C, int rows,
                                           int lane) {
#pragma unroll
  for (int i = 0; i < COLUMNS / 4; ++i) {
    const int row = i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
    if (row >= rows) continue;
    const float2 pair = {sums[at] * FROM_BOTH, sums[at + 2] * FROM_BOTH};
    const size_t to = static_cast<size_t>(row) * GEMM_N;
    if (PARTS == 1)
      *reinterpret_cast<unsigned*>(C + to) = rounded(pair.x, pair.y);
    else
      *reinterpret_cast<float2*>(parts + to) = pair;
  }
}

}  // namespace gemm

// A thread takes four words of a row of A, which lie 16 bytes apart: a word of each lane of four, whose first pairs are
// a piece of a band, and so on.
extern "C" __global__ void __launch_bounds__(256)
    nvfp4_gemm_v1_widen(const unsigned char* __restrict__ A, const __nv_fp8_e4m3* __restrict__ sfa, char* widened,
                        const int M, const int L, const long long rows_sfa) {
  using namespace gemm;
  constexpr int EACH = GEMM_K / 32;  // threads of a row
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= static_cast<long long>(L) * M * EACH) return;
  const int number = static_cast<int>(thread / EACH), matrix = number / M, row = number % M;
  const int step = static_cast<int>(thread % EACH) / 4, word = threadIdx.x % 4;
  const unsigned* const codes =
      reinterpret_cast<const unsigned*>(A + static_cast<size_t>(number) * (GEMM_K / 2) + step * STEP_BYTES) + word;
  const unsigned char* const scales = reinterpret_cast<const unsigned char*>(sfa) + matrix * rows_sfa * SCALES;
  unsigned pairs[4][4];
#pragma unroll
  for (int t = 0; t < 4; ++t)
    widen(pairs[t], codes[4 * t], scale_pair(scales[scale_place(row, step * STEP_SCALES + 2 * t + word / 2)]));
  const int first_row = row / COLUMNS * COLUMNS;
  const Tile tile(widened + static_cast<size_t>(matrix) * M * GEMM_K * sizeof(__half), first_row, M);
  char* const band = const_cast<char*>(tile.bands) + static_cast<size_t>(2 * step + word / 2) * tile.rows * BAND;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint4*>(band + swizzled(row - first_row, word % 2 * 4 + i)) = {pairs[0][i], pairs[1][i],
                                                                                    pairs[2][i], pairs[3][i]};
}

// Block (part and tile of BN rows of B, tile of 128 rows of A, matrix).
extern "C" __global__ void __launch_bounds__(gemm::THREADS, gemm::PER_SM)
    nvfp4_gemm_v1_parts(const unsigned char* __restrict__ B, const __nv_fp8_e4m3* __restrict__ sfb, const char* widened,
                        float* parts, __half* __restrict__ C, const int M, const int L, const long long rows_sfb) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  const int number = blockIdx.x / TILES, first_row = blockIdx.y * COLUMNS;
  const long long matrix = blockIdx.z;
  const Part part(number);
  const Tile tile(widened + matrix * M * GEMM_K * sizeof(__half), first_row, M);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      initialise(memory.there[stage], 1);
      initialise(memory.free[stage], WARPS);
    }
    fence_barriers();
    for (int step = 0; step < min(STAGES, part.steps); ++step) bring(memory, tile, part, step);
  }
  clear_other_rows(memory, tile.rows);

  // Behind the last column there is nothing to multiply; such a warp repeats the last 16.
  const int column = static_cast<int>(blockIdx.x % TILES) * BN + warp * 16;
  const int row = min(column, GEMM_N - 16) + lane / 4 * 2, copied = lane % 4;
  const RightSource source = {
      B + (matrix * GEMM_N + row) * (GEMM_K / 2) + part.first_step * STEP_BYTES + copied * 16,
      reinterpret_cast<const unsigned char*>(sfb) + matrix * rows_sfb * SCALES +
          scale_place(row + copied / 2, part.first_step * STEP_SCALES + copied % 2 * 4),
  };
  float sums[COLUMNS / 2];
  sum_part(sums, memory, source, tile, part, warp, lane);
  const size_t to = (matrix * M + first_row) * GEMM_N + row;
  float* const own = parts + static_cast<size_t>(number) * L * M * GEMM_N;
  if (column < GEMM_N) store_sums(sums, own + to, C + to, tile.rows, lane);
}

// A thread adds up four numbers of C.
extern "C" __global__ void __launch_bounds__(256)
    nvfp4_gemm_v1_add(const float4* __restrict__ parts, unsigned long long* __restrict__ C, const int M, const int L) {
  using namespace gemm;
  const size_t fours = static_cast<size_t>(L) * M * (GEMM_N / 4);
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (PARTS == 1 || i >= fours) return;
  float4 sum = parts[i];
#pragma unroll
  for (int part = 1; part < PARTS; ++part) {
    const float4 more = parts[part * fours + i];
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  const unsigned long long upper = rounded(sum.z, sum.w);
  C[i] = upper << 32 | rounded(sum.x, sum.y);
}
