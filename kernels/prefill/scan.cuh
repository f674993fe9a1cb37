// A state from chunk to chunk, in the registers of the warps that own its rows: the second launch of the CUDA kernels
// that take a prompt chunk by chunk, in the names of the op's numerics.py.
//
// A warp has TILE rows of S, [V, K]. Rows come first in all its products, S K^T, then U^T = R^T (...)^T, then U^T K, so
// that what one gives is the next one's left operand as it lies, and warps exchange nothing. The right operands are the
// chunk's, alike for all warps: a producer warp brings them into shared memory, some chunks ahead.
#pragma once
#include "chunks.cuh"

namespace gdn {

constexpr int KEY_TILES = GDN_K / TILE;
constexpr int TOKEN_PAIRS = CHUNK / 8;  // sums [16, 8] that hold a chunk's tokens

// What a chunk's scan needs in shared memory, for `Rows` rows of the state.
template <int Rows>
struct Stage {
  alignas(128) gdn::Rows keys;
  gdn::Rows queries;
  __nv_bfloat16 values[CHUNK * Rows];
  Prepared prepared;
};

// The rows of the state that a warp has: sums for each 8 columns.
using State = Sum[2 * KEY_TILES];

__device__ __forceinline__ void load_state(State& s, const float* from, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair = *reinterpret_cast<const float2*>(from + (lane / 4 + half * 8) * GDN_K + n * 8 + lane % 4 * 2);
      s[n][2 * half] = pair.x, s[n][2 * half + 1] = pair.y;
    }
}

__device__ __forceinline__ void store_state(float* to, const State& s, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(to + (lane / 4 + half * 8) * GDN_K + n * 8 + lane % 4 * 2) =
          make_float2(s[n][2 * half], s[n][2 * half + 1]);
}

__device__ __forceinline__ void narrow(Operand& to, const Sum& left, const Sum& right) {
  to[0] = pack_bf16(left[0], left[1]);
  to[1] = pack_bf16(left[2], left[3]);
  to[2] = pack_bf16(right[0], right[1]);
  to[3] = pack_bf16(right[2], right[3]);
}

// S X^T, for X [CHUNK, K] in shared memory: a sum for each 8 tokens.
__device__ __forceinline__ void multiply_state(Sum (&sums)[TOKEN_PAIRS], const Operand (&s)[KEY_TILES], unsigned x,
                                               unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.f;
#pragma unroll
  for (int k = 0; k < KEY_TILES; k += 2)
#pragma unroll
    for (int n = 0; n < TOKEN_PAIRS; ++n) {
      unsigned right[4];
      load_matrices(right, x + banded<CHUNK>(n * 8 + lane % 8, 2 * k + lane / 8));
      mma_bf16(sums[n], s[k], right[0], right[1]);
      mma_bf16(sums[n], s[k + 1], right[2], right[3]);
    }
}

// Adds X^T M^T to the sums, for X [CHUNK, rows] as operands and a lower triangular M.
__device__ __forceinline__ void add_triangle(Sum (&sums)[TOKEN_PAIRS], const Operand (&x)[SIDE], const Triangle& m,
                                             unsigned lane) {
  const unsigned from = shared_address(m);
#pragma unroll
  for (int column = 0; column < SIDE; ++column)
#pragma unroll
    for (int row = column; row < SIDE; ++row) {
      unsigned right[4];
      load_matrices(right, from + banded<CHUNK>(row * TILE + lane / 16 * 8 + lane % 8, 2 * column + lane / 8 % 2));
      mma_bf16(sums[2 * row], x[column], right[0], right[1]);
      mma_bf16(sums[2 * row + 1], x[column], right[2], right[3]);
    }
}

// S = S + X^T K, for X [CHUNK, rows] as operands and keys [CHUNK, K] in shared memory.
__device__ __forceinline__ void add_written(State& s, const Operand (&x)[SIDE], unsigned keys, unsigned lane) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; n += 2) {
      unsigned right[4];
      load_matrices_transposed(right, keys + banded<CHUNK>(token * TILE + lane % 16, n + lane / 16));
      mma_bf16(s[n], x[token], right[0], right[1]);
      mma_bf16(s[n + 1], x[token], right[2], right[3]);
    }
}

// The values of a chunk in shared memory, for the rows of one tile: of each 8 tokens the upper rows, then the lower.
// `place` tells where a token's piece lies.
template <class Place>
__device__ __forceinline__ void load_values(Operand (&v)[SIDE], unsigned values, int tile, unsigned lane, Place place) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
    load_matrices_transposed(v[token],
                             values + place(token * TILE + lane / 16 * 8 + lane % 8, 2 * tile + lane / 8 % 2));
}

// A number for each token of a chunk, in their order.
struct InOrder {
  const float* numbers;

  // Of sixteen tokens, the lane's pair of the first eight and of the others.
  __device__ __forceinline__ float4 of_tile(int tile, unsigned lane) const {
    const float2 first = *reinterpret_cast<const float2*>(&numbers[tile * TILE + lane % 4 * 2]);
    const float2 second = *reinterpret_cast<const float2*>(&numbers[tile * TILE + 8 + lane % 4 * 2]);
    return make_float4(first.x, first.y, second.x, second.y);
  }
};

