// A chunk's triangle I + A for a block that prepares its own chunks, a warp a row of tiles: A from the products of
// keys, and the inverse of the triangle.
#pragma once
#include "decays.cuh"

namespace gdn {

// Of a chunk, in fp16, what other warps than a tile's own need: A below the diagonal tiles, and their inverses.
struct TriangleTiles {
  HalfTile below[TILES_BELOW], inverse[SIDE];
};

// Of a warp, for its diagonal tile: two blocks [8, 8] as rows, and their inverses in fp16 as columns.
struct alignas(16) DiagonalBlocks {
  float block[2][8][12];
  unsigned short columns[16][8];
};

// A pair of numbers from shared memory, or zeros where it is not there: without a branch, and without reading then.
__device__ __forceinline__ void load_pair_if(bool is_there, float (&to)[2], const float* from) {
  asm volatile(
      "{ .reg .pred there; setp.ne.b32 there, %3, 0;\n"
      "mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000;\n"
      "@there ld.shared.v2.f32 {%0, %1}, [%2]; }"
      : "=&f"(to[0]), "=&f"(to[1])
      : "r"(shared_address(from)), "r"(static_cast<int>(is_there)));
}

// The factors of a lane's numbers in a row of tiles, [16, CHUNK], as sums are laid out: G_i / G_j as products of a
// row's and a column's number, but for the diagonal tile, where they are ratios. Those of tiles that are not there are
// zeros, and multiplied, too: branches would make each tile wait for the last.
struct Factors {
  float row[2], column[SIDE - 1][2][2], diagonal[2][4];

  // `WithSelf`: for products of a token with itself, too. Above the diagonal they are zeros.
  template <bool WithSelf>
  __device__ __forceinline__ void load(const ChunkGates& gates, int tile, unsigned lane) {
    const int upper = tile * TILE + lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) row[lower] = gates.in_tile[upper + lower * 8];
#pragma unroll
    for (int to_left = 0; to_left < SIDE - 1; ++to_left) {
      const float* factors = gates.to_tile[min(tile_below(tile, to_left), TILES_BELOW - 1)];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_pair_if(to_left < tile, column[to_left][half], &factors[half * 8 + pair]);
      }
    }
    const float own[2] = {gates.log_since[upper], gates.log_since[upper + 8]};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 others = *reinterpret_cast<const float2*>(&gates.log_since[tile * TILE + half * 8 + pair]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = lane / 4 + i / 2 * 8, from = half * 8 + pair + i % 2;
        const float ratio = exp2_fast(own[i / 2] - (i % 2 ? others.y : others.x));
        diagonal[half][i] = (WithSelf ? from <= token : from < token) ? ratio : 0.f;
      }
    }
  }
  // Of each row one more.
  __device__ __forceinline__ void scale_rows(float first, float second) {
    const float by[2] = {first, second};
#pragma unroll
    for (int i = 0; i < 2; ++i) row[i] *= by[i];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) diagonal[half][i] *= by[i / 2];
  }
  __device__ __forceinline__ void apply(TileSums& to, const TileSums& sums, int to_left) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[half][i] = row[i / 2] * (column[to_left][half][i % 2] * sums[half][i]);
  }
  // The tile on the diagonal out of a row of tiles.
  __device__ __forceinline__ void apply_diagonal(TileSums& to, const TileSums (&sums)[SIDE], int tile) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float low = tile == 0 ? sums[0][half][i] : sums[1][half][i];
        const float high = tile == 2 ? sums[2][half][i] : sums[3][half][i];
        to[half][i] = diagonal[half][i] * (tile < 2 ? low : high);
      }
  }
};

__device__ __forceinline__ void narrow_fp16(Operand& to, const TileSums& x) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = pack_fp16(x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
}

__device__ __forceinline__ unsigned half_tile_address(const HalfTile& tile, unsigned lane) {
  return shared_address(tile.places + HalfTile::place(lane % 16, lane / 16));
}

// A_ij left of the diagonal tile of a row of tiles.
__device__ __forceinline__ void store_coupling(TriangleTiles& to, const TileSums (&sums)[SIDE], const Factors& factors,
                                               int row, unsigned lane) {
#pragma unroll
  for (int column = 0; column < SIDE - 1; ++column) {
    TileSums x;
    Operand tile;
    factors.apply(x, sums[column], column);
    narrow_fp16(tile, x);
    if (column < row) store_matrices(half_tile_address(to.below[tile_below(row, column)], lane), tile);
  }
}

