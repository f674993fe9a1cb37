// Long sequences in segments, each taken by blocks of its own.
//
// The state at a segment's beginning is had by going back to where it no longer matters: once the chunks from there on
// have let a state decay to FORGOTTEN of what it was, it may as well have been zero. Heads that forget fast, as most
// do, go back a chunk or two; one that does not goes back to the sequence's beginning, and is no faster than without
// segments.
#pragma once
#include "chunks.cuh"

namespace gdn {

// The unit roundoff of fp32, in which states are kept.
constexpr int FORGOTTEN_BITS = 24;
constexpr float FORGOTTEN = 1.f / (1ull << FORGOTTEN_BITS);

// Chunks in a segment that is not its sequence's last, if all sequences have so many chunks together.
__host__ __device__ constexpr int segment_chunks(int chunks, int segments) {
  return (chunks + segments - 1) / segments;
}

// Where a segment lies.
struct Segment {
  int sequence;
  int chunks_before;  // of all sequences before its own
  int first;          // its first chunk, numbered within its sequence
};

// Segments are numbered through all sequences; one without tokens has one, too.
__device__ __forceinline__ Segment find_segment(const long long* cu_seqlens, int sequences, int segment, int size,
                                                unsigned lane) {
  int chunks_before = 0;
  for (int first = 0;; first += WARP) {
    const int sequence = min(first + static_cast<int>(lane), sequences);
    const int chunks = chunks_of(cu_seqlens[sequence], cu_seqlens[min(sequence + 1, sequences)]);
    const int own = sequence < sequences ? max((chunks + size - 1) / size, 1) : 0;
    const int through = sum_to_here(own, lane), chunks_through = sum_to_here(chunks, lane);
    const unsigned beyond = __ballot_sync(ALL_LANES, through > segment);
    if (beyond != 0) {
      const int found = __ffs(beyond) - 1;
      return {first + found, chunks_before + __shfl_sync(ALL_LANES, chunks_through - chunks, found),
              (segment - __shfl_sync(ALL_LANES, through - own, found)) * size};
    }
    segment -= __shfl_sync(ALL_LANES, through, WARP - 1);
    chunks_before += __shfl_sync(ALL_LANES, chunks_through, WARP - 1);
  }
}

// How many chunks before `first` matter to it, of a sequence and value head; `prepared` is of the sequence's first
// chunk.
__device__ __forceinline__ int chunks_that_matter(const Prepared* prepared, int first, unsigned lane) {
  float kept = 1.f;
  for (int back = 0; back < first; back += WARP) {
    const int chunk = first - 1 - back - static_cast<int>(lane);
    float product = chunk >= 0 ? prepared[static_cast<size_t>(chunk) * GDN_HV].since[CHUNK - 1] : 1.f;
#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
      const float other = __shfl_up_sync(ALL_LANES, product, distance);
      if (lane >= distance) product *= other;
    }
    const unsigned forgotten = __ballot_sync(ALL_LANES, kept * product < FORGOTTEN);
    if (forgotten != 0) return min(back + __ffs(forgotten), first);
    kept *= __shfl_sync(ALL_LANES, product, WARP - 1);
  }
  return first;
}

}  // namespace gdn
