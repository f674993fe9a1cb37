// What a block has: its columns of B, a ring of stages for rows of A, and the tiles that it makes. One thread brings A
// and B.
#pragma once
#include <gdnbench/phases.cuh>
#include <gdn/tensor_map.cuh>

GDNBENCH_PHASE_NAMES(turn, rows, products, last, finish, space, copies);

namespace gemm {
constexpr int COLUMNS = 192, KEEP = 1;
}

#include "tiles.cuh"

namespace gemm {

constexpr int CONSUMERS = 2;  // warpgroups
constexpr int ACROSS = (GEMM_N + COLUMNS - 1) / COLUMNS;
constexpr int BANDS = (GEMM_K + BAND - 1) / BAND;
constexpr int STAGE_BYTES = GROUP_ROWS * BAND, COLUMNS_BYTES = COLUMNS * BAND;  // of a band
// As many as fit, and not more than 12; declarations count them, too.
constexpr int OTHER_BYTES = 2048;
constexpr int FITTING = (227 * 1024 - OTHER_BYTES - BANDS * COLUMNS_BYTES) / STAGE_BYTES;
constexpr int STAGES = FITTING < 12 ? FITTING : 12;
static_assert(STAGES >= BANDS, "the first tile's stages have B beside A");
constexpr int TURN = 1;  // the number of the first warpgroup's barrier for its turn

struct Memory {
  alignas(1024) char columns[BANDS][COLUMNS_BYTES];
  alignas(1024) char rows[STAGES][STAGE_BYTES];
  Barrier there[STAGES], free[STAGES];
};

using Stages = Ring<STAGES>;

// By one thread of a block.
__device__ __forceinline__ void initialise(Memory& memory) {
  for (Barrier& barrier : memory.there) gdn::initialise(barrier, 1);
  for (Barrier& barrier : memory.free) gdn::initialise(barrier, GROUP_WARPS);
}

// The block's columns and tiles. All groups of rows run at once. With ORDER each first has a place of its own, if places
// have more tiles than one and not more than a group has: what all groups read, and write, at once then lies side by
// side. The rest is parted place by place, so that all have as many.
struct Share {
  int first_column, count;

  explicit __device__ __forceinline__ Share(int rows) {
    const int block = static_cast<int>(blockIdx.x), groups = static_cast<int>(gridDim.x) / ACROSS;
    constexpr int TWO = 2 * ACROSS;
    if (APART == 2 && block < groups / 2 * TWO) {
      group = block / TWO * 2 + block % 2;
      first_column = block % TWO / 2 * COLUMNS;
    } else {
      group = APART == 1 ? block % groups : block / ACROSS;
      first_column = (APART == 1 ? block / groups : block % ACROSS) * COLUMNS;
    }
    tiles = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
    const int periods = tiles / PERIOD, more = tiles % PERIOD;
    const bool has_place = ORDER && periods > 1 && tiles / groups > periods;
    const int first = static_cast<int>(static_cast<long long>(group) * tiles / groups);
    count = static_cast<int>(static_cast<long long>(group + 1) * tiles / groups) - first;
    own = has_place ? periods + (group < more) : 0;
    const auto before = [&](int places) { return has_place ? places * periods + min(places, more) : 0; };
    shift = before(groups) + first - before(group) - own;
  }

  __device__ __forceinline__ Tile tile(int i) const {
    return i < own ? Tile{(i * PERIOD + group) * GROUP_ROWS, group} : tile_of(shift + i, tiles);
  }

 private:
  int group, tiles, own, shift;
};

// A thread has of the sums two neighbours in each 8 columns. For it to have 8 neighbours of C, B is seen as [octets, 8,
// GEMM_K]: a box brings columns 2 i and 2 i + 1 of each octet, and the first of each four octets lie side by side.
constexpr int PAIRS = 4, OCTETS = COLUMNS / 8, PARTS = COLUMNS / 32;

// By one thread: a band of B.
__device__ __forceinline__ void bring_columns(Memory& memory, const gdn::TensorMap& map, int first_column, int band,
                                              Barrier& there) {
#pragma unroll
  for (int pair = 0; pair < PAIRS; ++pair)
    load_box(memory.columns[band] + pair * (OCTETS * 2 * BAND), map, first_column / 8, 2 * pair, band * BAND, there);
}

// By one thread: all stages. The first tile's have B beside A's rows.
__device__ __forceinline__ void bring(Memory& memory, const gdn::TensorMap& of_rows, const gdn::TensorMap& of_columns,
                                      const Share& share) {
  GDNBENCH_PHASES_BEGIN();
  unsigned place = 0, parity = 0;
  for (int i = 0; i < share.count; ++i) {
    const int row = share.tile(i).first_row;
#pragma unroll 1
    for (int band = 0; band < BANDS; ++band) {
      Barrier& there = memory.there[place];
      wait(memory.free[place], parity ^ 1);  // at once, the first time
      GDNBENCH_PHASE(space);
      arrive_expecting(there, i == 0 ? STAGE_BYTES + COLUMNS_BYTES : STAGE_BYTES);
      if (i == 0) bring_columns(memory, of_columns, share.first_column, band, there);
      load_box(memory.rows[place], of_rows, row, band * BAND, there);
      if (++place == STAGES) place = 0, parity ^= 1;
      GDNBENCH_PHASE(copies);
    }
  }
}

}  // namespace gemm