// R_i = v_i - G_i S k_i as operands, from S k_i, in the place of v_i. `since` has G_i, in whatever order.
template <class PerToken>
__device__ __forceinline__ void subtract_read(Operand (&r)[SIDE], const Sum (&read)[TOKEN_PAIRS], const PerToken& since,
                                              unsigned lane) {
#pragma unroll
  for (int tile = 0; tile < SIDE; ++tile) {
    const float4 g = since.of_tile(tile, lane);
    Sum rest[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float first = half == 0 ? g.x : g.z, second = half == 0 ? g.y : g.w;
      const float2 upper = unpack_bf16(r[tile][2 * half]), lower = unpack_bf16(r[tile][2 * half + 1]);
      const Sum& sum = read[2 * tile + half];
      rest[half][0] = fmaf(-first, sum[0], upper.x);
      rest[half][1] = fmaf(-second, sum[1], upper.y);
      rest[half][2] = fmaf(-first, sum[2], lower.x);
      rest[half][3] = fmaf(-second, sum[3], lower.y);
    }
    narrow(r[tile], rest[0], rest[1]);
  }
}

// The state after a chunk in which nothing is written.
__device__ __forceinline__ void decay_state(State& s, float kept) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] *= kept;
}

// Each token's column times its factor of `factors`, [CHUNK].
__device__ __forceinline__ void scale_tokens(Sum (&sums)[TOKEN_PAIRS], const float* factors, float scale,
                                             unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n) {
    const float2 factor = *reinterpret_cast<const float2*>(&factors[n * 8 + lane % 4 * 2]);
    sums[n][0] *= scale * factor.x;
    sums[n][1] *= scale * factor.y;
    sums[n][2] *= scale * factor.x;
    sums[n][3] *= scale * factor.y;
  }
}

__device__ __forceinline__ void narrow_tokens(Operand (&to)[SIDE], const Sum (&sums)[TOKEN_PAIRS]) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token) narrow(to[token], sums[2 * token], sums[2 * token + 1]);
}

// The output of a chunk's tokens, [tokens, HV * V] from `to` on, for a warp's rows.
__device__ __forceinline__ void store_output(__nv_bfloat16* to, const Sum (&sums)[TOKEN_PAIRS], int tokens,
                                             unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n) {
    const unsigned upper = transpose(pack_bf16(sums[n][0], sums[n][1]));
    const unsigned lower = transpose(pack_bf16(sums[n][2], sums[n][3]));
    const int token = n * 8 + lane / 4;
    if (token < tokens) {
      __nv_bfloat16* row = to + static_cast<long long>(token) * (GDN_HV * GDN_V) + lane % 4 * 2;
      *reinterpret_cast<unsigned*>(row) = upper;
      *reinterpret_cast<unsigned*>(row + 8) = lower;
    }
  }
}

// One chunk: its output for a warp's rows, and their state after it. `tile` is the warp's number in the block.
template <int Rows>
__device__ __forceinline__ void take_chunk(State& s, const Stage<Rows>& stage, __nv_bfloat16* output, float scale,
                                           int tokens, int tile, unsigned lane) {
  const unsigned keys = shared_address(stage.keys), queries = shared_address(stage.queries);
  Operand begun[KEY_TILES];
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);

  Sum sums[TOKEN_PAIRS];
  Operand r[SIDE], u[SIDE], faded[SIDE];  // r begins as v
  multiply_state(sums, begun, keys, lane);
  load_values(r, shared_address(stage.values), tile, lane, swizzled<Rows / 8>);
  subtract_read(r, sums, InOrder{stage.prepared.since}, lane);
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.f;
  add_triangle(sums, r, stage.prepared.solved, lane);
  narrow_tokens(u, sums);
  scale_tokens(sums, stage.prepared.until, 1.f, lane);
  narrow_tokens(faded, sums);

  decay_state(s, stage.prepared.since[CHUNK - 1]);
  add_written(s, faded, keys, lane);

  multiply_state(sums, begun, queries, lane);
  scale_tokens(sums, stage.prepared.since, scale, lane);
  add_triangle(sums, u, stage.prepared.products, lane);
  store_output(output, sums, tokens, lane);
}

// What a producer warp brings for one chunk. Rows after the sequence's end become zeros, which write nothing. Every
// lane arrives at the barrier once what it copied is there.
struct Source {
  const __nv_bfloat16 *q, *k, *v;  // of the sequence's first token
  const Prepared* prepared;        // of its first chunk
};

template <int Rows>
__device__ __forceinline__ void bring_chunk(Stage<Rows>& stage, Barrier& full, const Source& from, int chunk,
                                            int tokens, unsigned lane) {
  const long long first = static_cast<long long>(chunk) * CHUNK;
  load_tile<KEY_PIECES, WARP>(shared_address(stage.keys), from.k + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K, tokens,
                              lane, banded<CHUNK>);
  load_tile<Rows / 8, WARP>(shared_address(stage.values), from.v + first * (GDN_HV * GDN_V), GDN_HV * GDN_V, tokens,
                            lane, swizzled<Rows / 8>);
  load_tile<KEY_PIECES, WARP>(shared_address(stage.queries), from.q + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K, tokens,
                              lane, banded<CHUNK>);
  const char* prepared = reinterpret_cast<const char*>(from.prepared + static_cast<size_t>(chunk) * GDN_HV);
  static_assert(sizeof(Prepared) % (16 * WARP) == 0, "every lane copies as much");
#pragma unroll
  for (int place = 0; place < sizeof(Prepared); place += 16 * WARP)
    copy_async(shared_address(&stage.prepared) + place + lane * 16, prepared + place + lane * 16, true);
  arrive_after_copies(full);
}

}  // namespace gdn
