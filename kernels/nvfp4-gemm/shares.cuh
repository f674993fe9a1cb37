// Products of several tiles of 256 rows of B and up to 128 of A, all their steps in equal shares, one a block. A share
// begins and ends anywhere: what a block has of a tile that others have parts of, too, goes to memory, and the last of
// them to come adds the parts up in order, or another launch does.
//
// Each warp copies its rows of B, as they are, a few steps ahead into a ring of its own, across tiles. A, which an
// earlier launch has widened, comes in bulk copies that one thread makes.
#pragma once
#include <gdnbench/phases.cuh>

#include "step.cuh"
#include "widened.cuh"

GDNBENCH_PHASE_NAMES(begin, codes, rows, products, parts, finish);

namespace gemm {

constexpr int TILE = 256;                     // rows of B
constexpr int EACH = 4 / WARPGROUPS;          // times 64 of them that a warpgroup has, one after the other
constexpr int WARPS = 4 * WARPGROUPS, THREADS = WARPS * WARP;
constexpr int STAGE_BYTES = 2 * BAND_BYTES;
constexpr int SUMS = COLUMNS / 2;             // of a thread, of 64 rows of B
constexpr int FOURS = TILE * COLUMNS / 4;     // of a tile's sums

struct Memory {
  alignas(1024) char stages[STAGES][STAGE_BYTES];
  RightRows rows[WARPS][EACH][AHEAD];
  Barrier there[STAGES], free[STAGES];
  LeftTile left;  // from which steps of A come
  int is_last;    // of those who have a part of the tile
};

using Stages = Ring<STAGES>;
using Places = Ring<AHEAD>;
using Sums = float[EACH][SUMS];

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Steps of all tiles, one tile after the other: those of a block, cut where it falls, or at whole tiles. There may be
// fewer of either than blocks.
struct Share {
  int first, end;

  __device__ __forceinline__ Share(int tiles, int block, bool of_whole) {
    const int all = of_whole ? tiles : tiles * STEPS, blocks = min(BLOCKS, all), taken = min(block, blocks);
    const int size = of_whole ? STEPS : 1;
    first = static_cast<int>(static_cast<long long>(all) * taken / blocks) * size;
    end = static_cast<int>(static_cast<long long>(all) * min(taken + 1, blocks) / blocks) * size;
  }

  // The blocks that have a tile's first step, and its last.
  static __device__ __forceinline__ int first_of(int tiles, int tile) { return block_of(tiles, tile * STEPS); }
  static __device__ __forceinline__ int last_of(int tiles, int tile) { return block_of(tiles, (tile + 1) * STEPS - 1); }

 private:
  static __device__ __forceinline__ int block_of(int tiles, int step) {
    const int all = tiles * STEPS, blocks = min(BLOCKS, all);
    return static_cast<int>((static_cast<long long>(step + 1) * blocks - 1) / all);
  }
};

// What blocks leave of tiles that they have not all of. A tile's first part is the last thing that its block does, and
// the others are the first: two places of each block.
struct Parts {
  float4* sums;
  unsigned* arrived;  // parts of the tile whose first one a block has; none if another launch adds

  __device__ __forceinline__ float4* place(int block, bool is_first) const {
    return sums + static_cast<size_t>(2 * block + is_first) * FOURS + threadIdx.x;
  }
};

// By all threads: leaves a part of a tile.
__device__ __forceinline__ void leave_part(const Sums& sums, float4* to) {
#pragma unroll
  for (int each = 0; each < EACH; ++each)
#pragma unroll
    for (int i = 0; i < SUMS; i += 4)
      __stcg(to + (each * SUMS + i) / 4 * THREADS,
             make_float4(sums[each][i], sums[each][i + 1], sums[each][i + 2], sums[each][i + 3]));
}

// By all threads: leaves a part of a tile, and, where it is the last to come, finds the tile's sums.
__device__ __forceinline__ bool add_parts(Sums& sums, Memory& memory, const Parts& parts, int tiles, int tile) {
  const int own = blockIdx.x, first = Share::first_of(tiles, tile), last = Share::last_of(tiles, tile);
  leave_part(sums, parts.place(own, own == first));
  if (parts.arrived == nullptr) return false;  // another launch adds
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.is_last = atomicAdd(parts.arrived + first, 1u) == static_cast<unsigned>(last - first);
    __threadfence();
  }
  __syncthreads();
  if (!memory.is_last) return false;
  const bool are_two = last == first + 1;  // whose order is all the same
  if (!are_two)
#pragma unroll
    for (int each = 0; each < EACH; ++each)
#pragma unroll
      for (int i = 0; i < SUMS; ++i) sums[each][i] = 0;
#pragma unroll 1
  for (int block = first; block <= last; ++block) {
    if (are_two && block == own) continue;
    const float4* const from = parts.place(block, block == first);
#pragma unroll
    for (int each = 0; each < EACH; ++each)
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        if (i % 32 == 0) __syncwarp();  // no more loads at once than there are registers for
        const float4 more = __ldcg(from + (each * SUMS + i) / 4 * THREADS);
        sums[each][i] += more.x, sums[each][i + 1] += more.y, sums[each][i + 2] += more.z, sums[each][i + 3] += more.w;
      }
  }
  return true;
}

