// What a block takes, and where it has it in shared memory. Each warp copies its rows of A and of B, as they are, a few
// steps ahead into rings of its own. B's it widens where it multiplies; A's it widens two steps before for all warps of
// the block, into a ring of stages, as wgmma reads them.
#pragma once
#include "step.cuh"

namespace gemm {

constexpr int TILE = 256;  // rows of B
constexpr int TILES = (GEMM_N + TILE - 1) / TILE;
constexpr int WARPS = TILE / 16, THREADS = WARPS * WARP;
constexpr int PARTS = SPLIT < STEPS ? SPLIT : STEPS;  // each has a step
constexpr int STAGES = 3, LEAD = STAGES - 1;          // steps that A is widened ahead
constexpr int LEFT_AHEAD = AHEAD + LEAD - 1;
constexpr int STAGE_BYTES = 2 * BAND_BYTES;

// Eight rows of A in a step, a warp's: of each its four pieces and their eight scales.
struct LeftRows {
  static_assert(WARPS * 8 == COLUMNS);
  uint4 codes[4][8];
  unsigned scales[8][2];
};

struct Memory {
  alignas(1024) char stages[STAGES][STAGE_BYTES];
  LeftRows left[WARPS][LEFT_AHEAD];
  RightRows right[WARPS][AHEAD];
  Barrier there[STAGES], free[STAGES];
};

// A part's sums, in the same memory when the last product is complete. Rows of C begin in different banks, so that two
// neighbours of each lane, in four rows, take all of these.
struct Sums {
  float rows[COLUMNS][TILE + 4];
};

using Stages = Ring<STAGES>;
using LeftPlaces = Ring<LEFT_AHEAD>;
using RightPlaces = Ring<AHEAD>;

// Of K. How many steps there are is told at run time: where ptxas knows that a part has but two, it leaves the loop and
// serializes the products.
struct Part {
  int first_step, steps;

  __device__ __forceinline__ Part(int number, int all_steps) {
    const int each = all_steps / PARTS, more = all_steps % PARTS;  // the first parts have a step more
    first_step = number * each + min(number, more);
    steps = each + (number < more);
  }
};

// Which part of which tile of C a block sums up.
struct Tile {
  const long long matrix = blockIdx.z;
  const int part = blockIdx.x % PARTS;
  const int first_row = blockIdx.y * COLUMNS, first_column = blockIdx.x / PARTS * TILE;

  __device__ __forceinline__ int rows(int M) const { return min(M - first_row, COLUMNS); }
};

// Where a lane copies A from: a piece of a row, and half of the lanes 4 of its scales.
struct LeftSource {
  const unsigned char *codes, *scales;

  __device__ __forceinline__ void copy(LeftRows& to, int lane) {
    const int row = lane / 4, piece = lane % 4;
    copy_16(shared_address(&to.codes[piece][row]), codes);
    if (piece < 2) copy_4(shared_address(&to.scales[row][piece]), scales);
    codes += STEP_BYTES;
    scales += NEXT_SCALES;
  }
};

// By a warp: its eight rows of A into a stage, zeros for rows that the tile has not. A lane takes a word of each of a
// row's pieces, whose first pairs are a piece of a band, and so on. Eight lanes have four rows, so that what they store
// lies in different banks.
__device__ __forceinline__ void widen_rows(char* stage, const LeftRows& from, int rows, int warp, int lane) {
  const int row = lane / 2 % 8, word = lane % 2 + lane / 16 * 2, of_tile = warp * 8 + row;
  const auto* const scales = reinterpret_cast<const unsigned char*>(from.scales[row]) + word / 2;
  unsigned pairs[4][4];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const unsigned codes = reinterpret_cast<const unsigned*>(&from.codes[t][row])[word];
    widen(pairs[t], codes, of_tile < rows ? scale_pair(scales[2 * t]) : 0);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<uint4*>(stage + word / 2 * BAND_BYTES + swizzled(of_tile, word % 2 * 4 + i)) = {
        pairs[0][i], pairs[1][i], pairs[2][i], pairs[3][i]};
}

}  // namespace gemm
