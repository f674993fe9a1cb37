// Tiles of all groups. A group's rows of A are tiles of as many each, up to 128, with TILE rows of its B, and products
// have 64, 80, 96, 112 or 128 columns for them.
#pragma once
#include "../../nvfp4-gemm/ring.cuh"

namespace gemm {

constexpr int COLUMN_TILES = (GEMM_N + TILE - 1) / TILE;
constexpr int UNIT = 16, LEAST_UNITS = 4;  // of a product's columns
constexpr int MOST_GROUPS = 128;

struct Group {
  int first, end;       // rows of A, C and widened A
  int row_tiles, rows;  // tiles, and rows of each but the last
  int columns;          // of a product, in units
  int scales;           // where its scales begin, in rows

  Group() = default;
  __device__ __forceinline__ Group(int first, int end) : first(first), end(end) {
    row_tiles = (end - first + COLUMNS - 1) / COLUMNS;
    rows = (end - first + row_tiles - 1) / max(row_tiles, 1);
    columns = max((rows + UNIT - 1) / UNIT, LEAST_UNITS);
  }

  __device__ __forceinline__ int scale_rows() const {
    return GEMM_TILED ? (end - first + SCALE_TILE - 1) / SCALE_TILE * SCALE_TILE : end - first;
  }
};

struct Tile {
  int group, first_column;  // of B
  int first_row, rows;      // of all rows of A
  int columns;              // of its products, in units
};

struct Groups {
  Group groups[MOST_GROUPS];
  int tiles;

  // By all threads of a block.
  __device__ __forceinline__ void fill(const int* ends, int count) {
    for (int i = threadIdx.x; i < count; i += THREADS) groups[i] = Group(ends[i], ends[i + 1]);
    __syncthreads();
    if (threadIdx.x == 0) {
      tiles = 0;
      int scales = 0;
      for (int i = 0; i < count; ++i) {
        tiles += groups[i].row_tiles * COLUMN_TILES;
        groups[i].scales = scales, scales += groups[i].scale_rows();
      }
    }
    __syncthreads();
  }

  // Those with the same rows of B follow each other.
  __device__ __forceinline__ Tile tile(int number) const {
    int i = 0, of_group = number;
    for (; of_group >= groups[i].row_tiles * COLUMN_TILES; ++i) of_group -= groups[i].row_tiles * COLUMN_TILES;
    const Group& group = groups[i];
    const int row = group.first + of_group % group.row_tiles * group.rows;
    return {i, of_group / group.row_tiles * TILE, row, min(group.end - row, group.rows), group.columns};
  }
};

}  // namespace gemm
