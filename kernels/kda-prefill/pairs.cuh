// Products of the tokens of a chunk with each other, where those of two halves of a group are taken at once: `Rows` are the
// groups that warps have in registers, and what is kept between these and the larger group's halves multiplies them.
#pragma once
#include "tokens.cuh"

namespace kda {

__device__ __forceinline__ unsigned narrowed(float2 x) { return pack_bf16(x.x, x.y); }

// Of pairs in bf16.
__device__ __forceinline__ unsigned times(unsigned x, unsigned y) {
  unsigned product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

__device__ __forceinline__ unsigned times(unsigned x, float2 y) { return times(x, narrowed(y)); }

__device__ __forceinline__ void store_pair(char* to, unsigned x) { *reinterpret_cast<unsigned*>(to) = x; }

__device__ __forceinline__ void store_pair(char* to, float2 x) { store_pair(to, narrowed(x)); }

template <class Pair>
__device__ __forceinline__ void store_pair(Rows& to, int token, int pair, Pair x) {
  store_pair(reinterpret_cast<char*>(to) + banded<CHUNK>(token, pair / 4) + pair % 4 * 4, x);
}

// Stands for two ones.
struct Ones {};

template <class Pair>
__device__ __forceinline__ Pair times(Pair x, Ones) {
  return x;
}

// Tokens of groups of 2 Half: those in second halves are later, the others earlier, 32 of each, which are numbered.
template <int Half>
struct Groups {
  static __device__ __forceinline__ constexpr int number(int token) { return token / (2 * Half) * Half + token % Half; }
  static __device__ __forceinline__ int later(int number) { return earlier(number) + Half; }
  static __device__ __forceinline__ int earlier(int number) { return number / Half * (2 * Half) + number % Half; }
};

// The later tokens' keys and queries, of 8 after those of 8, and the earlier ones' keys from row `first` on: what warps have,
// `by` what is kept from the group's half's beginning to their tokens, or from these to its end.
template <int Half, class Rows, class By>
__device__ __forceinline__ void store_parts(Parts& later, Parts& earlier, int first, const Rows& rows, By by, int group,
                                            int pair) {
  const int begin = Groups<Half>::number(group * OWN);
  char* const to_later = later.rows + (begin / 8 * TILE + begin % 8) * PITCH + pair * 4;
  char* const to_earlier = earlier.rows + (first + begin) * PITCH + pair * 4;
  const auto store = [&](int i, int number, bool is_later) {
    if (is_later) {
      store_pair(to_later + number * PITCH, times(rows.key[i], by));
      store_pair(to_later + (number + 8) * PITCH, times(rows.query[i], by));
    } else {
      store_pair(to_earlier + number * PITCH, times(rows.earlier[i], by));
    }
  };
  if (Half < OWN) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, Groups<Half>::number(i), i & Half);
  } else if (group * OWN & Half) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, i, true);
  } else {
#pragma unroll
    for (int i = 0; i < OWN; ++i) store(i, i, false);
  }
}

// Of a pair of tokens, or of two with the same later one, whose tile is on the diagonal: beta_i times the product of keys
// into A, that of queries into P.
template <bool IsPair>
__device__ __forceinline__ void store_near(ChunkMemory& memory, int row, int column, const float* keys,
                                           const float* queries) {
  const float beta = memory.beta[row];
  float* const coupled = &memory.coupling.diagonal[row / TILE].tile[row % TILE][column % TILE];
  char* const product = reinterpret_cast<char*>(memory.products) + banded<CHUNK>(row, column / 8) + column % 8 * 2;
  if (IsPair) {
    *reinterpret_cast<unsigned*>(product) = pack_bf16(queries[0], queries[1]);
    *reinterpret_cast<float2*>(coupled) = make_float2(beta * keys[0], beta * keys[1]);
  } else {
    *reinterpret_cast<__nv_bfloat16*>(product) = __float2bfloat16(queries[0]);
    *coupled = beta * keys[0];
  }
}