// The copies of a block's share. `Work` says how many `tiles` there are, `left(tile)`, a tile of A, and `right(sources,
// tile, step, warp, lane)`, where a lane copies its rows of B from.
template <typename Work>
struct Copies {
  Memory& memory;
  const Work& work;
  const Share share;
  const int warp, lane;
  RightSource sources[EACH];

  __device__ __forceinline__ Copies(Memory& memory, const Work& work, const Share& share, int warp, int lane)
      : memory(memory), work(work), share(share), warp(warp), lane(lane) {}

  // A step's rows of B, by its number in the share, if there is one: always a group of copies.
  __device__ __forceinline__ void copy(int number) {
    const int at = share.first + number;
    if (at < share.end) {
      if (number == 0 || at % STEPS == 0) work.right(sources, at / STEPS, at % STEPS, warp, lane);
#pragma unroll
      for (int each = 0; each < EACH; ++each) sources[each].copy(memory.rows[warp][each][Places::place(number)], lane);
    }
    commit_copies();
  }

  // By thread 0: a step of A, if there is one, when no product reads its stage any more.
  __device__ __forceinline__ void bring(int number) const {
    const int at = share.first + number;
    if (at >= share.end) return;
    if (number == 0 || at % STEPS == 0) memory.left = work.left(at / STEPS);
    const unsigned place = Stages::place(number), bytes = memory.left.rows * BAND;
    const unsigned to = shared_address(memory.stages[place]);
    const char* const from = memory.left.bands + static_cast<size_t>(at % STEPS) * 2 * bytes;
    if (number >= STAGES) wait(memory.free[place], Stages::parity(number - STAGES));
    arrive_expecting(memory.there[place], 2 * bytes);
    copy_bulk(to, from, bytes, memory.there[place]);
    copy_bulk(to + BAND_BYTES, from + bytes, bytes, memory.there[place]);
  }

  // Returns the low half of the descriptor of a stage, when it is there.
  __device__ __forceinline__ unsigned bands(int number) const {
    const unsigned stage = Stages::place(number);
    wait(memory.there[stage], Stages::parity(number));
    return low_half(shared_address(memory.stages[stage]));
  }

  __device__ __forceinline__ void free(int number) const {
    if (lane == 0) arrive(memory.free[Stages::place(number)]);
  }
};

// By all threads, first of all: barriers, and zeros for rows that tiles of A have not.
__device__ __forceinline__ void prepare(Memory& memory) {
  if (threadIdx.x == 0)
    for (int stage = 0; stage < STAGES; ++stage) {
      initialise(memory.there[stage], 1);
      initialise(memory.free[stage], WARPS);
    }
  for (int i = threadIdx.x; i < STAGES * STAGE_BYTES / PIECE; i += THREADS)
    reinterpret_cast<uint4*>(memory.stages)[i] = uint4{};
  fence_barriers();
  fence_async_proxy();
  __syncthreads();
}

