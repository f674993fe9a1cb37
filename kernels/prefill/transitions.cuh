// Transitions of segments (composition.cuh), each by two blocks: one takes zeros through the segment's chunks, which
// gives B, and one the unit matrix with values of zero, which gives M. The state before a sequence's first segment is
// known: B begins with that, and M is not needed.
//
// Of the four warpgroups of fused.cuh none writes outputs. Two prepare chunks instead, in turns: the chain would wait
// for one alone.
#pragma once
#include "composition.cuh"

namespace gdn {

constexpr int PREPARERS = 2;

// Shared memory of a block, as the functions of fused.cuh know it.
struct TransitionMemory {
  static constexpr bool SHOWS = false;
  static constexpr int SOLVED_STAGES = 4;  // a warpgroup has two of its own
  // In place of what is handed on to the warpgroup of the outputs: nothing ever is.
  struct Unused {
    __nv_bfloat16 rows[1];
    Barrier there, free;
  };
  alignas(1024) Rows keys[KEY_STAGES];
  alignas(1024) Triangle solved[SOLVED_STAGES];
  __nv_bfloat16 values[VALUE_STAGES][CHUNK * ROWS];
  alignas(1024) unsigned short rest[GDN_K * GDN_K];  // of M, on its way to global memory
  ChunkGates gates[KEY_STAGES];
  RawGates raw_gates[PREPARERS][2];
  TriangleTiles triangles[PREPARERS][2];
  DiagonalBlocks diagonals[PREPARERS][SIDE];
  float decays[2][FUSED_THREADS / WARP], greatest[STATE_WARPS];
  ChunkBarriers barriers;
  Unused begun, written;

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    barriers.initialise(STATE_WARPS);
    for (Unused* unused : {&begun, &written}) gdn::initialise(unused->free, 1);
    fence_async_proxy();
  }
};

// log2 of what a head's states decay by over each of two segments of `size` chunks, of which the second may not be
// there: then it forgets. By a block; `a` is of the first one's first token. A segment gives the same number as the
// first and as the second one, for all blocks decide by it alike.
__device__ __forceinline__ void sum_segments(float (&decays)[2], TransitionMemory& memory, const __nv_bfloat16* a,
                                             float rate, float dt_bias, int size, bool has_second, int warp,
                                             unsigned lane) {
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    float sum = 0.f;
    if (i == 0 || has_second) {
      const __nv_bfloat16* const from = a + static_cast<long long>(i) * size * (CHUNK * GDN_HV);
#pragma unroll 8
      for (int token = threadIdx.x; token < size * CHUNK; token += FUSED_THREADS)
        sum -= softplus(__bfloat162float(from[static_cast<long long>(token) * GDN_HV]) + dt_bias);
    }
    sum = group_sum<WARP>(sum);
    if (lane == 0) memory.decays[i][warp] = LOG2_E * rate * sum;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    decays[i] = 0.f;
    for (const float part : memory.decays[i]) decays[i] += part;
  }
  if (!has_second) decays[1] = -2.f * FORGOTTEN_BITS;
}

// A warp's rows of the unit matrix.
__device__ __forceinline__ void begin_unit(State& s, int warp, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      s[n][i] = warp * TILE + static_cast<int>(lane / 4) + i / 2 * 8 == n * 8 + static_cast<int>(lane % 4) * 2 + i % 2;
}

__device__ __forceinline__ void store_added(Transition& to, const State& s, int warp, unsigned lane) {
  float4* const quads = reinterpret_cast<float4*>(to.added + warp * (TILE * GDN_K));
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n) quads[n * WARP + lane] = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
}

// M as its diagonal and what is left. By the warps that carry the state.
__device__ __forceinline__ void store_multiplied(Transition& to, TransitionMemory& memory, State& s, int warp,
                                                 unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp * TILE + static_cast<int>(lane / 4) + i / 2 * 8;
      if (row == n * 8 + static_cast<int>(lane % 4) * 2 + i % 2) {
        to.diagonal.numbers[row] = s[n][i];
        s[n][i] = 0.f;
      }
    }
  float rows[2];
  find_greatest(rows, s);
  float greatest = fmaxf(rows[0], rows[1]);
#pragma unroll
  for (int distance = 4; distance < WARP; distance *= 2)
    greatest = fmaxf(greatest, __shfl_xor_sync(ALL_LANES, greatest, distance));
  if (lane == 0) memory.greatest[warp] = greatest;
  synchronise<CARRYING>();
  for (const float of_warp : memory.greatest) greatest = fmaxf(greatest, of_warp);
  const PowerOfTwo power(greatest);
  Operand narrowed[KEY_TILES];
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = &s[2 * k + i / 2][i % 2 * 2];
      narrowed[k][i] = pack_fp16(power.to * pair[0], power.to * pair[1]);
    }
  store_rows<GDN_K>(shared_address(memory.rest), narrowed, warp, lane);
  fence_async_proxy();
  synchronise<CARRYING>();
  if (warp == 0 && lane < 4) to.diagonal.unit[lane] = power.from;
  store_block<STATE_WARPS * WARP>(&to.rest, &memory.rest, sizeof(memory.rest));
  wait_for_block_stores();
}

// A block: B, from `from.state`, or M, of the chunks of a walk. Its memory is initialised. Null for what is not kept.
__device__ __forceinline__ void find_transition(TransitionMemory& memory, const Place& from, const Walk& walk,
                                                bool is_added, Transition* to, KnownChunk* known, int warp,
                                                unsigned lane) {
  if (warp < STATE_WARPS) {
    take_registers<160>();
    const Walk values = {walk.chunks, walk.silent, is_added ? walk.tokens : 0};  // of M, zeros
    State s = {};
    bring_values(memory, from.v, 0, values, warp, lane);
    if (!is_added) begin_unit(s, warp, lane);
    if (from.state != nullptr) load_state(s, from.state + static_cast<size_t>(warp * TILE) * GDN_K, lane);
    carry_state(s, memory, from.v, values, warp, lane);
    if (to == nullptr) return;
    if (is_added)
      store_added(*to, s, warp, lane);
    else
      store_multiplied(*to, memory, s, warp, lane);
  } else {
    give_registers<96>();
    const int group = warp / GROUP_WARPS - GROUPS;
    prepare_chunks<PREPARERS>(memory, from, walk, group, warp % GROUP_WARPS, lane, known);
  }
}

}  // namespace gdn
