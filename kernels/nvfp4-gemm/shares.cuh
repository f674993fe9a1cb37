// Products of tiles, all their steps in shares of equal cost, one a block. What a block has of a tile that others have
// parts of, too, goes to memory, and the last of them to come adds the parts up in order, or another launch does.
//
// Each warp copies its rows of B, as they are, a few steps ahead into a ring of its own, across tiles. A, which an
// earlier launch has widened, comes in bulk copies that one thread makes.
#pragma once
#include <gdnbench/phases.cuh>

#include "narrow.cuh"
#include "parts.cuh"
#include "widened.cuh"

GDNBENCH_PHASE_NAMES(begin, tile);

namespace gemm {

constexpr int STAGE_BYTES = 2 * BAND_BYTES;
constexpr int TILES = 8;  // of a share that are told at once; copies are of two tiles more at most

// A tile, and the blocks that have its first steps and its last.
struct SharedTile : Tile {
  int first_block, last_block;
};

struct Memory {
  alignas(1024) char stages[STAGES][STAGE_BYTES];
  RightRows rows[WARPS][EACH][AHEAD];
  Barrier there[STAGES], free[STAGES];
  SharedTile tiles[TILES];
  int is_last;  // of those who have a part of the tile
};

using Stages = Ring<STAGES>;
using Places = Ring<AHEAD>;

template <int Number>
struct Columns {};

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The copies of a block's share. `Work` is the tiles, as `Share` takes them, and says `tile(number)`, where A is
// `widened`, and `right(sources, tile, step, warp, lane)`, where a lane copies its rows of B from.
template <typename Work>
struct Copies {
  Memory& memory;
  const Work& work;
  int warp, lane;
  int first, end;  // of the share's steps
  RightSource sources[EACH];

  __device__ __forceinline__ Copies(Memory& memory, const Work& work, int warp, int lane)
      : memory(memory), work(work), warp(warp), lane(lane) {
    const Share share(work, blockIdx.x);
    first = share.first, end = share.end;
    const int number = first / STEPS + static_cast<int>(threadIdx.x);
    if (threadIdx.x < TILES && number * STEPS < end) tell(share, number);
  }

  // The tile of a step, by its number among all.
  __device__ __forceinline__ const SharedTile& tile_of(int at) const { return memory.tiles[at / STEPS % TILES]; }

  // By a thread.
  __device__ __forceinline__ void tell(const Share& share, int number) const {
    const Tile tile = work.tile(number);
    memory.tiles[number % TILES] = {tile, share.first_of(tile), share.last_of(tile)};
  }

  // By all threads: tells the tile before a step no more, but one that is further on.
  __device__ __forceinline__ void go_on(int at) const {
    const int number = at / STEPS - 1 + TILES;
    if ((end - 1) / STEPS - first / STEPS < TILES) return;
    __syncthreads();
    if (threadIdx.x == 0 && number * STEPS < end) tell(Share(work, blockIdx.x), number);
  }

  // A step's rows of B, by its number in the share, if there is one: always a group of copies. Of most steps it is
  // known from where they stand that they begin no tile.
  __device__ __forceinline__ void copy(int number, int place, bool may_begin) {
    const int at = first + number;
    if (at < end) {
      if (may_begin && (number == 0 || at % STEPS == 0)) work.right(sources, tile_of(at), at % STEPS, warp, lane);
#pragma unroll
      for (int each = 0; each < EACH; ++each) sources[each].copy(memory.rows[warp][each][place], lane);
    }
    commit_copies();
  }

  __device__ __forceinline__ void copy(int number) { copy(number, Places::place(number), true); }

  // By thread 0: a step of A, if there is one, when no product reads its stage any more.
  __device__ __forceinline__ void bring(int number) const { bring(number, Stages::place(number)); }

  __device__ __forceinline__ void bring(int number, unsigned place) const {
    const int at = first + number;
    if (at >= end) return;
    const Tile& tile = tile_of(at);
    const unsigned bytes = tile.rows * BAND;
    const unsigned to = shared_address(memory.stages[place]);
    const char* const from = left_tile(work.widened, tile.first_row, tile.rows).bands + at % STEPS * 2 * bytes;
    if (number >= STAGES) wait(memory.free[place], Stages::parity(number - STAGES));
    arrive_expecting(memory.there[place], 2 * bytes);
    copy_bulk(to, from, bytes, memory.there[place]);
    copy_bulk(to + BAND_BYTES, from + bytes, bytes, memory.there[place]);
  }

  // Returns the low half of the descriptor of a stage, when it is there.
  __device__ __forceinline__ unsigned bands(int number) const { return bands(number, Stages::place(number)); }

  __device__ __forceinline__ unsigned bands(int number, unsigned stage) const {
    wait(memory.there[stage], Stages::parity(number));
    return low_half(shared_address(memory.stages[stage]));
  }

  __device__ __forceinline__ void free(int number) const { free_stage(Stages::place(number)); }

