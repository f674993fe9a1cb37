// v1's products in one launch. C transposed, B A^T: each warpgroup widens 64 rows of B in registers, which are wgmma's
// left operand. The right one is A, which the warps of a block widen together in shared memory. A block sums up a part
// of K for 256 rows of B and up to 128 of A; the blocks of all parts are a cluster, and add them up in order out of
// each other's shared memory.
#include <gdnbench/phases.cuh>

#include "gemm.cuh"
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(begin, codes, rows, products, widen, exchange, add);

namespace gemm {

// By a warp: its rows of A in a step, for all warps.
__device__ __forceinline__ void widen_step(Memory& memory, int step, int rows, int warp, int lane) {
  const unsigned place = Stages::place(step);
  if (step >= STAGES) wait(memory.free[place], Stages::parity(step - STAGES));
  widen_rows(memory.stages[place], memory.left[warp][LeftPlaces::place(step)], rows, warp, lane);
  fence_async_proxy();
  __syncwarp();
  if (lane == 0) arrive(memory.there[place]);
}

// By all threads: a lane's two neighbours in each of 32 rows.
__device__ __forceinline__ void store_sums(Sums& to, const float (&sums)[COLUMNS / 2], int column, int lane) {
#pragma unroll
  for (int i = 0; i < COLUMNS / 4; ++i) {
    const int row = i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
    *reinterpret_cast<float2*>(&to.rows[row][column]) = {sums[at], sums[at + 2]};
  }
}

// Two numbers of C.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high * FROM_BOTH), "f"(low * FROM_BOTH));
  return pair;
}

// By all threads of a cluster: four numbers of C at a time.
__device__ __forceinline__ void add_parts(const Sums& sums, __half* C, int M) {
  constexpr int FOURS = TILE / 4;
  const Tile tile;
  C += (tile.matrix * M + tile.first_row) * GEMM_N + tile.first_column;
  for (int i = tile.part * THREADS + threadIdx.x; i < tile.rows(M) * FOURS; i += PARTS * THREADS) {
    const int row = i / FOURS, column = i % FOURS * 4;
    if (tile.first_column + column >= GEMM_N) continue;
    float4 parts[PARTS], sum = {};
#pragma unroll
    for (int each = 0; each < PARTS; ++each) parts[each] = load_of(each, shared_address(&sums.rows[row][column]));
#pragma unroll
    for (const float4& each : parts) sum = {sum.x + each.x, sum.y + each.y, sum.z + each.z, sum.w + each.w};
    const unsigned long long upper = rounded(sum.z, sum.w);
    *reinterpret_cast<unsigned long long*>(C + static_cast<size_t>(row) * GEMM_N + column) =
        upper << 32 | rounded(sum.x, sum.y);
  }
}

// By all threads of a cluster: a tile of C.
__device__ __forceinline__ void multiply_tile(Memory& memory, LeftSource left, RightSource right, const Part& part,
                                              __half* C, int M, int rows, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  const auto copy = [&](int step) {  // of A, that for as many steps more
    if (step + LEAD < part.steps) left.copy(memory.left[warp][LeftPlaces::place(step + LEAD)], lane);
    if (step >= 0 && step < part.steps) right.copy(memory.right[warp][RightPlaces::place(step)], lane);
  };
#pragma unroll
  for (int step = -LEAD; step < 0; ++step) copy(step);
  commit_copies();
#pragma unroll
  for (int step = 0; step < AHEAD - 1; ++step) {
    copy(step);
    commit_copies();
  }
  wait_for_copies<AHEAD - 1>();
  __syncthreads();  // barriers are there, and what other lanes have copied of A
#pragma unroll
  for (int step = 0; step < LEAD; ++step)
    if (step < part.steps) widen_step(memory, step, rows, warp, lane);
  GDNBENCH_PHASE(begin);

  float sums[COLUMNS / 2];
  unsigned operands[2][8];
#pragma unroll 1
  for (int step = 0; step < part.steps; ++step) {
    wait_for_copies<AHEAD - 2>();
    __syncwarp();  // what other lanes have copied is there; and all have read what the next copies overwrite
    const RightWords words(memory.right[warp][RightPlaces::place(step)], lane);
    copy(step + AHEAD - 1);
    commit_copies();
    GDNBENCH_PHASE(codes);
    const unsigned stage = Stages::place(step), bands = low_half(shared_address(memory.stages[stage]));
    wait(memory.there[stage], Stages::parity(step));
    GDNBENCH_PHASE(rows);
    multiply_step(sums, operands, words, bands, step > 0, [&] {
      if (step > 0 && lane == 0) arrive(memory.free[Stages::place(step - 1)]);
    });
    GDNBENCH_PHASE(products);
    // The other warps are hardly behind: they have freed the last step's stage, or are about to.
    if (step + LEAD < part.steps) widen_step(memory, step + LEAD, rows, warp, lane);
    GDNBENCH_PHASE(widen);
  }
  wait_for_products<0>();
  keep_in_place(sums);
  GDNBENCH_PHASE(products);

  __syncthreads();  // no product reads a stage any more
  Sums& found = reinterpret_cast<Sums&>(memory);
  store_sums(found, sums, warp * 16 + lane / 4 * 2, lane);
  synchronise_cluster();
  GDNBENCH_PHASE(exchange);
  add_parts(found, C, M);
  synchronise_cluster();  // a block's shared memory is there until the others have read it
  GDNBENCH_PHASE(add);
}

}  // namespace gemm

// Block (part of a tile of 256 rows of B, tile of 128 rows of A, matrix).
extern "C" __global__ void __cluster_dims__(gemm::PARTS) __launch_bounds__(gemm::THREADS, 1)
    nvfp4_gemm_v2_multiply(GEMM_ARGUMENTS) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0)
    for (int stage = 0; stage < STAGES; ++stage) {
      initialise(memory.there[stage], WARPS);
      initialise(memory.free[stage], WARPS);
    }
  const int lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP), piece = lane % 4;
  const Tile tile;
  const Part part(tile.part, static_cast<int>(blocks) / STEP_SCALES);
  const int rows = tile.rows(M);

  // Behind the last row, and the last column, copies repeat others.
  const int row = tile.first_row + min(warp * 8 + lane / 4, rows - 1);
  const int column = min(tile.first_column + warp * 16, GEMM_N - 16) + lane / 4 * 2;
  const LeftSource left = {
      A + (tile.matrix * M + row) * (GEMM_K / 2) + part.first_step * STEP_BYTES + piece * 16,
      reinterpret_cast<const unsigned char*>(sfa) + tile.matrix * rows_sfa * SCALES +
          scale_place(row, part.first_step * STEP_SCALES + piece * 4),
  };
  const RightSource right = {
      B + (tile.matrix * GEMM_N + column) * (GEMM_K / 2) + part.first_step * STEP_BYTES + piece * 16,
      reinterpret_cast<const unsigned char*>(sfb) + tile.matrix * rows_sfb * SCALES +
          scale_place(column + piece / 2, part.first_step * STEP_SCALES + piece % 2 * 4),
  };
  multiply_tile(memory, left, right, part, C, M, rows, warp, lane);
}