// (I + A)^-1 of a diagonal tile, in fp16. Its blocks [8, 8] on the diagonal in fp32, a column a lane from the first row
// down, t_i = e_i - Σ_{k<i} A_ik t_k; the one below them is - T_1 A_10 T_0.
__device__ __forceinline__ void invert_tile(Operand& to, DiagonalBlocks& blocks, const TileSums& a, unsigned lane) {
#pragma unroll
  for (int block = 0; block < 2; ++block)
    *reinterpret_cast<float2*>(&blocks.block[block][lane / 4][lane % 4 * 2]) =
        make_float2(a[block][2 * block], a[block][2 * block + 1]);
  __syncwarp();
  const int column = lane % 8;
  const float (&block)[8][12] = blocks.block[lane / 8 % 2];
  float t[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    t[i] = column == i ? 1.f : 0.f;
#pragma unroll
    for (int quad = 0; quad < (i + 3) / 4; ++quad) {
      const float4 x = *reinterpret_cast<const float4*>(&block[i][4 * quad]);
      t[i] = fmaf(-x.x, t[4 * quad], t[i]);
      if (4 * quad + 1 < i) t[i] = fmaf(-x.y, t[4 * quad + 1], t[i]);
      if (4 * quad + 2 < i) t[i] = fmaf(-x.z, t[4 * quad + 2], t[i]);
      if (4 * quad + 3 < i) t[i] = fmaf(-x.w, t[4 * quad + 3], t[i]);
    }
  }
  if (lane < TILE)
    *reinterpret_cast<uint4*>(blocks.columns[lane]) =
        make_uint4(pack_fp16(t[0], t[1]), pack_fp16(t[2], t[3]), pack_fp16(t[4], t[5]), pack_fp16(t[6], t[7]));
  __syncwarp();
  const unsigned address = shared_address(blocks.columns[lane % 16]);
  unsigned as_columns[4], as_rows[4];  // of T_0 and T_1, twice
  load_matrices(as_columns, address);
  load_matrices_transposed(as_rows, address);
  // Transposed, a product is the next one's right operand as it lies: (A_10 T_0)^T = T_0^T A_10^T.
  Sum product = {}, below = {};
  const Operand first = {as_columns[0], 0, 0, 0}, second = {as_rows[1], 0, 0, 0};
  mma_fp16(product, first, pack_fp16(a[0][2], a[0][3]), 0);
  mma_fp16(below, second, pack_fp16(-product[0], -product[1]), 0);
  to[0] = as_rows[0];
  to[1] = pack_fp16(below[0], below[1]);
  to[2] = 0;
  to[3] = as_rows[1];
}

// A tile of (I + A)^-1 as an operand in bf16: its columns times beta_j, as the chunk's R will be multiplied.
__device__ __forceinline__ void store_solved(Triangle& to, const TileSums& tile, const float* beta, int row, int column,
                                             unsigned lane) {
  Operand x;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 factor = *reinterpret_cast<const float2*>(&beta[column * TILE + half * 8 + lane % 4 * 2]);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower)
      x[2 * half + lower] = pack_bf16(factor.x * tile[half][2 * lower], factor.y * tile[half][2 * lower + 1]);
  }
  store_matrices(shared_address(to) + banded<CHUNK>(row * TILE + lane % 16, 2 * column + lane / 16), x);
}

// Row `Row` of tiles of T = (I + A)^-1 from its diagonal tile to the left: T_ij = -(Σ_{j<k≤i} T_ik A_kj) T_jj. No entry
// is larger than those of T itself, which those of powers of A would be, so that fp16 holds them.
template <int Row>
__device__ __forceinline__ void solve_row(Triangle& to, const TriangleTiles& triangle, const Operand& diagonal,
                                          const float* beta, unsigned lane) {
  Operand tiles[Row + 1];  // T_i,i-n
  TileSums found[Row + 1];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    tiles[0][i] = diagonal[i];
    const float2 pair = unpack_fp16(diagonal[i]);
    found[0][i / 2][i % 2 * 2] = pair.x, found[0][i / 2][i % 2 * 2 + 1] = pair.y;
  }
#pragma unroll
  for (int left = 1; left <= Row; ++left) {
    const int column = Row - left;
    TileSums sums = {};
#pragma unroll
    for (int n = 0; n < left; ++n) {
      unsigned right[4];
      load_matrices_transposed(right, half_tile_address(triangle.below[tile_below(Row - n, column)], lane));
      mma_fp16(sums[0], tiles[n], right[0], right[1]);
      mma_fp16(sums[1], tiles[n], right[2], right[3]);
    }
    Operand narrowed;
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i / 2][i % 2 * 2] *= -1.f, sums[i / 2][i % 2 * 2 + 1] *= -1.f;
    narrow_fp16(narrowed, sums);
    unsigned right[4];
    load_matrices_transposed(right, half_tile_address(triangle.inverse[column], lane));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) found[left][half][i] = 0.f;
      mma_fp16(found[left][half], narrowed, right[2 * half], right[2 * half + 1]);
    }
    narrow_fp16(tiles[left], found[left]);
  }
#pragma unroll
  for (int left = 0; left <= Row; ++left) store_solved(to, found[left], beta, Row, Row - left, lane);
}

// The same for a row that is not known when this is compiled.
__device__ __forceinline__ void solve_any_row(Triangle& to, const TriangleTiles& triangle, const Operand& diagonal,
                                              const float* beta, int row, unsigned lane) {
  static_assert(SIDE == 4, "a branch for each row");
  if (row == 3)
    solve_row<3>(to, triangle, diagonal, beta, lane);
  else if (row == 2)
    solve_row<2>(to, triangle, diagonal, beta, lane);
  else if (row == 1)
    solve_row<1>(to, triangle, diagonal, beta, lane);
  else
    solve_row<0>(to, triangle, diagonal, beta, lane);
}

}  // namespace gdn
