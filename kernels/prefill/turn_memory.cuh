// What the warpgroups of a block that takes turns (turns.cuh) share, for 64 rows of the state or for 128. Places in
// shared memory are taken by all chunks of a block in turn, so each chunk has a number in its block, beside that in its
// sequence.
#pragma once
namespace gdn {

// In this namespace in place of the one that fused_memory.cuh declares outside.
constexpr int GROUPS = HALVES == 2 ? 1 : 2;

}  // namespace gdn

#include "fused.cuh"

namespace gdn {

constexpr int PREPARING_GROUPS = HALVES == 2 ? PREPARERS : 1;  // which take chunks in turns
constexpr int PARTS = GDN_V / ROWS;                            // blocks that share a head's rows
constexpr int BLOCK_GROUPS = GROUPS + 1 + PREPARING_GROUPS;    // one is for outputs

// Registers a thread, of what the launch has: for those that carry the state, write outputs, and prepare.
constexpr int CARRYING_REGISTERS = PREPARING_GROUPS == 2 ? 184 : 160;
constexpr int SHOWING_REGISTERS = PREPARING_GROUPS == 1 ? 120 : PREPARING_GROUPS == 2 ? 136 : 80;
constexpr int PREPARING_REGISTERS = PREPARING_GROUPS == 1 ? 72 : PREPARING_GROUPS == 2 ? 96 : 80;
constexpr int LAUNCHED_REGISTERS = BLOCK_GROUPS == 4 ? 128 : 96;
static_assert(GROUPS * CARRYING_REGISTERS + SHOWING_REGISTERS + PREPARING_GROUPS * PREPARING_REGISTERS <=
                  BLOCK_GROUPS * LAUNCHED_REGISTERS,
              "what some take, others give");
// Outputs take the queries twice: where there are registers for them, they come from shared memory once.
constexpr bool HOLDS_QUERIES = PREPARING_GROUPS == 2;

// Chunks for which keys and gates are there when one is prepared, and places for chunks and for inverses. With fewer,
// chunks that are prepared at once would wait for the state.
constexpr int AHEAD = PREPARING_GROUPS == 3 ? 3 : 2;
constexpr int CHUNK_PLACES = GROUPS == 1 ? 5 : 4, SOLVED_PLACES = GROUPS == 1 ? 3 : 2;
using ChunkPlaces = Ring<CHUNK_PLACES>;
using Solved = Ring<SOLVED_PLACES>;

// Barriers of the block by number, beside those of fused_memory.cuh: of further warpgroups that prepare.
constexpr int SECOND_PREPARING = 4, THIRD_PREPARING = 5;

constexpr int TRIANGLES = PREPARING_GROUPS == 1 ? 2 : PREPARING_GROUPS;  // one for each, or for one's chunks in turn

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

// Where a block is in its work, by chunks of the turns before.
struct Count {
  int chunks, shown;
};

// Shared memory of a block.
struct TurnMemory {
  alignas(1024) Rows keys[CHUNK_PLACES];
  Queries queries[QUERY_STAGES];
  Handed<GDN_K> begun;                           // S at a chunk's beginning
  Handed<CHUNK> written;                         // U^T
  alignas(1024) Triangle solved[SOLVED_PLACES];  // (I + A)^-1 diag(beta)
  alignas(1024) __nv_bfloat16 values[VALUE_STAGES][CHUNK * ROWS];
  ChunkGates gates[CHUNK_PLACES];
  RawGates raw_gates[PREPARING_GROUPS][2];
  TriangleTiles triangles[TRIANGLES];
  DiagonalBlocks diagonals[PREPARING_GROUPS][SIDE];
  float decays[BLOCK_GROUPS * GROUP_WARPS];
  Start start;  // of the first turn
  // Of a chunk: its keys are copied; they are fit for products, and the gates known; its inverse is, too; done with.
  Barrier keys_there[CHUNK_PLACES], ready[CHUNK_PLACES], inverse_there[CHUNK_PLACES], done[CHUNK_PLACES];
  Barrier values_there[VALUE_STAGES], queries_there[QUERY_STAGES];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < CHUNK_PLACES; ++i) {
      gdn::initialise(keys_there[i], 1);
      gdn::initialise(ready[i], GROUP_WARPS);
      gdn::initialise(inverse_there[i], GROUP_WARPS);
      gdn::initialise(done[i], STATE_WARPS + GROUP_WARPS);
    }
    for (Barrier& barrier : values_there) gdn::initialise(barrier, 1);
    for (Barrier& barrier : queries_there) gdn::initialise(barrier, 1);
    begun.initialise();
    written.initialise();
    fence_async_proxy();
  }
  __device__ __forceinline__ void wait_until_ready(int number) {
    wait(ready[ChunkPlaces::place(number)], ChunkPlaces::parity(number));
  }
  __device__ __forceinline__ void wait_until_done(int number) {
    if (number >= 0) wait(done[ChunkPlaces::place(number)], ChunkPlaces::parity(number));
  }
};

// By one thread, where `is_one`: the block's rows of a chunk's values, as `bring` does with whole heads.
__device__ __forceinline__ void bring_values(TurnMemory& memory, const HeadRows& v, const Walk& walk, int chunk,
                                             int number, bool is_one) {
  __nv_bfloat16(&to)[CHUNK * ROWS] = memory.values[ValueRing::place(number)];
  Barrier& there = memory.values_there[ValueRing::place(number)];
  if constexpr (ROWS == GDN_V) {
    bring(to, v, walk, chunk, there, is_one);
  } else {
    static_assert(ROWS == BAND || ROWS == GDN_V, "a box has as many columns");
    asm volatile(
        "{ .reg .pred one; setp.ne.b32 one, %6, 0;\n"
        "@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%5], %7;\n"
        "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];}" ::"r"(shared_address(to)),
        "l"(v.map), "r"(v.column), "r"(v.head), "r"(v.token + chunk * CHUNK), "r"(shared_address(&there)),
        "r"(static_cast<int>(is_one && chunk < walk.chunks)), "n"(static_cast<int>(sizeof(to)))
        : "memory");
  }
}

}  // namespace gdn