  __device__ __forceinline__ void free_stage(unsigned stage) const {
    if (lane == 0) arrive(memory.free[stage]);
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

// By all threads: the last steps of a tile, `at` being the first of them. Those of a warpgroup's first 64 rows come
// first, and while the others' run, `work.gate` takes the first's sums. Without a branch, and with registers of their
// own for what it makes of them: else ptxas serializes products.
template <typename Work>
__device__ __forceinline__ void multiply_tail(Sums<COLUMNS>& sums, unsigned (&operands)[2][8], Memory& memory,
                                              const Work& work, Copies<Work>& copies, int at) {
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
  float gates[COLUMNS / 2];
#pragma unroll
  for (int step = 0; step < LAST; ++step) {
    multiply(1, step);
    if (step > 0) continue;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) {
      asm volatile("mov.b32 %0, %1;" : "=f"(gates[i]) : "f"(sums[0][i]));  // which are complete here, and not before
      gates[i] = work.gate(gates[i]);
    }
  }
  wait_for_products<0>();
  keep_in_place(sums[1]);
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) sums[0][i] = gates[i];
#pragma unroll
  for (int step = 0; step < LAST; ++step) {
    __syncwarp();
    copies.copy(at + step + AHEAD - 1);
    copies.free(at + step - 1);
    if (threadIdx.x == 0) copies.bring(at + step - 1 + STAGES);
  }
}

// By all threads of a block: steps of a tile, from `begin` to before `end`.
template <int Columns, typename Work>
__device__ __forceinline__ void multiply_tile(Memory& memory, const Work& work, const Parts& parts,
                                              Copies<Work>& copies, int begin, int end) {
  unsigned operands[2][8];
  Sums<Columns> sums;
#pragma unroll
  for (int each = 0; each < EACH; ++each)
#pragma unroll
    for (float& sum : sums[each]) sum = 0;  // so that none has to be kept from one tile to another
  // One step, at a place in its round.
  const auto multiply = [&](int at, int of_round) {
    const int number = at - copies.first;
    const auto place = [&](int places, int ahead) {
      return static_cast<unsigned>(GRAIN % places == 0 ? (of_round + ahead) % places : (number + ahead) % places);
    };
    wait_for_copies<AHEAD - 2>();
    __syncwarp();  // scales are there; and all have read what the next copies overwrite
    const auto& rows = memory.rows[copies.warp];
    const RightWords words(rows[0][place(AHEAD, 0)], copies.lane);
    copies.copy(number + AHEAD - 1, place(AHEAD, AHEAD - 1), (of_round + AHEAD - 1) % GRAIN == 0);
    const unsigned bands = copies.bands(number, place(STAGES, 0));
    const bool adds = at > begin, frees = of_round > 0 || adds;
    multiply_step<Columns>(sums[0], operands, words, bands, adds, [&] {
      if (frees) copies.free_stage(place(STAGES, STAGES - 1));
    });
    if (EACH > 1) {
      const RightWords more(rows[EACH - 1][place(AHEAD, 0)], copies.lane);
      multiply_step<Columns>(sums[EACH - 1], operands, more, bands, adds, [] {});
    }
    // The other warps are hardly behind: they have freed the last step's stage, or are about to.
    if (threadIdx.x == 0 && frees) copies.bring(number - 1 + STAGES, place(STAGES, STAGES - 1));
  };
  static_assert(Work::TAIL_STEPS == 0 || GRAIN == 1, "a tail takes UNROLL=1");
#pragma unroll 1
  for (int at = begin; at < end - Work::TAIL_STEPS; at += GRAIN) {
    // No address is worth a register from one round to another.
    if (Work::TAIL_STEPS == 0) asm volatile("" : "+r"(copies.warp), "+r"(copies.lane));
#pragma unroll
    for (int i = 0; i < GRAIN; ++i) multiply(at + i, i);
  }
  wait_for_products<0>();
#pragma unroll
  for (int each = 0; each < EACH; ++each) keep_in_place(sums[each]);
  const int last = end - 1 - copies.first;
  if constexpr (Work::TAIL_STEPS > 0) multiply_tail(sums, operands, memory, work, copies, last + 1 - Work::TAIL_STEPS);
  copies.free(last);
  if (threadIdx.x == 0) copies.bring(last + STAGES);
  const SharedTile& tile = copies.tile_of(begin);
  if (!Work::OF_WHOLE && end - begin < STEPS) {
    if (!add_parts(sums, memory.is_last, parts, tile.first_block, tile.last_block)) return;
  }
  if (Work::TAIL_STEPS == 0)
#pragma unroll
    for (float& sum : sums[0]) sum = work.gate(sum);
  work.finish(sums, tile, copies.warp, copies.lane);
}

// By all threads of a block: its share. `work.with_columns` calls one of the functions that it is given, by how many
// columns a tile's products have; `work.gate` and then `work.finish` take its sums.
template <typename Work>
struct TileProducts {
  Memory& memory;
  const Work& work;
  const Parts& parts;
  Copies<Work>& copies;
  int begin, end;

  template <int Number>
  __device__ __forceinline__ void operator()(Columns<Number>) const {
    multiply_tile<Number>(memory, work, parts, copies, begin, end);
  }
};

template <typename Work>
__device__ __forceinline__ void multiply_share(Memory& memory, const Work& work, const Parts& parts, int warp,
                                               int lane) {
  GDNBENCH_PHASES_BEGIN();
  Copies<Work> copies(memory, work, warp, lane);
  const int first = copies.first;
  prepare(memory);
#pragma unroll 1
  for (int number = 0; number < AHEAD - 1; ++number) copies.copy(number);
  if (threadIdx.x == 0) {
    wait_for_earlier();
    for (int number = 0; number < STAGES; ++number) copies.bring(number);
  }
  GDNBENCH_PHASE(begin);
#pragma unroll 1
  for (int at = first; at < copies.end;) {
    if (at > first) copies.go_on(at);
    const int end = min((at / STEPS + 1) * STEPS, copies.end);
    work.with_columns(copies.tile_of(at), TileProducts<Work>{memory, work, parts, copies, at, end});
    GDNBENCH_PHASE(tile);
    at = end;
  }
}

}  // namespace gemm
