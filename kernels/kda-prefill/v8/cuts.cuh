// How sequences are cut into segments that clusters take side by side, in steps of tokens. variant.py counts clusters by the same
// formulas.
//
// Where a head forgets, segments are alike, and each begins a few steps early with a state of zero. Where it remembers, the first
// segment is longer: what comes behind it is taken with values, from a state of zero, and without them, from the unit matrix.
// That tells what a segment makes of any state, and its outputs of any state (correct.cuh).
#pragma once
#include "memory.cuh"

namespace kda {

constexpr int CLUSTERS = BLOCKS / PAIR;

// A way to cut sequences: a first segment of so many steps, and others.
struct Cuts {
  int first, size;

  __device__ __forceinline__ Cuts(bool is_known, int size) : first(is_known ? (size * FIRST_PARTS + 15) / 16 : size), size(size) {}
  // Segments behind the first one of a sequence of so many steps, and the first step of one of them.
  __device__ __forceinline__ int count(int steps) const { return steps <= first ? 0 : (steps - first + size - 1) / size; }
  __device__ __forceinline__ int begin(int number) const { return number == 0 ? 0 : first + (number - 1) * size; }
};

__device__ __forceinline__ int steps_of(const long long* cu_seqlens, int sequence) {
  return (static_cast<int>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]) + TOKENS - 1) / TOKENS;
}

// By a warp: the smallest segments with which all clusters take all sequences in the time of a first one.
__device__ __forceinline__ Cuts find_cuts(const long long* cu_seqlens, int sequences, bool is_known, unsigned lane) {
  const int least_steps = is_known ? BEHIND : FEWEST;
  int most = least_steps;
  for (int i = lane; i < sequences; i += WARP) most = max(most, steps_of(cu_seqlens, i));
  most = __reduce_max_sync(ALL_LANES, most);
  if (sequences == 1) {
    const int segments = max(CLUSTERS / GDN_H, 1), parts = 16 * (segments - 1) + (is_known ? FIRST_PARTS : 16);
    return {is_known, segments == 1 ? most : max((16 * most + parts - 1) / parts, least_steps)};
  }
  int least = sequences * GDN_H < CLUSTERS ? least_steps : most;
  while (least < most) {
    const Cuts cuts(is_known, (least + most) / 2);
    int work = 0;
    for (int i = lane; i < sequences; i += WARP) {
      const int own = steps_of(cu_seqlens, i), count = cuts.count(own);
      work += count > 0 ? (1 + count) * cuts.first : own;
    }
    if (static_cast<int>(__reduce_add_sync(ALL_LANES, work)) * GDN_H <= CLUSTERS * cuts.first)
      most = cuts.size;
    else
      least = cuts.size + 1;
  }
  return {is_known, least};
}

// Both ways.
struct Plan {
  Cuts alike, known;

  __device__ __forceinline__ Plan(const long long* cu_seqlens, int sequences, unsigned lane)
      : alike(find_cuts(cu_seqlens, sequences, false, lane)), known(find_cuts(cu_seqlens, sequences, true, lane)) {}
  // Of a sequence of so many steps: segments behind the first one, where a head remembers, and of either way.
  __device__ __forceinline__ int behind(int steps) const { return alike.count(steps) > 0 ? known.count(steps) : 0; }
  __device__ __forceinline__ int most_behind(int steps) const { return max(alike.count(steps), behind(steps)); }
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

}  // namespace kda
