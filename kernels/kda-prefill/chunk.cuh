// What chunks of 64 tokens tell without the state, in the names of the op's numerics.py: W, Y, P, and what queries and
// keys have decayed by. Tensor cores by warps as in prefill-v1, which shares them.
#pragma once
#include "tokens.cuh"
#if GDN_GATE == 1
#include "tiles.cuh"
#else
#include "halves.cuh"
#endif

namespace kda {

// (X [CHUNK, columns] in shared memory)^T T^T for 16 columns: what is solved for, transposed.
__device__ __forceinline__ void solve(Sum (&sums)[TOKEN_PAIRS], unsigned x, const Triangle& solved, int tile,
                                      unsigned lane) {
  Operand columns[SIDE];
  load_values(columns, x, tile, lane, banded<CHUNK>);
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.f;
  add_triangle(sums, columns, solved, lane);
}

__device__ __forceinline__ void store_columns(Rows& to, const Sum (&sums)[TOKEN_PAIRS], int tile, unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n)
#pragma unroll
    for (int lower = 0; lower < 2; ++lower)
      *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(to) +
                                   banded<CHUNK>(n * 8 + lane / 4, 2 * tile + lower) + lane % 4 * 4) =
          transpose(pack_bf16(sums[n][2 * lower], sums[n][2 * lower + 1]));
}

// What chunks are prepared from, of all tokens and heads.
struct Inputs {
  const __nv_bfloat16 *q, *k, *v, *g, *b;
  const float *A_log, *dt_bias;
  float scale, lower_bound;
};

// By a block whose last barrier came after a chunk was prepared: copies it. Until wait_for_block_stores, shared memory
// may not be written.
__device__ __forceinline__ void store_chunk(AllReady& to, const ChunkMemory& memory) {
  store_block<THREADS>(&to.alike.y, &memory.y, sizeof(Rows));
  store_block<THREADS>(&to.alike.queries, &memory.queries, sizeof(Rows));
  store_block<THREADS>(&to.alike.keys, &memory.keys, sizeof(Rows));
  store_block<THREADS>(&to.alike.products, &memory.products, sizeof(Triangle));
  store_block<THREADS>(&to.alike.whole, &memory.whole, sizeof(memory.whole));
  store_block<THREADS>(&to.w, &memory.w, sizeof(memory.w));
}

// By a block: prepares a chunk of a head in shared memory, in the places that store_chunk copies. What it stored from
// there before may still be read: it waits for that once the chunk's tokens are on their way. It does `early` a little
// later, and `late` before the last barrier.
template <class Early, class Late>
__device__ __forceinline__ void prepare_chunk(ChunkMemory& memory, const Inputs& in, int head, const Span& span,
                                              Early early, Late late) {
  // Addresses are worked out for each chunk: all of them would fill registers. A shuffle hides where the number comes
  // from, which ptxas would read anew at each use.
  const unsigned thread = __shfl_xor_sync(ALL_LANES, worked_out_anew(threadIdx.x), 0), lane = thread % WARP;
  const unsigned warp = uniform(thread / WARP);
  const int group = warp / 2, pair = warp % 2 * WARP + lane;
  const Gate gate = {reinterpret_cast<const float2*>(in.dt_bias + head * GDN_K)[pair],
                     -LOG2_E * exp2_fast(LOG2_E * in.A_log[head]), LOG2_E * in.lower_bound};
  const int tokens = span.tokens - group * OWN;
  const long long token = span.begin + group * OWN, first = (token * GDN_H + head) * GDN_K + 2 * pair;
  Raw raw;
  Decayed rows;
  raw.load(in.k + first, in.q + first, in.g + first, tokens);
  wait_for_block_stores();
  __syncthreads();
  load_tile<GDN_V / 8, THREADS>(shared_address(memory.values), in.v + (span.begin * GDN_H + head) * GDN_V,
                                GDN_H * GDN_V, span.tokens, thread, banded<CHUNK>);
  if (warp % 2 == 0 && lane < OWN)
    memory.beta[group * OWN + lane] =
        static_cast<int>(lane) < tokens ? sigmoid(__bfloat162float(in.b[(token + lane) * GDN_H + head])) : 0.f;
  const Norms norms = take_norms(memory, raw, in.scale, group, warp % 2, lane);
  if (warp == 0) clear_above(memory.products, lane);
  take_near(memory, rows, raw, gate, norms, warp, lane, early);
  __syncthreads();
  const auto kept = [&](int of) { return memory.kept[of][pair]; };
  const int half = (group ^ 2) & ~1, others = (group ^ 4) & ~3;
  float2 before = make_float2(1.f, 1.f), after = before;  // is kept, in a larger group, and not by the warp's tokens
  const auto widen = [&](bool is_later, float2 by) { (is_later ? before : after) = times(is_later ? before : after, by); };
  widen(group & 1, kept(group ^ 1));
  store_parts<16>(memory.later[0], memory.earlier, 0, rows, group & 2 ? before : after, group, pair);
  widen(group & 2, times(kept(half), kept(half + 1)));
  store_parts<32>(memory.later[1], memory.earlier, CHUNK / 2, rows, group & 4 ? before : after, group, pair);
  widen(group & 4, times(times(kept(others), kept(others + 1)), times(kept(others + 2), kept(others + 3))));
  __syncthreads();
  take_far(memory, warp, lane);
  if (group == OWNERS - 1) {
    float2 sum = memory.logs[0][pair];
#pragma unroll
    for (int i = 1; i < OWNERS; ++i) sum = plus(sum, memory.logs[i][pair]);
    reinterpret_cast<float2*>(memory.whole)[pair] = exp2_of(sum);
  }
  __syncthreads();

#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    store_pair(memory.decayed, group * OWN + i, pair, times(rows.key[i], before));
    store_pair(memory.queries, group * OWN + i, pair, times(rows.query[i], before));
    store_pair(memory.keys, group * OWN + i, pair, times(rows.earlier[i], after));
  }
  invert_near(memory, warp, lane);
  wait_for_copies();
  if (warp < SIDE) solve_row(memory.solved, memory.coupling, memory.beta, warp, lane);
  if (warp == SIDE) clear_above(memory.solved, lane);
  __syncthreads();
  const bool is_of_values = warp >= KEY_TILES;
  const int tile = is_of_values ? warp - KEY_TILES : warp;
  Sum sums[TOKEN_PAIRS];
  Operand w[SIDE];
  solve(sums, is_of_values ? shared_address(memory.values) : shared_address(memory.decayed), memory.solved, tile, lane);
  if (is_of_values)
    narrow_tokens(w, sums);
  else
    store_columns(memory.y, sums, tile, lane);
  __syncthreads();
  if (is_of_values) {
#pragma unroll
    for (int i = 0; i < SIDE; ++i) memory.w[tile][i][lane] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
  }
  late();
  __syncthreads();
}

}  // namespace kda
