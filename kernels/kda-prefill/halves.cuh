// The products of tokens of eight, where gates have no bound.
//
// No exponential is taken but each token's own decay: all ratios G_i / G_j are products of decays, and so at most 1. A
// pair of tokens i > j lies in the two halves of one group of 2, 4, …, 64 tokens that begins at a multiple of its size.
// There G_i / G_j is the product from the second half's beginning to i, times that after j to the first half's end. So
// for each size keys and queries are multiplied with their part, and a product of matrices gives all pairs of the size.
#pragma once
#include "pairs.cuh"

namespace kda {

// The same, times the products of decays in a group of tokens.
struct Decayed {
  float2 key[OWN], query[OWN];  // times the decays from the group's first token on
  float2 earlier[OWN];          // keys, times those after the token
  float2 kept[OWN];             // of a group, at its first token

  // From groups of so many tokens to one of twice as many.
  template <int Half>
  __device__ __forceinline__ void widen(int begin) {
    const float2 first = kept[begin], second = kept[begin + Half];
#pragma unroll
    for (int i = begin; i < begin + Half; ++i) {
      earlier[i] = times(earlier[i], second);
      key[i + Half] = times(key[i + Half], first);
      query[i + Half] = times(query[i + Half], first);
    }
    kept[begin] = times(first, second);
  }
  // The same for all groups.
  template <int Half>
  __device__ __forceinline__ void widen_all() {
#pragma unroll
    for (int begin = 0; begin < OWN; begin += 2 * Half) widen<Half>(begin);
  }
};

// A group's rows of A's and P's diagonal tiles, zeros but for P_ii, of which every fourth lane has one.
__device__ __forceinline__ void begin_diagonal(ChunkMemory& memory, float product, int group, unsigned lane) {
  float4* const coupling = reinterpret_cast<float4*>(memory.coupling.diagonal[group / 2].tile[group % 2 * OWN]);
  for (int i = lane; i < OWN * (TILE + 4) / 4; i += WARP) coupling[i] = make_float4(0.f, 0.f, 0.f, 0.f);
  const int row = lane / 2, half = lane % 2;
  const unsigned own = pack_bf16(__shfl_sync(ALL_LANES, product, row % OWN * 4), 0.f);
  if (row >= OWN) return;
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = half == group % 2 && i == row / 2 ? own << row % 2 * 16 : 0;
  *reinterpret_cast<uint4*>(reinterpret_cast<char*>(memory.products) +
                            banded<CHUNK>(group * OWN + row, group / 2 * 2 + half)) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

// By all warps of a block, which synchronises after it: the products of groups of up to 16 tokens, and P_ii; of its own
// eight each warp is left with the rows. `early` is done between.
template <class Early>
__device__ __forceinline__ void take_near(ChunkMemory& memory, Decayed& rows, const Raw& raw, const Gate& gate,
                                          const Norms& norms, int warp, unsigned lane, Early early) {
  const int group = warp / 2, pair = warp % 2 * WARP + lane, own = lane / 4;
  const float product = memory.partial[0][group][2 * OWN + own] + memory.partial[1][group][2 * OWN + own];
  const float self = product * norms.of_key(own) * norms.of_query(own);
  if (warp % 2 == 0) begin_diagonal(memory, self, group, lane);
  float2 logs = make_float2(0.f, 0.f);
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const float2 log = gate.log_decays(raw.g[i]);
    logs = plus(logs, log);
    rows.kept[i] = exp2_of(log);
    rows.earlier[i] = times(norms.of_key(i), unpack_bf16(raw.k[i]));
    rows.key[i] = times(rows.earlier[i], rows.kept[i]);
    rows.query[i] = times(times(norms.of_query(i), unpack_bf16(raw.q[i])), rows.kept[i]);
  }
  memory.logs[group][pair] = logs;
  store_parts<1>(memory.later[0], memory.earlier, 0, rows, Ones(), group, pair);
  rows.widen_all<1>();
  store_parts<2>(memory.later[1], memory.earlier, CHUNK / 2, rows, Ones(), group, pair);
  rows.widen_all<2>();
  __syncthreads();
  early();
  take_two<1>(memory, warp, lane);
  __syncthreads();
  store_parts<4>(memory.later[0], memory.earlier, 0, rows, Ones(), group, pair);
  rows.widen_all<4>();
  store_parts<8>(memory.later[1], memory.earlier, CHUNK / 2, rows, Ones(), group, pair);
  memory.kept[group][pair] = rows.kept[0];
  __syncthreads();
  take_two<4>(memory, warp, lane);
}

// By all warps of a block: the inverses of the diagonal tiles of I + A, before those of others are read.
__device__ __forceinline__ void invert_near(ChunkMemory& memory, int warp, unsigned lane) {
  if (warp < SIDE) invert_tiles<1>(&memory.coupling, warp, lane);
  __syncthreads();
}

}  // namespace kda