// The same for 8 later tokens, from `row` on, with 8 earlier ones, from `column` on, of a tile below the diagonal.
__device__ __forceinline__ void store_far(ChunkMemory& memory, int row, int column, const Sum& sum, unsigned lane) {
  const int own = lane / 4, pair = lane % 4;
  const float beta = memory.beta[row + own];
  *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(memory.products) + (row + own) * BAND_BYTES +
                               (column / 8 ^ own) * 16 + pair * 4) = pack_bf16(sum[2], sum[3]);
  HalfTile& tile = memory.coupling.below[tile_below(row / TILE, column / TILE)];
  *reinterpret_cast<unsigned*>(tile.places + HalfTile::place(row % TILE, 0) + own * TILE +
                               (column / 8 % 2 ^ own / 4) * 8 + pair * 2) = pack_fp16(beta * sum[0], beta * sum[1]);
}

// The products of 8 later tokens, those numbered from 8 block on, with the earlier ones of their groups, or with those in
// part `part` of so many.
template <int Half, int InParts = 1>
__device__ __forceinline__ void take_pairs(ChunkMemory& memory, const Parts& later, int first, int block, int part,
                                           unsigned lane) {
  constexpr int ALL_COLUMNS = Half > 8 ? Half / 8 : 1, COLUMNS = ALL_COLUMNS / InParts;  // of 8 earlier tokens
  const int from = block / ALL_COLUMNS * ALL_COLUMNS + part * COLUMNS;
  const unsigned x = shared_address(later.rows) + (block * TILE + lane % 16) * PITCH + lane / 16 * 16;
  const unsigned y = shared_address(memory.earlier.rows) + (first + from * 8 + lane % 8) * PITCH + lane / 8 * 16;
  Sum sums[COLUMNS] = {};
#pragma unroll
  for (int k = 0; k < KEY_TILES; k += 2) {
    Operand left[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      load_matrices(left[i], x + (k + i) * 32);
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) {
      unsigned right[4];
      load_matrices(right, y + n * (8 * PITCH) + k * 32);
      mma_bf16(sums[n], left[0], right[0], right[1]);
      mma_bf16(sums[n], left[1], right[2], right[3]);
    }
  }
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) {
    if constexpr (Half >= TILE) {
      store_far(memory, Groups<Half>::later(block * 8), Groups<Half>::earlier((from + n) * 8), sums[n], lane);
    } else {
      const int later_number = block * 8 + lane / 4, row = Groups<Half>::later(later_number);
      const int number = (from + n) * 8 + lane % 4 * 2;
      if (Half > 1) {
        if (later_number / Half == number / Half)
          store_near<true>(memory, row, Groups<Half>::earlier(number), &sums[n][0], &sums[n][2]);
      } else if (later_number / 2 == number / 2) {  // the pair has the token before
        const int second = later_number % 2;
        const float key = second ? sums[n][1] : sums[n][0], query = second ? sums[n][3] : sums[n][2];
        store_near<false>(memory, row, row - 1, &key, &query);
      }
    }
  }
}

// Two sizes of groups, four warps each.
template <int Half>
__device__ __forceinline__ void take_two(ChunkMemory& memory, int warp, unsigned lane) {
  if (warp < SIDE)
    take_pairs<Half>(memory, memory.later[0], 0, warp, 0, lane);
  else if (warp < 2 * SIDE)
    take_pairs<2 * Half>(memory, memory.later[1], CHUNK / 2, warp - SIDE, 0, lane);
}

// The two largest: four warps and eight.
__device__ __forceinline__ void take_far(ChunkMemory& memory, int warp, unsigned lane) {
  if (warp < SIDE)
    take_pairs<16>(memory, memory.later[0], 0, warp, 0, lane);
  else if (warp < 3 * SIDE)
    take_pairs<32, 2>(memory, memory.later[1], CHUNK / 2, warp / 2 - 2, warp % 2, lane);
}

}  // namespace kda
