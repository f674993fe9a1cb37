// Sequences cut into pieces, and how soon a head forgets in each: what becomes of a state there is known from the gates
// alone, before any product.
//
// All cuts but a sequence's last are numbered through all sequences: after the last one no state begins.
#pragma once
#include "fused_memory.cuh"

namespace gdn {

// Segments of a sequence: the second one of two may as well begin where the first does.
constexpr int FEWEST_COMPOSED = 3;

// How sequences are cut, in chunks: for outputs, and for transitions, of which a segment has CUTS.
struct Cutting {
  int chunks;  // of a transition

  explicit __device__ __forceinline__ Cutting(long long all)
      : chunks(segment_chunks(static_cast<int>(all), SEGMENTS * CUTS)) {}
  __device__ __forceinline__ int of_outputs() const { return CUTS * chunks; }
  // Numbered cuts of a sequence of so many chunks.
  __device__ __forceinline__ int count(int of_sequence) const { return max(of_sequence - 1, 0) / chunks; }
  // Whether states of a sequence of so many chunks are composed.
  __device__ __forceinline__ bool composes(int of_sequence) const {
    return of_sequence > (FEWEST_COMPOSED - 1) * of_outputs();
  }
  // Cuts of all sequences before a sequence, by a warp.
  __device__ __forceinline__ int count_before(const long long* cu_seqlens, int sequence, unsigned lane) const {
    int found = 0;
    for (int i = lane; i < sequence; i += WARP) found += count(chunks_of(cu_seqlens[i], cu_seqlens[i + 1]));
    return group_sum<WARP>(found);
  }
};

// Where a numbered cut lies: its place among those of its sequence.
struct CutPlace {
  int sequence, place;
};

// By a warp. A cut that is not there has no sequence either.
__device__ __forceinline__ CutPlace find_cut(const long long* cu_seqlens, int sequences, const Cutting& cutting, int cut,
                                             unsigned lane) {
  for (int first = 0; first < sequences; first += WARP) {
    const int sequence = min(first + static_cast<int>(lane), sequences);
    const int own = cutting.count(chunks_of(cu_seqlens[sequence], cu_seqlens[min(sequence + 1, sequences)]));
    const int through = sum_to_here(own, lane);
    const unsigned beyond = __ballot_sync(ALL_LANES, through > cut);
    if (beyond != 0) {
      const int found = __ffs(beyond) - 1;
      return {first + found, cut - __shfl_sync(ALL_LANES, through - own, found)};
    }
    cut -= __shfl_sync(ALL_LANES, through, WARP - 1);
  }
  return {-1, 0};
}

// What becomes of a head's state over a cut, as a number: that of the last chunks that matter after it, or KEPT.
constexpr int KEPT = 0;

// Whether the state after the cut is worked out beside the transitions; else the next segment's block goes through the
// chunks that matter itself.
__device__ __forceinline__ bool is_worked_out(int fate) { return fate == KEPT || fate > SILENT; }

// By a block; `a` is of the cut's first token and the head. A state that all chunks matter to counts as kept.
template <int Warps>
__device__ __forceinline__ int find_fate(float (&decays)[Warps], const __nv_bfloat16* a, float rate, float dt_bias,
                                         const Cutting& cutting, int warp, unsigned lane) {
  const int matter = chunks_that_matter(decays, a, rate, dt_bias, cutting.chunks, warp, lane);
  return matter == cutting.chunks ? KEPT : matter;
}

}  // namespace gdn
