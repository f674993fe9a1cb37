// What persistent kernels share: a block keeps its columns of B in shared memory and goes through tiles of 64 rows, and
// while one of its two warpgroups finishes a tile, the other's products run. A comes band by band of 128 bytes of a
// tile's rows into a ring of stages; how, is a kernel's own.
//
// Block (columns c, group of rows g) is number g * ACROSS + c, so that blocks of the same rows run at once.
#pragma once
#include <gdnbench/phases.cuh>

#include "tiles.cuh"

GDNBENCH_PHASE_NAMES(columns, turn, rows, products, last, finish, space, copies);

namespace gemm {

constexpr int CONSUMERS = 2;  // warpgroups
constexpr int ACROSS = (GEMM_N + COLUMNS - 1) / COLUMNS;
constexpr int BANDS = (GEMM_K + BAND - 1) / BAND;
constexpr int STAGE_BYTES = GROUP_ROWS * BAND, COLUMNS_BYTES = BANDS * COLUMNS * BAND;
// As many as fit, and not more than 12; declarations count them, too.
constexpr int OTHER_BYTES = 2048;
constexpr int FITTING = (227 * 1024 - OTHER_BYTES - COLUMNS_BYTES) / STAGE_BYTES;
constexpr int STAGES = FITTING < 12 ? FITTING : 12;
static_assert(STAGES >= 2, "B's columns leave no room for A's rows");
// The block's barriers by number: of the consumers, and of each of them for its turn.
constexpr int LOADED = 1, TURN = 2;

struct Memory {
  alignas(1024) char columns[BANDS][COLUMNS * BAND];
  alignas(1024) char rows[STAGES][STAGE_BYTES];
  Barrier there[STAGES], free[STAGES];
};

using Stages = Ring<STAGES>;

using gdn::initialise;

// By one thread of a block: so many arrive when they have filled a stage.
__device__ __forceinline__ void initialise(Memory& memory, int producers) {
  for (Barrier& barrier : memory.there) initialise(barrier, producers);
  for (Barrier& barrier : memory.free) initialise(barrier, GROUP_WARPS);
}

// The block's columns, its tiles by number, and all tiles.
struct Share {
  int first_column, first, last, tiles;

  explicit __device__ __forceinline__ Share(int rows) {
    const long long groups = gridDim.x / ACROSS, group = blockIdx.x / ACROSS;
    first_column = static_cast<int>(blockIdx.x % ACROSS) * COLUMNS;
    tiles = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
    first = static_cast<int>(group * tiles / groups);
    last = static_cast<int>((group + 1) * tiles / groups);
  }
};

// By the consumers: B's columns of this block, those of C in the order in which the sums have them.
__device__ __forceinline__ void load_columns(Memory& memory, const __nv_fp8_e4m3* B, int first_column, int thread) {
  constexpr int STEP = CONSUMERS * GROUP / 8;
  static_assert(STEP == 32, "the order of columns repeats");
  const int row = thread / 8, piece = thread % 8, column = first_column + column_of_sums(row);
#pragma unroll
  for (int band = 0; band < BANDS; ++band) {
    const int inner = band * BAND + piece * PIECE;
#pragma unroll
    for (int i = 0; i < COLUMNS; i += STEP) {
      const bool is_there = column + i < GEMM_N && inner < GEMM_K;
      copy_async(shared_address(memory.columns[band]) + swizzled(row + i, piece),
                 B + static_cast<size_t>(column + i) * GEMM_K + inner, is_there);
    }
  }
  wait_for_copies();
  fence_async_proxy();
}

// By a consumer: every second tile of the block's. Fenced is for stages that lanes have filled, which wgmma sees after
// a fence.
template <bool Fenced>
__device__ __forceinline__ void multiply_rows(Memory& memory, const __nv_fp8_e4m3* B, float scale,
                                              const __nv_bfloat16* table, __nv_bfloat16* C, const Share& share,
                                              int rows, int group, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  load_columns(memory, B, share.first_column, threadIdx.x);
  synchronise<CONSUMERS * GROUP>(LOADED);
  GDNBENCH_PHASE(columns);
  if (group == 1) arrive_at<CONSUMERS * GROUP>(TURN);
  const unsigned long long of_columns = descriptor(shared_address(memory.columns));
  const unsigned long long of_rows = descriptor(shared_address(memory.rows));
  const int row = warp * 16 + lane / 4, column = share.first_column + lane % 4 * 8;
  unsigned count = group * BANDS;
  int kept = -1;  // the place whose rows of the table are in registers
  Added<COLUMNS> added;
  for (int number = share.first + group; number < share.last; number += CONSUMERS, count += (CONSUMERS - 1) * BANDS) {
    const Tile tile = tile_of(number, share.tiles);
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
      if (Fenced) fence_async_proxy();
      fence_products();
#pragma unroll
      for (int inner = 0; inner < BAND; inner += INNER)
        multiply(sums, of_rows + (place * STAGE_BYTES + inner) / 16,
                 of_columns + (band * (COLUMNS * BAND) + inner) / 16, band + inner > 0);
      commit_products();
      if (band > 0) {  // the last stage's products are complete
        wait_for_products<1>();
        if (lane == 0) arrive(memory.free[Stages::place(count - 1)]);
      }
      GDNBENCH_PHASE(products);
    }
    if (number + 1 < share.last) arrive_at<CONSUMERS * GROUP>(TURN + 1 - group);
    wait_for_products<0>();
    keep_in_place(sums);
    if (lane == 0) arrive(memory.free[Stages::place(count - 1)]);
    GDNBENCH_PHASE(last);
    if (tile.place != kept) {
      load_table<COLUMNS>(added, table, tile.first_row + row, column);
      kept = tile.place;
    }
    store_tile<COLUMNS>(C, sums, scale, added, tile.first_row + row, column, rows);
    GDNBENCH_PHASE(finish);
  }
}

}  // namespace gemm
