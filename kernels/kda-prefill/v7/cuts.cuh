// How sequences are cut into segments that blocks take side by side, in steps of tokens. variant.py counts blocks by the same
// formulas.
//
// Where a head forgets, segments are alike, and each begins a few steps early with a state of zero. Where it remembers, the first
// segment is longer. What comes behind it is taken twice: with values, from a state of zero, and without them, from the unit
// matrix. That tells what a segment makes of any state, and its outputs of any state (correct.cuh).
#pragma once
#include "transition.cuh"

namespace kda {

// Segments behind the first one that all blocks can take twice meanwhile, of a sequence that is alone.
__host__ __device__ constexpr int segments_behind(int rounds) { return BLOCKS > GDN_H ? rounds * (BLOCKS - GDN_H) / (2 * GDN_H) : 0; }
constexpr int SECOND_STEPS = 8;  // steps in whose time a block begins anew and segments' states are composed

// A way to cut sequences: behind a first segment of so many others' length, or none, come these.
struct Cuts {
  int rounds, size;

  __device__ __forceinline__ int longest() const { return max(rounds, 1) * size; }  // what a block takes, in steps
  // Segments behind the first one of a sequence of so many steps; 0 if it is left whole.
  __device__ __forceinline__ int count(int steps) const {
    return steps <= longest() ? 0 : (steps - rounds * size + size - 1) / size;
  }
  // Of the segments numbered from 1 on behind the first one.
  __device__ __forceinline__ int begin(int number) const { return (rounds + number - 1) * size; }
  // What blocks take of a sequence that is cut, in segments.
  __device__ __forceinline__ int work(int count) const { return rounds > 0 ? rounds + 2 * count : count; }
};

__device__ __forceinline__ int steps_of(const long long* cu_seqlens, int sequence) {
  return (static_cast<int>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]) + TOKENS - 1) / TOKENS;
}

// By a warp: the smallest segments with which all blocks take all sequences in the time of the longest one.
__device__ __forceinline__ Cuts find_cuts(const long long* cu_seqlens, int sequences, int rounds, unsigned lane) {
  const int least_steps = rounds > 0 ? BEHIND : FEWEST;
  int most = least_steps;
  for (int i = lane; i < sequences; i += WARP) most = max(most, steps_of(cu_seqlens, i));
  most = __reduce_max_sync(ALL_LANES, most);
  if (sequences == 1 && GDN_H < BLOCKS) {
    const int segments = rounds > 0 ? rounds + segments_behind(rounds) : BLOCKS / GDN_H;
    return {rounds, max((most + segments - 1) / segments, least_steps)};
  }
  int least = sequences * GDN_H < BLOCKS ? least_steps : most;
  while (least < most) {
    const Cuts cuts = {rounds, (least + most) / 2};
    int work = 0;
    for (int i = lane; i < sequences; i += WARP) {
      const int own = steps_of(cu_seqlens, i), count = cuts.count(own);
      work += count > 0 ? cuts.work(count) * cuts.size : own;
    }
    if (static_cast<int>(__reduce_add_sync(ALL_LANES, work)) * GDN_H <= BLOCKS * cuts.longest())
      most = cuts.size;
    else
      least = cuts.size + 1;
  }
  return {rounds, least};
}

// The first one as long as one of the others, or as two, of which each block then takes as many one after the other: if that shortens
// the first one by more steps than a second block's begin and the states of more segments cost.
__device__ __forceinline__ Cuts find_known(const long long* cu_seqlens, int sequences, unsigned lane) {
  if (ROUNDS > 0) return find_cuts(cu_seqlens, sequences, ROUNDS, lane);
  const Cuts once = find_cuts(cu_seqlens, sequences, 1, lane), twice = find_cuts(cu_seqlens, sequences, 2, lane);
  return twice.longest() + SECOND_STEPS < once.longest() ? twice : once;
}

// Both ways.
struct Plan {
  Cuts alike, known;

  __device__ __forceinline__ Plan(const long long* cu_seqlens, int sequences, unsigned lane)
      : alike(find_cuts(cu_seqlens, sequences, 0, lane)), known(find_known(cu_seqlens, sequences, lane)) {}
  // Of a sequence of so many steps: segments behind the first one, where a head remembers; those that it has of either way; and
  // states in scratch memory, before each of these segments and after the last.
  __device__ __forceinline__ int behind(int steps) const { return alike.count(steps) > 0 ? known.count(steps) : 0; }
  __device__ __forceinline__ int items(int steps) const { return max(alike.count(steps), 1 + 2 * behind(steps)); }
  __device__ __forceinline__ int states(int steps) const { return behind(steps) > 0 ? behind(steps) + 1 : 0; }
};

// Of all sequences before one, by a warp.
template <class CountOf>
__device__ __forceinline__ int count_before(const long long* cu_seqlens, int sequence, unsigned lane, const CountOf& count_of) {
  int found = 0;
  for (int i = lane; i < sequence; i += WARP) found += count_of(steps_of(cu_seqlens, i));
  return __reduce_add_sync(ALL_LANES, found);
}

// Whose number it is, and which of its own, if each sequence has so many: `count_of` takes its number of steps.
struct Numbered {
  int sequence, number;  // what is not there has no sequence, -1
};

template <class CountOf>
__device__ __forceinline__ Numbered find_numbered(const long long* cu_seqlens, int sequences, int number, unsigned lane,
                                                  const CountOf& count_of) {
  for (int first = 0; first < sequences; first += WARP) {
    const int sequence = first + static_cast<int>(lane);
    const int own = sequence < sequences ? count_of(steps_of(cu_seqlens, sequence)) : 0;
    const int through = sum_to_here(own, lane);
    const unsigned beyond = __ballot_sync(ALL_LANES, through > number);
    if (beyond != 0) {
      const int found = __ffs(beyond) - 1;
      return {first + found, number - __shfl_sync(ALL_LANES, through - own, found)};
    }
    number -= __shfl_sync(ALL_LANES, through, WARP - 1);
  }
  return {-1, 0};
}

constexpr int HEAD_STATE = GDN_V * GDN_K;

// In scratch memory, for each of a sequence's states, by heads: the state that a segment leaves, the first one of what it is given,
// others of zero; what it leaves of the unit matrix, M; and how many warps have composed it. Of sequences and heads, whether they are
// cut as those that remember.
struct Scratch {
  float* states;
  Transition* transitions;
  int *remembers, *composed;
};

// Where a sequence's and head's first one lies.
__device__ __forceinline__ int first_place(const Plan& plan, const long long* cu_seqlens, int sequence, int head, unsigned lane) {
  return count_before(cu_seqlens, sequence, lane, [&](int steps) { return plan.states(steps); }) * GDN_H + head;
}

}  // namespace kda
