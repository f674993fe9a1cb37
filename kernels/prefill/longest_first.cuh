// Sequences by length, the longest first. Blocks begin in the order of their numbers, each as soon as an SM is free, so
// that all SMs are done at about the same time if the longest begin first: within 4/3 of the shortest time (Graham,
// Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969). Each block finds its own sequence.
#pragma once
#include "chunks.cuh"

namespace gdn {

// With more sequences than that they are taken as they come.
constexpr int MOST_SORTED = SORTED;

// Of each sequence, larger for a longer one, and of two as long as each other for the first; 0 behind the last one.
struct SequenceKeys {
  alignas(16) unsigned keys[MOST_SORTED];
  int found;

  // The sequence that comes at place `wanted`; by all threads of a block.
  __device__ __forceinline__ int find(const long long* cu_seqlens, int sequences, int wanted, int thread, int threads) {
    if (sequences > MOST_SORTED) return wanted;
    for (int i = thread; i < (sequences + 3) / 4 * 4; i += threads) {
      const long long begin = cu_seqlens[min(i, sequences)], end = cu_seqlens[min(i + 1, sequences)];
      const unsigned chunks = min(chunks_of(begin, end), 0xffff);
      keys[i] = i < sequences ? chunks << 16 | (0xffff - i) : 0;
    }
    __syncthreads();
    for (int i = thread; i < sequences; i += threads)
      if (place_of(keys[i], sequences) == wanted) found = i;
    __syncthreads();
    return found;
  }

 private:
  __device__ __forceinline__ int place_of(unsigned key, int sequences) const {
    int before = 0;
    for (int i = 0; i < sequences; i += 4) {
      const uint4 others = *reinterpret_cast<const uint4*>(&keys[i]);
      before += (others.x > key) + (others.y > key) + (others.z > key) + (others.w > key);
    }
    return before;
  }
};

}  // namespace gdn
