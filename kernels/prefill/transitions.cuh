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
  static constexpr bool SHOWS = false, TAKES_TURNS = false;
  static constexpr int SOLVED_STAGES = 4;  // a warpgroup has two of its own
  // In place of what is handed on to the warpgroup of the outputs: nothing ever is.
  struct Unused {
    __nv_bfloat16 rows[1];
    Barrier there, free;
  };
  alignas(1024) Rows keys[KEY_STAGES];
  alignas(1024) Triangle solved[SOLVED_STAGES];
  alignas(1024) __nv_bfloat16 values[VALUE_STAGES][CHUNK * ROWS];
  ChunkGates gates[KEY_STAGES];
  RawGates raw_gates[PREPARERS][2];
  OwnTriangles<PREPARERS> triangles[PREPARERS];
  DiagonalBlocks diagonals[PREPARERS][SIDE];
  float decays[FUSED_THREADS / WARP], greatest[STATE_WARPS];
  ChunkBarriers barriers;
  Unused begun, written;

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    barriers.initialise(STATE_WARPS);
    for (Unused* unused : {&begun, &written}) gdn::initialise(unused->free, 1);
    fence_async_proxy();
  }
};

// A warp's rows of the unit matrix.
__device__ __forceinline__ void begin_unit(State& s, int warp, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      s[n][i] = warp * TILE + static_cast<int>(lane / 4) + i / 2 * 8 == n * 8 + static_cast<int>(lane % 4) * 2 + i % 2;
}

__device__ __forceinline__ void store_added(Transition& to, const State& s, int warp, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n) to.added[warp][n][lane] = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
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
        to.on_diagonal(row) = s[n][i];
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
  if (warp == 0 && lane == 0) to.unit = make_float4(power.from, power.to, power.from, power.to);
  // A left operand's tiles, turned over, are those of a right one.
#pragma unroll
  for (int column = 0; column < KEY_TILES; ++column) {
    unsigned turned[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = &s[2 * column + i / 2][i % 2 * 2];
      turned[i] = transpose(pack_fp16(power.to * pair[0], power.to * pair[1]));
    }
    to.rest[column][warp][lane] = make_uint4(turned[0], turned[1], turned[2], turned[3]);
  }
}

// A block: B, from `from.state`, or M, of the chunks of a walk. Its memory is initialised.
__device__ __forceinline__ void find_transition(TransitionMemory& memory, const Place& from, const Walk& walk,
                                                bool is_added, Transition& to, int warp, unsigned lane) {
  if (warp < STATE_WARPS) {
    take_registers<160>();
    HeadRows values = from.v;
    if (!is_added) values.column = GDN_V;  // where there are none: zeros
    State s = {};
    bring_values(memory, values, 0, walk, warp, lane);
    if (!is_added) begin_unit(s, warp, lane);
    if (from.state != nullptr) load_state(s, from.state + static_cast<size_t>(warp * TILE) * GDN_K, lane);
    carry_state(s, memory, values, walk, warp, lane);
    if (is_added)
      store_added(to, s, warp, lane);
    else
      store_multiplied(to, memory, s, warp, lane);
  } else {
    give_registers<96>();
    const int group = warp / GROUP_WARPS - GROUPS;
    prepare_chunks<PREPARERS>(memory, from, walk, 0, group, warp % GROUP_WARPS, lane);
  }
}

}  // namespace gdn
