// What the warpgroups of a block that does all there is to do for its chunks share: where its tensors lie, its shared
// memory, and copies into that.
#pragma once
constexpr int GROUPS = 2;  // of the warpgroups that carry the state

#include <gdn/tensor_map.cuh>

#include "inverse.cuh"

namespace gdn {

constexpr int FUSED_THREADS = 4 * GROUP;

// Where the rows of a head lie in a tensor [tokens, heads, 128]: from the block's first chunk's first token on.
struct HeadRows {
  const TensorMap* map;  // with boxes of the CHUNK tokens of a head, BAND elements wide
  int token, head, column;
};
constexpr int BAND = BAND_BYTES / 2;

// Where a block's chunks and their tensors lie: all of the first chunk's first token, and of the key or value head, or
// its row.
struct Place {
  HeadRows q, k, v;
  const __nv_bfloat16 *a, *b;
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

// With half of the state in a block, two warpgroups prepare chunks: with a place less these would wait for the state.
constexpr int KEY_STAGES = GROUPS == 1 ? 5 : 4, VALUE_STAGES = 2, QUERY_STAGES = 2;
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
      gdn::initialise(keys_there[i], 1);
      gdn::initialise(ready[i], GROUP_WARPS);
      gdn::initialise(inverse_there[i], GROUP_WARPS);
      gdn::initialise(done[i], warps);
    }
    for (Barrier& barrier : values_there) gdn::initialise(barrier, 1);
  }
  __device__ __forceinline__ void wait_until_ready(int chunk) {
    wait(ready[KeyRing::place(chunk)], KeyRing::parity(chunk));
  }
  __device__ __forceinline__ void wait_until_done(int chunk) {
    if (chunk >= 0) wait(done[KeyRing::place(chunk)], KeyRing::parity(chunk));
  }
};

// How many chunks a block has had before those of a walk, and how many with outputs: chunks take places in turn by their
// number in the block.
struct Count {
  int chunks, shown;
};

// Of a warpgroup that prepares: the next chunk's may be begun before all warps are done with the last one's, if there is
// no barrier in between.
template <int Preparers>
using OwnTriangles = TriangleTiles[2 / Preparers];

// Shared memory of a block, of whose warpgroups so many prepare chunks.
template <int Preparers>
struct BlockMemory {
  static constexpr bool SHOWS = true;         // writes outputs
  static constexpr bool TAKES_TURNS = false;  // goes from one walk to the next
  static constexpr int SOLVED_STAGES = 3;
  alignas(1024) Rows keys[KEY_STAGES];
  Queries queries[QUERY_STAGES];
  Handed<GDN_K> begun;                           // S at a chunk's beginning
  Handed<CHUNK> written;                         // U^T
  alignas(1024) Triangle solved[SOLVED_STAGES];  // (I + A)^-1 diag(beta)
  alignas(1024) __nv_bfloat16 values[VALUE_STAGES][CHUNK * ROWS];
  ChunkGates gates[KEY_STAGES];
  RawGates raw_gates[Preparers][2];
  OwnTriangles<Preparers> triangles[Preparers];
  DiagonalBlocks diagonals[Preparers][SIDE];
  float decays[FUSED_THREADS / WARP];
  ChunkBarriers barriers;
  Barrier queries_there[QUERY_STAGES];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    barriers.initialise(STATE_WARPS + GROUP_WARPS);
    for (Barrier& barrier : queries_there) gdn::initialise(barrier, 1);
    begun.initialise();
    written.initialise();
    fence_async_proxy();
  }
};

using FusedMemory = BlockMemory<1>;

// Barriers of the block by number, of which __syncthreads has 0: of the warps that prepare, that work out the outputs,
// that carry the state, and of a second warpgroup that prepares.
constexpr int PREPARING = 1, SHOWING = 2, CARRYING = 3, SECOND_PREPARING = 4;

template <int Number>
__device__ __forceinline__ void synchronise() {
  asm volatile("bar.sync %0, %1;" ::"n"(Number), "n"(Number == CARRYING ? STATE_WARPS * WARP : GROUP) : "memory");
}

// By one thread, where `is_one`: a chunk's rows. Those of the next sequence come, too, if the chunk is its sequence's
// last. A chunk that is not there is not brought. Without a branch, so that it goes between products.
__device__ __forceinline__ void bring(void* to, const HeadRows& from, const Walk& walk, int chunk, Barrier& there,
                                      bool is_one) {
  asm volatile(
      "{ .reg .pred one; setp.ne.b32 one, %7, 0;\n"
      "@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%6], %8;\n"
      "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%2, {%3, %4, %5}], [%6];\n"
      "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2, {%9, %4, %5}], [%6];"
      "}" ::"r"(shared_address(to)),
      "r"(shared_address(to) + CHUNK * BAND_BYTES), "l"(from.map), "r"(from.column), "r"(from.head),
      "r"(from.token + chunk * CHUNK), "r"(shared_address(&there)),
      "r"(static_cast<int>(is_one && chunk < walk.chunks)), "n"(static_cast<int>(sizeof(Rows))),
      "r"(from.column + BAND)
      : "memory");
}

// Tokens of a chunk that are of its sequence: fewer than CHUNK in the last one alone.
__device__ __forceinline__ int own_tokens(const Walk& walk, int chunk) { return walk.tokens - chunk * CHUNK; }

// By a warpgroup's warp: zeros in the place of keys of another sequence, before any product takes them.
__device__ __forceinline__ void clear_rows(Rows& rows, int from, int warp, unsigned lane) {
  for (int row = warp; row < CHUNK; row += GROUP_WARPS)
    if (row >= from && lane < KEY_PIECES)
      *reinterpret_cast<uint4*>(reinterpret_cast<char*>(rows) + banded<CHUNK>(row, lane)) = make_uint4(0, 0, 0, 0);
  fence_async_proxy();
}

// And zeros in the place of their values, as operands.
__device__ __forceinline__ void clear_tokens(Operand (&values)[SIDE], int from, unsigned lane) {
#pragma unroll
  for (int tile = 0; tile < SIDE; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = tile * TILE + i / 2 * 8 + static_cast<int>(lane % 4) * 2;
      values[tile][i] &= (token < from ? 0xffffu : 0u) | (token + 1 < from ? 0xffff0000u : 0u);
    }
}

}  // namespace gdn
