// What a block has: its columns of B and a ring of stages for rows of A in shared memory, room for tiles of C on their
// way out, and the tiles that it makes. As in persistent.cuh, but for the number of warpgroups, the room for C and the
// order of columns.
//
// Block (columns c, group of rows g) is number g * ACROSS + c, so that blocks of the same rows run at once.
#pragma once
#include <gdn/cluster.cuh>
#include <gdn/tensor_map.cuh>

#include "tiles.cuh"

namespace gemm {

constexpr int ACROSS = (GEMM_N + COLUMNS - 1) / COLUMNS;
constexpr int BANDS = (GEMM_K + BAND - 1) / BAND;
// Blocks of the same rows that bring each other parts of them; one where the columns make no whole clusters.
constexpr int SHARING = ACROSS % CLUSTER == 0 ? CLUSTER : 1;
constexpr int STAGE_BYTES = GROUP_ROWS * BAND, COLUMNS_BYTES = BANDS * COLUMNS * BAND;
constexpr int WARP_ROWS = 16, BOX_COLUMNS = 64, BOX_BYTES = WARP_ROWS * BAND;  // of C, that a bulk copy takes
constexpr int STAGED_BYTES = GROUPS * GROUP_WARPS * STAGED * BOX_BYTES;
// As many as fit, and not more than 12; declarations count them, too.
constexpr int OTHER_BYTES = 2048;
constexpr int FITTING = (227 * 1024 - OTHER_BYTES - COLUMNS_BYTES - STAGED_BYTES) / STAGE_BYTES;
constexpr int STAGES = FITTING < 12 ? FITTING : 12;
static_assert(STAGES >= 2, "B's columns leave no room for A's rows");
static_assert(GROUPS < 3 || (KEEP == 0 && EARLY == 0), "three warpgroups have no registers for a table beside sums");
// The block's barriers by number: of the warpgroups that multiply, and of each of them for its turn.
constexpr int LOADED = 1, TURN = 2;

struct Memory {
  alignas(1024) char columns[BANDS][COLUMNS * BAND];
  alignas(1024) char rows[STAGES][STAGE_BYTES];
#if STAGED
  alignas(1024) char staged[GROUPS * GROUP_WARPS][STAGED][BOX_BYTES];
#endif
  Barrier there[STAGES], free[STAGES], columns_there[BANDS];
};

using Stages = Ring<STAGES>;

// By one thread of a block.
__device__ __forceinline__ void initialise(Memory& memory) {
  for (Barrier& barrier : memory.there) gdn::initialise(barrier, 1);
  for (Barrier& barrier : memory.free) gdn::initialise(barrier, GROUP_WARPS * SHARING);
  for (Barrier& barrier : memory.columns_there) gdn::initialise(barrier, GROUPS * GROUP);
}

// By a warp: it has read this stage, which each of the blocks that fill it is told.
__device__ __forceinline__ void give_back(Memory& memory, unsigned place, int lane) {
  if (SHARING == 1) {
    if (lane == 0) arrive(memory.free[place]);
  } else if (lane < SHARING) {
    asm volatile(
        "{ .reg .u32 theirs;\n"
        "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
        "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [theirs]; }" ::"r"(
            shared_address(&memory.free[place])),
        "r"(lane)
        : "memory");
  }
}

// A policy of the L2 for what is read again, or for what is not.
__device__ __forceinline__ unsigned long long stays() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ unsigned long long goes() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// By one thread of each of the blocks that share a stage: this block's part of its rows, into the memory of all.
__device__ __forceinline__ void fill(Memory& memory, unsigned place, const gdn::TensorMap& map, int row, int column,
                                     int rank) {
  constexpr int ROWS = GROUP_ROWS / SHARING;
  arrive_expecting(memory.there[place], STAGE_BYTES);
  if (SHARING == 1 && STREAM == 3)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, "
        "%3}], [%4], %5;" ::"r"(shared_address(memory.rows[place])),
        "l"(&map), "r"(column), "r"(row), "r"(shared_address(&memory.there[place])), "l"(goes())
        : "memory");
  else if (SHARING == 1)
    load_box(memory.rows[place], map, row, column, memory.there[place]);
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(memory.rows[place] + rank * ROWS * BAND)),
        "l"(&map), "r"(column), "r"(row + rank * ROWS), "r"(shared_address(&memory.there[place])),
        "h"(static_cast<unsigned short>((1 << SHARING) - 1))
        : "memory");
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

// Of the block's columns of C, the first of the 8 neighbours that lane 4 r + t has in part i of its sums is
// LANE_COLUMNS * t + column_of_part(i). A warp stores 64 bytes of each row at once; into shared memory it stores every
// other 16 bytes of 128, so that those of two rows, which the swizzle exchanges by pairs, lie in different banks.
constexpr int LANE_COLUMNS = STAGED ? 16 : 8;
__device__ __forceinline__ constexpr int column_of_part(int i) {
  return STAGED ? i / 2 * BOX_COLUMNS + i % 2 * 8 : 32 * i;
}

// The column of C that column `column` of the sums is.
__device__ __forceinline__ constexpr int column_of_tile(int column) {
  return column_of_part(column / 32) + LANE_COLUMNS * (column % 8 / 2) + column % 32 / 8 * 2 + column % 2;
}

// By the threads that multiply: B's columns of this block, in the order in which the sums have them. With BANDED each
// band is waited for by itself, and else all of them here.
__device__ __forceinline__ void load_columns(Memory& memory, const __nv_fp8_e4m3* B, int first_column, int thread) {
  constexpr int STEP = GROUPS * GROUP / 8;
  const int piece = thread % 8;
#pragma unroll
  for (int band = 0; band < BANDS; ++band) {
    const int inner = band * BAND + piece * PIECE;
#pragma unroll
    for (int i = 0; i < COLUMNS; i += STEP) {
      const int row = i + thread / 8, column = first_column + column_of_tile(row);
      if (COLUMNS % STEP == 0 || row < COLUMNS)
        copy_async(shared_address(memory.columns[band]) + swizzled(row, piece),
                   B + static_cast<size_t>(column) * GEMM_K + inner, column < GEMM_N && inner < GEMM_K);
    }
    if (BANDED) arrive_after_copies(memory.columns_there[band]);
  }
  if (BANDED) return;
  wait_for_copies();
  fence_async_proxy();
  synchronise<GROUPS * GROUP>(LOADED);
}

}  // namespace gemm