// By all threads: the last steps of a tile, `at` being the first of them. Those of the first 64
// rows of a warpgroup come first, and while the others' run, `work.gate` takes the first's sums. Without a branch, and
// with registers of their own for what it makes of them: else ptxas serializes products.
template <typename Work>
__device__ __forceinline__ void multiply_tail(Sums& sums, unsigned (&operands)[2][8], Memory& memory, const Work& work,
                                              Copies<Work>& copies, int at) {
  constexpr int LAST = Work::TAIL_STEPS;
  static_assert(EACH == 2 && LAST < STAGES && LAST < AHEAD && LAST < STEPS);
  wait_for_copies<0>();
  __syncwarp();
  unsigned bands[LAST];
#pragma unroll
  for (int step = 0; step < LAST; ++step) bands[step] = copies.bands(at + step);
  const auto multiply = [&](int each, int step) {
    const RightWords words(memory.rows[copies.warp][each][Places::place(at + step)], copies.lane);
    multiply_step(sums[each], operands, words, bands[step], true, [] {});
  };
#pragma unroll
  for (int step = 0; step < LAST; ++step) multiply(0, step);
  float gates[SUMS];
#pragma unroll
  for (int step = 0; step < LAST; ++step) {
    multiply(1, step);
    if (step > 0) continue;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      asm volatile("mov.b32 %0, %1;" : "=f"(gates[i]) : "f"(sums[0][i]));  // which are complete here, and not before
      gates[i] = work.gate(gates[i]);
    }
  }
  wait_for_products<0>();
  keep_in_place(sums[1]);
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sums[0][i] = gates[i];
#pragma unroll
  for (int step = 0; step < LAST; ++step) {
    __syncwarp();
    copies.copy(at + step + AHEAD - 1);
    copies.free(at + step - 1);
    if (threadIdx.x == 0) copies.bring(at + step - 1 + STAGES);
  }
}

// By all threads of a block: its share. `work.gate` and then `work.finish` take the sums of each tile.
template <typename Work>
__device__ __forceinline__ void multiply_share(Memory& memory, const Work& work, const Parts& parts, int warp,
                                               int lane) {
  GDNBENCH_PHASES_BEGIN();
  constexpr bool OF_WHOLE = Work::TAIL_STEPS > 0;
  const Share share(work.tiles, blockIdx.x, OF_WHOLE);
  Copies<Work> copies(memory, work, share, warp, lane);
#pragma unroll 1
  for (int number = 0; number < AHEAD - 1; ++number) copies.copy(number);
  prepare(memory);
  if (threadIdx.x == 0) {
    wait_for_earlier();
    for (int number = 0; number < STAGES; ++number) copies.bring(number);
  }
  GDNBENCH_PHASE(begin);
  unsigned operands[2][8];
  Sums sums;
#pragma unroll 1
  for (int at = share.first; at < share.end;) {
    const int begin = at, end = min((at / STEPS + 1) * STEPS, share.end);
    const bool is_whole = OF_WHOLE || end - begin == STEPS;
#pragma unroll 1
    for (; at < end - Work::TAIL_STEPS; ++at) {
      const int number = at - share.first;
      wait_for_copies<AHEAD - 2>();
      __syncwarp();  // scales are there; and all have read what the next copies overwrite
      const auto& rows = memory.rows[warp];
      const RightWords words(rows[0][Places::place(number)], lane);
      copies.copy(number + AHEAD - 1);
      GDNBENCH_PHASE(codes);
      const unsigned bands = copies.bands(number);
      GDNBENCH_PHASE(rows);
      multiply_step(sums[0], operands, words, bands, at > begin, [&] {
        if (at > begin) copies.free(number - 1);
      });
      if (EACH > 1) {
        const RightWords more(rows[EACH - 1][Places::place(number)], lane);
        multiply_step(sums[EACH - 1], operands, more, bands, at > begin, [] {});
      }
      // The other warps are hardly behind: they have freed the last step's stage, or are about to.
      if (threadIdx.x == 0 && at > begin) copies.bring(number - 1 + STAGES);
      GDNBENCH_PHASE(products);
    }
    wait_for_products<0>();
#pragma unroll
    for (int each = 0; each < EACH; ++each) keep_in_place(sums[each]);
    if constexpr (OF_WHOLE) multiply_tail(sums, operands, memory, work, copies, at - share.first);
    at = end;
    copies.free(end - 1 - share.first);
    if (threadIdx.x == 0) copies.bring(end - 1 - share.first + STAGES);
    GDNBENCH_PHASE(products);
    const int tile = (end - 1) / STEPS;
    const bool is_found = is_whole || add_parts(sums, memory, parts, work.tiles, tile);
    GDNBENCH_PHASE(parts);
    if (!is_found) continue;
    if (!OF_WHOLE)
#pragma unroll
      for (float& sum : sums[0]) sum = work.gate(sum);
    work.finish(sums, tile, warp, lane);
    GDNBENCH_PHASE(finish);
  }
}

// Two numbers of C.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace gemm
