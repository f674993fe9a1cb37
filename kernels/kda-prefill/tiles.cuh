// The products of tokens of sixteen, where gates have a bound of 5 nats a token.
//
// Eight tokens keep no less than e^-40, whose reciprocal bf16 holds as well as any number: a tile of 16 tokens needs no
// smaller groups. All is kept from the tile's middle to a token or, of those before it, divided by what they lose to there.
// Rows are bf16 from here on, and what multiplies them in larger groups is rounded, too.
#pragma once
#include "pairs.cuh"

namespace kda {

// A warp's eight tokens, in bf16.
struct Decayed {
  unsigned key[OWN], query[OWN];  // times the decays from the first token on
  unsigned earlier[OWN];          // keys, times those after the token
};

// By a warp: the inverse of I and a diagonal tile of A, or one of P if `of_queries`.
__device__ __forceinline__ void take_tile(ChunkMemory& memory, int tile, bool of_queries, unsigned lane) {
  const unsigned row = tile * TILE + lane % 16, piece = lane / 16 * 16;
  const unsigned x = shared_address(memory.later[of_queries].rows) + row * PITCH + piece;
  const unsigned y = shared_address(memory.earlier.rows) + (tile * TILE + lane / 16 * 8 + lane % 8) * PITCH +
                     lane / 8 % 2 * 16;
  TileSums sums = {};
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    Operand left;
    unsigned right[4];
    load_matrices(left, x + k * 32);
    load_matrices(right, y + k * 32);
    mma_bf16(sums[0], left, right[0], right[1]);
    mma_bf16(sums[1], left, right[2], right[3]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = lane / 4 + i / 2 * 8, c = half * 8 + lane % 4 * 2 + i % 2;
      if (c >= r + of_queries) sums[half][i] = 0.f;
    }
  if (of_queries) {
    const unsigned pairs[2][2] = {{pack_bf16(sums[0][0], sums[0][1]), pack_bf16(sums[1][0], sums[1][1])},
                                  {pack_bf16(sums[0][2], sums[0][3]), pack_bf16(sums[1][2], sums[1][3])}};
    store_tile(memory.products, tile, tile, pairs, lane);
    return;
  }
  const float beta[2] = {memory.beta[tile * TILE + lane / 4], memory.beta[tile * TILE + lane / 4 + 8]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[half][i] *= beta[i / 2];
  Coupling::Diagonal& diagonal = memory.coupling.diagonal[tile];
  static_assert(sizeof(DiagonalBlocks) <= sizeof(diagonal.tile), "the tile's place is free");
  Operand inverse;
  invert_tile(inverse, reinterpret_cast<DiagonalBlocks&>(diagonal.tile), sums, lane);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<unsigned*>(diagonal.inverse.places + HalfTile::place(lane / 4 + i % 2 * 8, i / 2) +
                                 lane % 4 * 2) = inverse[i];
}

// By all warps of a block, which synchronises after it: P's diagonal tiles, and the inverses of those of I + A; each warp is
// left with its rows. `early` is done between.
template <class Early>
__device__ __forceinline__ void take_near(ChunkMemory& memory, Decayed& rows, const Raw& raw, const Gate& gate,
                                          const Norms& norms, int warp, unsigned lane, Early early) {
  const int group = warp / 2, pair = warp % 2 * WARP + lane;
  float2 since[OWN], sum = make_float2(0.f, 0.f);  // log2 of what is kept from the first token on
#pragma unroll
  for (int i = 0; i < OWN; ++i) since[i] = sum = plus(sum, gate.log_decays(raw.g[i]));
  memory.logs[group][pair] = sum;
  memory.kept[group][pair] = exp2_of(sum);
  const unsigned back = narrowed(exp2_of(times(-1.f, sum)));
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const float2 key = times(norms.of_key(i), unpack_bf16(raw.k[i])), kept = exp2_of(since[i]);
    rows.key[i] = narrowed(times(key, kept));
    rows.query[i] = narrowed(times(times(norms.of_query(i), unpack_bf16(raw.q[i])), kept));
    rows.earlier[i] = narrowed(times(key, exp2_of(plus(sum, times(-1.f, since[i])))));
  }
  const int place = group * OWN * PITCH + pair * 4;
  char *const keys = memory.later[0].rows + place, *const queries = memory.later[1].rows + place;
  char* const earlier = memory.earlier.rows + place;
  if (group % 2) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      store_pair(keys + i * PITCH, rows.key[i]);
      store_pair(queries + i * PITCH, rows.query[i]);
      store_pair(earlier + i * PITCH, times(rows.earlier[i], back));
    }
  } else {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      store_pair(keys + i * PITCH, times(rows.key[i], back));
      store_pair(queries + i * PITCH, times(rows.query[i], back));
      store_pair(earlier + i * PITCH, rows.earlier[i]);
    }
  }
  __syncthreads();
  early();
  if (warp < 2 * SIDE) take_tile(memory, warp / 2, warp % 2, lane);
}

// They are inverted.
__device__ __forceinline__ void invert_near(ChunkMemory&, int, unsigned) {}

}  // namespace kda
