// The decays and gates of a chunk for a block that prepares its own chunks: what products are multiplied with, worked
// out once by two warps, so that others load it.
#pragma once
#include "rows.cuh"
#include "segments.cuh"

namespace gdn {

constexpr int TILES_BELOW = SIDE * (SIDE - 1) / 2;

// A number for each token of a chunk, in the order in which lanes of the state's warps take them: of sixteen tokens the
// pair (lane % 4) of the first eight and that of the others, side by side, and what lanes take at once in other banks.
struct ByLane {
  alignas(16) float places[CHUNK];

  static __device__ __forceinline__ constexpr int place(int token) {
    return token / TILE * TILE + token / 2 % 4 * 4 + token / 8 % 2 * 2 + token % 2;
  }
  __device__ __forceinline__ void store_pair(unsigned pair, float first, float second) {
    *reinterpret_cast<float2*>(&places[place(2 * pair)]) = make_float2(first, second);
  }
  __device__ __forceinline__ float at(int token) const { return places[place(token)]; }
  // Of sixteen tokens, the lane's pair of the first eight and of the others.
  __device__ __forceinline__ float4 of_tile(int tile, unsigned lane) const {
    return *reinterpret_cast<const float4*>(&places[tile * TILE + lane % 4 * 4]);
  }
};

// log2 G_i and beta_i.
struct RawGates {
  alignas(16) float log_since[CHUNK], beta[CHUNK];
};

// What is made of them.
struct ChunkGates : RawGates {
  ByLane until, since;               // G_C / G_i and G_i
  float in_tile[CHUNK];              // G_i / G_f, for the first token f of i's tile
  float to_tile[TILES_BELOW][TILE];  // G_f / G_j, for a tile of rows that begins at f and a tile of columns j
  alignas(16) float whole;           // G_C
};

// The gates of a chunk as they are read, of tokens 2 l and 2 l + 1; after the sequence's end, any.
struct GateInputs {
  __nv_bfloat16 a[2], b[2];

  // `from_a` and `from_b` are of the first of so many tokens, and of the head.
  __device__ __forceinline__ void load(const __nv_bfloat16* from_a, const __nv_bfloat16* from_b, int first, int tokens,
                                       unsigned lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long token = min(first + 2 * static_cast<int>(lane) + i, tokens - 1);
      a[i] = from_a[token * GDN_HV];
      b[i] = from_b[token * GDN_HV];
    }
  }
};

__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// As softplus, without a branch: log(1 + e) = 2 artanh(e / (2 + e)), by its series, of which s^16 / 17 is left out; s
// is at most 1/3. As precise, relatively, as its exponential.
__device__ __forceinline__ float softplus_of_series(float x) {
  const float e = exp2_fast(-LOG2_E * fabsf(x));
  const float s = e * reciprocal_fast(2.f + e), square = s * s;
  float sum = 1.f / 15;
#pragma unroll
  for (int odd = 13; odd > 0; odd -= 2) sum = fmaf(sum, square, 1.f / odd);
  return fmaf(2.f * s, sum, fmaxf(x, 0.f));
}

// A number for each of tokens 2 l and 2 l + 1.
__device__ __forceinline__ void store_pair(float* to, unsigned lane, float first, float second) {
  reinterpret_cast<float2*>(to)[lane] = make_float2(first, second);
}

// log2 G_i and beta_i, by a warp. After the sequence's end nothing decays or is written.
__device__ __forceinline__ void sum_decays(RawGates& to, const GateInputs& inputs, float rate, float dt_bias,
                                           int tokens, unsigned lane) {
  float decay[2], beta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool is_there = 2 * static_cast<int>(lane) + i < tokens;
    decay[i] = is_there ? -LOG2_E * rate * softplus_of_series(__bfloat162float(inputs.a[i]) + dt_bias) : 0.f;
    beta[i] = is_there ? reciprocal_fast(1.f + exp2_fast(-LOG2_E * __bfloat162float(inputs.b[i]))) : 0.f;
  }
  const float second = sum_to_here(decay[0] + decay[1], lane);
  store_pair(to.log_since, lane, second - decay[1], second);
  store_pair(to.beta, lane, beta[0], beta[1]);
}

// What is made of them, by two other warps: one would take longer than what the others do meanwhile. First a number
// for each token.
__device__ __forceinline__ void store_gates(ChunkGates& to, const RawGates& from, unsigned lane) {
  const float2 pair = reinterpret_cast<const float2*>(from.log_since)[lane];
  const float2 beta = reinterpret_cast<const float2*>(from.beta)[lane];
  const float first = pair.x, second = pair.y, whole = from.log_since[CHUNK - 1];
  store_pair(to.log_since, lane, first, second);
  store_pair(to.beta, lane, beta.x, beta.y);
  to.since.store_pair(lane, exp2_fast(first), exp2_fast(second));
  to.until.store_pair(lane, exp2_fast(whole - first), exp2_fast(whole - second));
  if (lane == 0) to.whole = exp2_fast(whole);
}

// And a number for each token and tile.
__device__ __forceinline__ void store_tile_gates(ChunkGates& to, const RawGates& from, unsigned lane) {
  const float2 pair = reinterpret_cast<const float2*>(from.log_since)[lane];
  const float first = pair.x, second = pair.y;
  // No exponential is of a positive number, however fast a head forgets.
  constexpr int TILE_LANES = TILE / 2;
  const int tile = lane / TILE_LANES;
  const float begin = from.log_since[tile * TILE];
  store_pair(to.in_tile, lane, exp2_fast(first - begin), exp2_fast(second - begin));
#pragma unroll
  for (int row = 1; row < SIDE; ++row) {
    const float from_row = from.log_since[row * TILE];
    if (tile < row)
      *reinterpret_cast<float2*>(&to.to_tile[tile_below(row, tile)][lane % TILE_LANES * 2]) =
          make_float2(exp2_fast(from_row - first), exp2_fast(from_row - second));
  }
}

// How many chunks before `first` matter to it: as many as let a state decay to FORGOTTEN of what it was. By a block;
// `a` is of the sequence's first token.
template <int Warps>
__device__ __forceinline__ int chunks_that_matter(float (&decays)[Warps], const __nv_bfloat16* a, float rate,
                                                  float dt_bias, int first, int warp, unsigned lane) {
  float kept = 0.f;  // log2
  for (int back = 0; back < first; back += Warps) {
    const int chunk = first - 1 - back - warp;
    float sum = 0.f;
    if (chunk >= 0) {
#pragma unroll
      for (int i = 0; i < CHUNK / WARP; ++i)
        sum -=
            softplus(__bfloat162float(a[(static_cast<long long>(chunk) * CHUNK + i * WARP + lane) * GDN_HV]) + dt_bias);
    }
    sum = group_sum<WARP>(sum);
    __syncthreads();
    if (lane == 0) decays[warp] = LOG2_E * rate * sum;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Warps; ++i) {
      kept += decays[i];
      if (kept < -FORGOTTEN_BITS) return min(back + i + 1, first);
    }
  }
  return first;
}

}  // namespace gdn
