// A prompt in one launch whose blocks take turns: each goes from sequence to sequence and from head to head, and its
// warpgroups need not be at the same one. Those that prepare chunks begin with the next while the state is still on its
// way through the last.
//
// The work is that of fused.cuh for half of the state's rows: one warpgroup carries these instead of two, and in place of
// the other one a second prepares. Each chunk of a sequence is prepared by the blocks of both halves, but twice as soon.
#pragma once
namespace gdn {

// In this namespace in place of the one that fused_memory.cuh declares outside.
constexpr int GROUPS = 1;

}  // namespace gdn

#include "spans.cuh"

namespace gdn {

constexpr int PREPARERS = 2, PARTS = GDN_V / ROWS;  // blocks that share a head's rows

// Where a turn begins, and how many chunks before it go through it, too: what it begins with is not known else.
struct Start {
  Segment segment;
  int silent;
};

// What a block does at a time: the chunks of a sequence, or of a segment, for its rows of a value head.
struct Turn {
  Place at;
  Walk walk;
  const float* next_state;  // what the turn after this one begins with; null if there is none
};

struct TurnMemory : BlockMemory<PREPARERS> {
  static constexpr bool TAKES_TURNS = true;
  Start start;  // of the first turn
};

// By a warpgroup: has memory bring a block's rows of a state near.
__device__ __forceinline__ void prefetch_state(const float* from, int warp, unsigned lane) {
  constexpr int LINE = 128 / sizeof(float);
  if (from == nullptr) return;
#pragma unroll
  for (int i = 0; i < ROWS * GDN_K / LINE / GROUP; ++i)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + ((i * GROUP_WARPS + warp) * WARP + lane) * LINE) : "memory");
}

// The turns of a block, by their numbers: from `first` on, `step` apart.
struct Turns {
  int first, end, step;
};

// Calls `take` with each turn, and where it begins; `find` gives a turn by its number.
template <class Find, class Take>
__device__ __forceinline__ void for_each(const Turns& turns, Find find, Take take) {
  Count before = {0, 0};
#pragma unroll 1
  for (int number = turns.first; number < turns.end; number += turns.step) {
    const Turn turn = find(number);
    take(turn, before);
    before.chunks += turn.walk.chunks;
    before.shown += turn.walk.chunks - turn.walk.silent;
  }
}

// A block, each of its warps for itself. Its memory is initialised.
template <class Find>
__device__ __forceinline__ void take_turns(TurnMemory& memory, const Turns& turns, Find find, float scale, int warp,
                                           unsigned lane) {
  if (warp < STATE_WARPS) {
    take_registers<184>();
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      const size_t rows = static_cast<size_t>(warp * TILE) * GDN_K;
      State s = {};
      bring_values(memory, turn.at.v, turn.walk, 0, before.chunks, warp == 0 && lane == 0);
      if (turn.at.state != nullptr) load_state(s, turn.at.state + rows, lane);
      carry_spans(s, memory, turn.at.v, turn.walk, before, warp, lane);
      if (turn.at.new_state != nullptr) store_state(turn.at.new_state + rows, s, lane);
    });
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    take_registers<136>();
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      prefetch_state(turn.next_state, warp - STATE_WARPS, lane);
      write_outputs(memory, turn.at, scale, turn.walk, before, warp - STATE_WARPS, lane);
    });
  } else {
    give_registers<96>();
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      prepare_chunks<PREPARERS>(memory, turn.at, turn.walk, before.chunks, warp / GROUP_WARPS - GROUPS - 1,
                                warp % GROUP_WARPS, lane);
    });
  }
}

}  // namespace gdn
