// What a block of the second launch takes, and where it has it in shared memory: A, widened, in a ring of stages that
// one thread fills by bulk copies, and B, as it is, in a ring of each warp's own.
#pragma once
#include "step.cuh"

namespace gemm {

constexpr int WARPS = BN / 16, THREADS = WARPS * WARP;
constexpr int TILES = (GEMM_N + BN - 1) / BN;
constexpr int PARTS = SPLIT < STEPS ? SPLIT : STEPS;  // each has a step
constexpr int STAGE_BYTES = 2 * BAND_BYTES;

struct Memory {
  alignas(1024) char stages[STAGES][STAGE_BYTES];
  RightRows rows[WARPS][AHEAD];
  Barrier there[STAGES], free[STAGES];
};

// Of K.
struct Part {
  int first_step, steps;

  explicit __device__ __forceinline__ Part(int number) {
    constexpr int EACH = STEPS / PARTS, MORE = STEPS % PARTS;  // the first parts have a step more
    first_step = number * EACH + min(number, MORE);
    steps = EACH + (number < MORE);
  }
};

constexpr int SM_BYTES = 227 * 1024;
constexpr int PER_SM = BN == 128 && 2 * sizeof(Memory) <= SM_BYTES ? 2 : 1;  // blocks

using Stages = Ring<STAGES>;
using Places = Ring<AHEAD>;

// Of A, up to 128 rows. They lie as a stage has them: band after band of all rows.
struct Tile {
  const char* bands;
  int rows;

  __device__ __forceinline__ Tile(const char* widened, int first_row, int all) {
    bands = widened + static_cast<size_t>(first_row) * GEMM_K * sizeof(__half);
    rows = min(all - first_row, COLUMNS);
  }
};

// By one thread: the tile's bands of a step.
__device__ __forceinline__ void bring(Memory& memory, const Tile& tile, const Part& part, int step) {
  const unsigned place = Stages::place(step), bytes = tile.rows * BAND;
  const unsigned to = shared_address(memory.stages[place]);
  const char* const from = tile.bands + static_cast<size_t>(part.first_step + step) * 2 * bytes;
  if (step >= STAGES) wait(memory.free[place], Stages::parity(step - STAGES));
  arrive_expecting(memory.there[place], 2 * bytes);
  copy_bulk(to, from, bytes, memory.there[place]);
  copy_bulk(to + BAND_BYTES, from + bytes, bytes, memory.there[place]);
}

// By all threads: a tile of fewer rows leaves zeros for those that it has not.
__device__ __forceinline__ void clear_other_rows(Memory& memory, int rows) {
  if (rows == COLUMNS) return;
  for (int i = threadIdx.x; i < STAGES * STAGE_BYTES / PIECE; i += THREADS)
    if (i * PIECE % BAND_BYTES / BAND >= rows) reinterpret_cast<uint4*>(memory.stages)[i] = uint4{};
  fence_async_proxy();
}

}  // namespace gemm
