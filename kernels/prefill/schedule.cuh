// Which sequences a block takes, and in which order, so that all blocks are done at about the same time: the longest
// first, each by the team of blocks that has the least to do until then, which takes at most 4/3 of the shortest time
// (Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969). A team has a block for each value
// head and part of its rows. Each block works the schedule out for itself, from the lengths.
#pragma once
#include "chunks.cuh"

namespace gdn {

// With more sequences than that they are taken as they come.
constexpr int MOST_SCHEDULED = SCHEDULED;
// In quarters of a chunk's time: what a sequence takes whatever its length, and a chunk.
constexpr unsigned SEQUENCE_TIME = 3, CHUNK_TIME = 4;

// By length, then the first before the others.
struct SequenceKey {
  unsigned bits;

  static __device__ __forceinline__ SequenceKey of(int chunks, int sequence) {
    return {static_cast<unsigned>(min(chunks, 0xffff)) << 16 | (0xffff - sequence)};
  }
  __device__ __forceinline__ int sequence() const { return 0xffff - (bits & 0xffff); }
  __device__ __forceinline__ unsigned time() const { return bits / 0x10000 * CHUNK_TIME + SEQUENCE_TIME; }
};

struct Schedule {
  alignas(16) SequenceKey keys[MOST_SCHEDULED];  // of the sequences as they come; 0 behind the last one
  SequenceKey sorted[MOST_SCHEDULED];            // the longest first
  unsigned short own[MOST_SCHEDULED];            // the sequences of the block's team
  int count;                                     // of them
  int team, teams;

  // By all threads of a block, `threads` in all.
  __device__ __forceinline__ void plan(const long long* cu_seqlens, int sequences, int own_team, int all_teams,
                                       int thread, int threads) {
    const int scheduled = sequences <= MOST_SCHEDULED ? sequences : 0;
    for (int i = thread; i < (scheduled + 3) / 4 * 4; i += threads)
      keys[i] = i < scheduled ? SequenceKey::of(chunks_of(cu_seqlens[i], cu_seqlens[i + 1]), i) : SequenceKey{0};
    __syncthreads();
    for (int i = thread; i < scheduled; i += threads) sorted[rank(keys[i], scheduled)] = keys[i];
    __syncthreads();
    if (thread < WARP) assign(sequences, scheduled, own_team, all_teams, thread);
    __syncthreads();
  }

  // The block's sequence by its number among the block's own.
  __device__ __forceinline__ int sequence(int number, int sequences) const {
    return sequences <= MOST_SCHEDULED ? own[number] : team + number * teams;
  }

 private:
  // How many sequences are taken before one.
  __device__ __forceinline__ int rank(SequenceKey key, int sequences) const {
    int before = 0;
    for (int i = 0; i < sequences; i += 4) {
      const uint4 others = *reinterpret_cast<const uint4*>(&keys[i]);
      before += (others.x > key.bits) + (others.y > key.bits) + (others.z > key.bits) + (others.w > key.bits);
    }
    return before;
  }

  // By a warp, a lane for each team. The first sequences go to a team each.
  __device__ __forceinline__ void assign(int sequences, int scheduled, int own_team, int all_teams, int lane) {
    const int first = min(all_teams, scheduled);
    unsigned time = lane < first ? sorted[lane].time() : ~0u / (2 * WARP);  // more than any team's, with lanes' numbers
    int taken = scheduled > 0 ? own_team < first : max((sequences - own_team + all_teams - 1) / all_teams, 0);
    if (lane == own_team && lane < first) own[0] = static_cast<unsigned short>(sorted[lane].sequence());
#pragma unroll 4
    for (int i = first; i < scheduled; ++i) {
      const SequenceKey key = sorted[i];
      const int least = static_cast<int>(__reduce_min_sync(ALL_LANES, time * WARP + lane) % WARP);
      if (lane == least) time += key.time();
      if (least == own_team) {
        if (lane == 0) own[taken] = static_cast<unsigned short>(key.sequence());
        ++taken;
      }
    }
    if (lane == 0) count = taken, team = own_team, teams = all_teams;
  }
};

}  // namespace gdn
