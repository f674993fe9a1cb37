// Tiles of 256 rows of B and up to 128 of A, and which of all their steps are a block's. Its share begins and ends
// anywhere, and costs as much as any other.
#pragma once
#include "step.cuh"

namespace gemm {

constexpr int TILE = 256;  // rows of B

// Steps that stand side by side in a loop, so that each knows its places in shared memory. Shares are of so many.
constexpr int GRAIN = STEPS % UNROLL == 0 ? UNROLL : 1;

// The steps of a tile cost the same.
struct Tile {
  int matrix, first_column;  // of B
  int first_row, rows;       // of all rows of A
  int columns;               // of its products
  int before, step;          // what all tiles before it cost, and each of its steps

  __device__ __forceinline__ int behind() const { return before + step * STEPS; }
};

// Steps of all tiles, one tile after the other: those of a block. `all` is what they cost together, and there are
// `shares`, fewer than blocks where each would be less than a step.
struct Share {
  int first, end, all, shares;

  // `tiles.at(cost)` is the tile that has this among all costs, or what is behind the last one. Of whole tiles, a share
  // begins and ends with one.
  template <typename Tiles>
  __device__ __forceinline__ Share(const Tiles& tiles, int block) : all(tiles.all()) {
    shares = min(BLOCKS, all / Tiles::DEAREST);
    first = begin(tiles, block);
    end = begin(tiles, block + 1);
  }

  // The blocks that have a tile's first steps, and its last.
  __device__ __forceinline__ int first_of(const Tile& tile) const {
    return block_before(tile.before + tile.step * GRAIN);
  }
  __device__ __forceinline__ int last_of(const Tile& tile) const { return block_before(tile.behind()); }

 private:
  __device__ __forceinline__ int block_before(int cost) const {
    return static_cast<int>((static_cast<long long>(cost) * shares - 1) / all);
  }

  template <typename Tiles>
  __device__ __forceinline__ int begin(const Tiles& tiles, int block) const {
    const int at = static_cast<int>(static_cast<long long>(all) * min(block, shares) / shares);
    int number;
    const Tile tile = tiles.at(at, number);
    return number * STEPS + (Tiles::OF_WHOLE ? 0 : (at - tile.before) / (tile.step * GRAIN) * GRAIN);
  }
};

// Tiles of as many matrices of A as of B, whose steps all cost 1: those with the same rows of B follow each other.
template <int ColumnTile, bool OfWhole>
struct EqualTiles {
  static constexpr bool OF_WHOLE = OfWhole;
  static constexpr int DEAREST = OfWhole ? STEPS : GRAIN;  // that a share may not be cheaper than
  static constexpr int COLUMN_TILES = (GEMM_N + ColumnTile - 1) / ColumnTile;
  int M, matrices;

  __device__ __forceinline__ int row_tiles() const { return (M + COLUMNS - 1) / COLUMNS; }
  __device__ __forceinline__ int count() const { return row_tiles() * COLUMN_TILES * matrices; }
  __device__ __forceinline__ int all() const { return count() * STEPS; }

  __device__ __forceinline__ Tile at(int cost, int& number) const { return tile(number = cost / STEPS); }

  __device__ __forceinline__ Tile tile(int number) const {
    const int row = number % row_tiles() * COLUMNS, matrix = number / row_tiles() / COLUMN_TILES;
    const int column = number / row_tiles() % COLUMN_TILES * ColumnTile;
    return {matrix, column, matrix * M + row, min(M - row, COLUMNS), COLUMNS, number * STEPS, 1};
  }
};

}  // namespace gemm
