// Tokens of a head as two blocks of a cluster take them, 32 at a time, and their shared memory.
//
// Of the steps of 32 tokens each block prepares every second one, and copies what it has prepared into the other's shared memory.
// Both go over all steps.
#pragma once
#include <gdn/cluster.cuh>

#include "../steps.cuh"

namespace kda {

constexpr int PAIR = 2;                    // blocks of a cluster
constexpr int OWN_STAGES = 4, OTHERS = 2;  // steps in shared memory that the block prepares, and that come prepared
constexpr int STAGES = OWN_STAGES + OTHERS;
constexpr int VALUES = 4;                  // steps' values in shared memory, and outputs
constexpr int TRANSITION_BYTES = GDN_K * (GDN_K * 2 + 4);
constexpr int CORRECT_STAGES = 4;          // of 64 tokens whose outputs are corrected
constexpr int SQUARE_BYTES = TOKENS * 2;   // of a row of P

using Band = PreparedBand;

struct alignas(1024) Stage {
  Band bands[BANDS];
  Square solved;                         // T = diag(1 / |k|) (I + A)^-1 diag(beta), and beside it -T diag(1 / |k|)
  char products[TOKENS * SQUARE_BYTES];  // of queries and keys, P
};

// What else is prepared of a step.
struct alignas(16) Numbers {
  float first[GDN_K], rest[GDN_K];  // of what is kept of the first 16 tokens, G_m, and after them
  __nv_bfloat16 norms[TOKENS];      // scale / |q|
  alignas(8) int first_is_small[BANDS], rest_is_small[BANDS];  // of a band's channels any
};

// Values of a step, and in their places outputs.
struct alignas(1024) Values {
  char bands[BANDS][TOKENS * BAND_BYTES];
};

// Where a row's piece lies: of values, from where the first band's begin, or of P.
__device__ __forceinline__ constexpr int in_values(int row, int piece) {
  return piece / 8 * (TOKENS * BAND_BYTES) + banded<TOKENS>(row, piece % 8);
}
__device__ __forceinline__ constexpr int in_products(int row, int piece) {
  return row * SQUARE_BYTES + (piece ^ row / 2 % 4) * 16;
}

// A matrix in shared memory. In a cluster an address has its block's number above those bits that a descriptor takes.
__device__ __forceinline__ Matrix matrix_here(const void* from, unsigned to_next_band = 16) {
  return {shared_address(from) % (1u << 18) / 16 | to_next_band / 16 << 16};
}

// A step as one of the two blocks has it: its own ones are numbered from 0, and so are the other's.
struct Place {
  int number, stage;
  unsigned parity;  // of the phases of the stage's barriers
  bool is_own;

  __device__ __forceinline__ Place(int step, int rank) : number(step / PAIR), is_own(step % PAIR == rank) {
    stage = is_own ? number % OWN_STAGES : OWN_STAGES + number % OTHERS;
    parity = (is_own ? number / OWN_STAGES : number / OTHERS) % 2;
  }
};

// A range of a sequence's tokens and what becomes of it. All threads of a cluster's blocks know it.
struct Item {
  const float* state;       // [V, K] that it begins with; null for zeros
  float* new_state;         // where the last one goes, or null
  __nv_bfloat16* output;    // [T, H, V], of all tokens
  int head, begin, tokens;  // the first token by its number among all; not a token is one, too
  int silent;               // steps at first whose outputs nobody wants
  int place, next;          // of the states before it and after it in scratch memory, or none, -1
  bool is_behind;           // its state is not known: the first block begins with zeros, and the second one with I, without values

  __device__ __forceinline__ int steps() const { return (tokens + TOKENS - 1) / TOKENS; }
};

// What a cluster does.
struct Work {
  Item own;
  // Another cluster's segment, whose outputs it may add to, having nothing else to do, what the state before makes of it; with a place.
  Item other;
  bool is_helped;  // of a cluster whose segment that is: the other one does; or this one does
};

// What one of the two blocks carries of an item.
struct Share {
  int rank, carriers, first_tile;  // of 16 rows of the state
  bool is_transition;              // begins with I and writes no values: outputs and states are what a state is multiplied with

  __device__ __forceinline__ Share(const Item& item, int rank)
      : rank(rank),
        carriers(item.is_behind ? CARRIERS : CARRIERS / PAIR),
        first_tile(item.is_behind ? 0 : rank * (CARRIERS / PAIR)),
        is_transition(item.is_behind && rank == 1) {}
};

constexpr unsigned SENT_BYTES = sizeof(Stage) + sizeof(Numbers);  // of a step

struct FusedMemory {
  Stage stages[STAGES];
  Values values[VALUES];
  Numbers numbers[STAGES];
  Solving solving[PREPARERS];
  Barrier come[OWN_STAGES], full[STAGES];      // tokens, as they come; and prepared
  Barrier values_come[VALUES], empty[VALUES];  // and what is left of a step is read
  Barrier taken[OTHERS];                       // by the other block: what it was sent
  Barrier transition, corrected[CORRECT_STAGES];
  Work work;

  // By one thread of a block, whose cluster synchronises after it.
  __device__ __forceinline__ void initialise(int rank) {
    const Item& item = work.own;
    const Share share(item, rank);
    for (int i = 0; i < OWN_STAGES; ++i) gdn::initialise(come[i], 3 * BANDS);
    for (int i = 0; i < STAGES; ++i) gdn::initialise(full[i], i < OWN_STAGES ? GROUP_WARPS : 1);
    for (int i = 0; i < VALUES; ++i)
      gdn::initialise(values_come[i], share.carriers * BANDS / CARRIERS), gdn::initialise(empty[i], share.carriers);
    for (int i = 0; i < OTHERS; ++i) gdn::initialise(taken[i], 1);
    for (int i = 0; i < CORRECT_STAGES; ++i) gdn::initialise(corrected[i], 1);
    gdn::initialise(transition, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // also for the other block's copies
    fence_async_proxy();
    for (int i = 0; i < OTHERS; ++i)
      if (i * PAIR + 1 - rank < item.steps()) arrive_expecting(full[OWN_STAGES + i], SENT_BYTES);
    if (item.is_behind && rank == 0) arrive_expecting(transition, TRANSITION_BYTES);
  }
};

}  // namespace kda
