// What the warpgroups of a block that does all there is to do for its chunks share: where its tensors lie, its shared
// memory, and copies into that.
#pragma once
constexpr int GROUPS = 2;  // of the warpgroups that carry the state

#include "inverse.cuh"

namespace gdn {

constexpr int FUSED_THREADS = (GROUPS + 2) * GROUP;

// Where a block's chunks and their tensors lie: all of the first chunk's first token, and of the key or value head, or
// its row.
struct Place {
  const __nv_bfloat16 *q, *k, *v, *a, *b;
  const float* state;     // null for zeros
  __nv_bfloat16* output;  // of the first token that is not silent
  float* new_state;       // null if another block has the sequence's last chunk
  float rate, dt_bias;    // of the gates; exp(A_log)
};

// Places of chunks in shared memory, which are taken in turn; a place's phase is complete once in each lap.
template <int Places>
struct Ring {
  static __device__ __forceinline__ int place(int chunk) { return chunk % Places; }
  static __device__ __forceinline__ int parity(int chunk) { return chunk / Places % 2; }
};

constexpr int KEY_STAGES = 4, VALUE_STAGES = 2, QUERY_STAGES = 2;
using KeyRing = Ring<KEY_STAGES>;
using ValueRing = Ring<VALUE_STAGES>;
using QueryRing = Ring<QUERY_STAGES>;

// The queries of a chunk, and in their place its outputs: rows that begin in different banks, as whole rows are stored.
union Queries {
  alignas(1024) Rows rows;
  struct {
    alignas(16) __nv_bfloat16 row[ROWS + 8];
  } outputs[CHUNK];
};

// Of the chunks on their way. Of a chunk's keys: copied; fit for products, and the gates known; its inverse, too; done
// with.
struct ChunkBarriers {
  Barrier keys_there[KEY_STAGES], ready[KEY_STAGES], inverse_there[KEY_STAGES], done[KEY_STAGES];
  Barrier values_there[VALUE_STAGES];

  // By one thread of a block; `warps` are done with a chunk.
  __device__ __forceinline__ void initialise(int warps) {
    for (int i = 0; i < KEY_STAGES; ++i) {
      gdn::initialise(keys_there[i], GROUP);
      gdn::initialise(ready[i], GROUP_WARPS);
      gdn::initialise(inverse_there[i], GROUP_WARPS);
      gdn::initialise(done[i], warps);
    }
    for (Barrier& barrier : values_there) gdn::initialise(barrier, STATE_WARPS * WARP);
  }
  __device__ __forceinline__ void wait_until_ready(int chunk) {
    wait(ready[KeyRing::place(chunk)], KeyRing::parity(chunk));
  }
  __device__ __forceinline__ void wait_until_done(int chunk) {
    if (chunk >= 0) wait(done[KeyRing::place(chunk)], KeyRing::parity(chunk));
  }
};

// Shared memory of a block.
struct FusedMemory {
  static constexpr bool SHOWS = true;  // writes outputs
  static constexpr int SOLVED_STAGES = 3;
  alignas(1024) Rows keys[KEY_STAGES];
  Queries queries[QUERY_STAGES];
  Handed<GDN_K> begun;                           // S at a chunk's beginning
  Handed<CHUNK> written;                         // U^T
  alignas(1024) Triangle solved[SOLVED_STAGES];  // (I + A)^-1 diag(beta)
  __nv_bfloat16 values[VALUE_STAGES][CHUNK * ROWS];
  ChunkGates gates[KEY_STAGES];
  RawGates raw_gates[1][2];  // of each warpgroup that prepares
  TriangleTiles triangles[1][2];
  DiagonalBlocks diagonals[1][SIDE];
  float decays[FUSED_THREADS / WARP];
  ChunkBarriers barriers;
  Barrier queries_there[QUERY_STAGES];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    barriers.initialise(STATE_WARPS + GROUP_WARPS);
    for (Barrier& barrier : queries_there) gdn::initialise(barrier, GROUP);
    begun.initialise();
    written.initialise();
    fence_async_proxy();
  }
};

// Barriers of the block by number, of which __syncthreads has 0: of the warps that prepare, that work out the outputs,
// and that carry the state.
constexpr int PREPARING = 1, SHOWING = 2, CARRYING = 3;

template <int Number>
__device__ __forceinline__ void synchronise() {
  asm volatile("bar.sync %0, %1;" ::"n"(Number), "n"(Number == CARRYING ? STATE_WARPS * WARP : GROUP) : "memory");
}

// By Threads threads: a tile of the tensors' rows from the chunk's first token on; rows after the sequence's end become
// zeros, which write nothing. Without a branch, so that it goes between products.
template <int Pieces, int Threads = GROUP, class Place>
__device__ __forceinline__ void bring(void* to, const __nv_bfloat16* from, int stride, const Walk& walk, int chunk,
                                      Barrier& there, unsigned thread, Place place) {
  constexpr int STEP = Threads / Pieces;
  static_assert(STEP % 8 == 0, "places repeat after eight rows");
  const int column = thread % Pieces, row = thread / Pieces, first = chunk * CHUNK + row;
  const __nv_bfloat16* source = from + static_cast<long long>(first) * stride + column * 8;
  unsigned address = shared_address(to) + place(row, column);
  asm volatile("" : "+l"(source), "+r"(address));  // what is added from here on are constants, which copies take
#pragma unroll
  for (int i = 0; i < CHUNK; i += STEP)
    copy_async(address + (place(i, 0) - place(0, 0)), source + static_cast<long long>(i) * stride,
               first + i < walk.tokens);
  arrive_after_copies(there);
}

}  // namespace gdn
