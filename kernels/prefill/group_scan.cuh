// The scan of scan.cuh by Hopper's warpgroups, for 64 or 128 rows of the state: four warps share each right operand.
//
// What needs the state is one chain from chunk to chunk: S K^T, R, U, S + U^T K. A warpgroup for each 64
// rows does nothing else; one more takes S and U from them through shared memory and works out the outputs, Q S^T and
// what U adds to them, with tokens as rows; one more warp brings what the chain needs of the chunks, another what the
// outputs need. Outputs wait until the chain needs no tensor core.
#pragma once
#include <gdnbench/phases.cuh>

#include "rows.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, read, subtract, solve, fade, write, begun, show, written, mix, output, bring);

namespace gdn {

// Two warpgroups that carry the state need more registers than an even share, which a whole fourth one can give.
constexpr int SCAN_THREADS = (GROUPS + 1) * GROUP + (GROUPS > 1 ? GROUP : 2 * WARP);

// Where a block's chunks and their tensors lie.
struct Place {
  const Loaded* loaded;      // of the first chunk and the key head
  const Prepared* prepared;  // likewise, and the value head
  const __nv_bfloat16* v;    // of the block's first row and the first token
  const float* state;        // of the block's first row; null for zeros
  __nv_bfloat16* output;     // of the block's first row and the first token that is not silent
  float* new_state;          // of the block's first row; null if another block has the sequence's last chunk
};

// Of a chunk in shared memory, what the state needs.
struct CarriedChunk {
  gdn::Rows keys;
  Carrying carrying;
  __nv_bfloat16 values[CHUNK * ROWS];
};

// And what the outputs do.
struct ShownChunk {
  gdn::Rows queries;
  Triangle products;
  float since[CHUNK];
};

// Places of chunks on their way, each with barriers that tell whether it is full, and whether it is empty again.
template <class Chunk, int Stages>
struct Ring {
  struct alignas(1024) Slot {
    Chunk chunk;
    Barrier full, empty;
  } slots[Stages];

  __device__ __forceinline__ void initialise(int arrivals_full, int arrivals_empty) {
    for (Slot& slot : slots) {
      gdn::initialise(slot.full, arrivals_full);
      gdn::initialise(slot.empty, arrivals_empty);
    }
  }
  __device__ __forceinline__ Chunk& at(int chunk) { return slots[chunk % Stages].chunk; }
  __device__ __forceinline__ Barrier& full_at(int chunk) { return slots[chunk % Stages].full; }
  __device__ __forceinline__ Barrier& empty_at(int chunk) { return slots[chunk % Stages].empty; }
  __device__ __forceinline__ void wait_until_full(int chunk) { wait(full_at(chunk), chunk / Stages % 2); }
  __device__ __forceinline__ void wait_until_empty(int chunk) {
    if (chunk >= Stages) wait(empty_at(chunk), (chunk / Stages - 1) % 2);
  }
};

// Shared memory of a block.
template <int Stages>
struct ScanMemory {
  Ring<CarriedChunk, Stages> carried;
  Ring<ShownChunk, 2> shown;
  Handed<GDN_K> begun;    // S at a chunk's beginning
  Handed<CHUNK> written;  // U^T

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    carried.initialise(WARP + 1, STATE_WARPS);
    shown.initialise(1, GROUP_WARPS);
    begun.initialise();
    written.initialise();
    fence_async_proxy();
  }
};

// By a warp. Rows of v after the sequence's end become zeros, as those of keys and queries are: they write nothing. A
// row of v is too short for a bulk copy: 64 of these a chunk take longer than all else.
template <int Stages>
__device__ __forceinline__ void bring_carried(Ring<CarriedChunk, Stages>& ring, const Place& from, const Walk& walk,
                                              unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    ring.wait_until_empty(chunk);
    CarriedChunk& to = ring.at(chunk);
    Barrier& full = ring.full_at(chunk);
    if (lane == 0) {
      arrive_expecting(full, sizeof(to.keys) + sizeof(to.carrying));
      load_bulk(&to.keys, &from.loaded[static_cast<size_t>(chunk) * GDN_HQ].keys, sizeof(to.keys), full);
      load_bulk(&to.carrying, &from.prepared[static_cast<size_t>(chunk) * GDN_HV], sizeof(to.carrying), full);
    }
    load_tile<ROWS / 8, WARP>(shared_address(to.values),
                              from.v + static_cast<long long>(chunk) * (CHUNK * GDN_HV * GDN_V), GDN_HV * GDN_V,
                              min(walk.tokens - chunk * CHUNK, CHUNK), lane, swizzled<ROWS / 8>);
    arrive_after_copies(full);
    GDNBENCH_PHASE(bring);
  }
}

// By a warp, of which one lane does it.
template <int Stages>
__device__ __forceinline__ void bring_shown(Ring<ShownChunk, Stages>& ring, const Place& from, const Walk& walk,
                                            unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  if (lane != 0) return;
  for (int shown = 0; shown < walk.chunks - walk.silent; ++shown) {
    const size_t chunk = walk.silent + shown;
    const Prepared& prepared = from.prepared[chunk * GDN_HV];
    ring.wait_until_empty(shown);
    ShownChunk& to = ring.at(shown);
    Barrier& full = ring.full_at(shown);
    arrive_expecting(full, sizeof(to.queries) + sizeof(to.products) + sizeof(to.since));
    load_bulk(&to.queries, &from.loaded[chunk * GDN_HQ].queries, sizeof(to.queries), full);
    load_bulk(&to.products, &prepared.products, sizeof(to.products), full);
    load_bulk(&to.since, &prepared.since, sizeof(to.since), full);
    GDNBENCH_PHASE(bring);
  }
}

// By warp `warp` of those that carry the state: takes its 16 rows of the state through the chunks.
template <int Stages>
__device__ __forceinline__ void carry_state(State& s, ScanMemory<Stages>& memory, const Walk& walk, int warp,
                                            unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int shown = chunk - walk.silent;
    const CarriedChunk& here = memory.carried.at(chunk);
    Sum sums[TOKEN_PAIRS];
    Operand begun[KEY_TILES], r[SIDE], u[SIDE];  // r begins as v
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
    GDNBENCH_PHASE_USING(narrow, begun);
    memory.carried.wait_until_full(chunk);
    GDNBENCH_PHASE(full);
    fence_warpgroup();
    multiply_operands<GDN_K, CHUNK, false>(sums, begun, matrix(here.keys));
    commit_group();
    keep_in_place(s);  // what needs no product is done while it is worked out, and not before
    load_values(r, shared_address(here.values), warp, lane, swizzled<ROWS / 8>);
    decay_state(s, here.carrying.since[CHUNK - 1]);
    if (shown > 0) wait(memory.begun.free, (shown - 1) % 2);
    if (shown >= 0) store_rows<ROWS>(shared_address(memory.begun.rows), begun, warp, lane);
    keep_in_place(s);
    keep_in_place(r);
    wait_for_groups<0>();
    keep_in_place(sums);
    if (shown >= 0) arrive_together(memory.begun.there, lane);
    GDNBENCH_PHASE(read);
    subtract_read(r, sums, InOrder{here.carrying.since}, lane);
    keep_in_place(r);
    GDNBENCH_PHASE_USING(subtract, r);
    fence_warpgroup();
    multiply_operands<CHUNK, CHUNK, false>(sums, r, matrix(here.carrying.solved));
    complete(sums);
    GDNBENCH_PHASE(solve);
    fade_tokens(u, sums, InOrder{here.carrying.until}, lane);
    keep_in_place(u);
    keep_in_place(s);
    GDNBENCH_PHASE_USING(fade, u);
    fence_warpgroup();
    add_written(s, u, matrix(here.keys, CHUNK * BAND_BYTES));
    commit_group();
    if (shown > 0) wait(memory.written.free, (shown - 1) % 2);
    if (shown >= 0) {
      narrow_tokens(r, sums);
      store_rows<ROWS>(shared_address(memory.written.rows), r, warp, lane);
    }
    wait_for_groups<0>();
    keep_in_place(s);
    if (shown >= 0) arrive_together(memory.written.there, lane);
    arrive_together(memory.carried.empty_at(chunk), lane);
    GDNBENCH_PHASE(write);
  }
}

// By a warp of the next warpgroup: the outputs, of which a warp has 16 tokens of every chunk. `output` is where those
// of the block's rows begin.
template <int Stages>
__device__ __forceinline__ void write_outputs(ScanMemory<Stages>& memory, __nv_bfloat16* output, float scale,
                                              const Walk& walk, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int row = warp * TILE + lane / 4;
  for (int shown = 0; shown < walk.chunks - walk.silent; ++shown) {
    const ShownChunk& here = memory.shown.at(shown);
    Sum sums[ROWS / 8];
    memory.shown.wait_until_full(shown);
    const float since[2] = {scale * here.since[row], scale * here.since[row + 8]};
    wait(memory.begun.there, shown % 2);
    GDNBENCH_PHASE(begun);
    fence_async_proxy();
    fence_warpgroup();
    multiply_rows<GDN_K, ROWS, false>(sums, matrix(here.queries), matrix(memory.begun.rows));
    complete(sums);
    arrive_together(memory.begun.free, lane);
    GDNBENCH_PHASE(show);
    scale_rows(sums, since);
    keep_in_place(sums);
    wait(memory.written.there, shown % 2);
    GDNBENCH_PHASE(written);
    fence_async_proxy();
    fence_warpgroup();
    multiply_rows<CHUNK, ROWS, true>(sums, matrix(here.products), matrix(memory.written.rows));
    complete(sums);
    arrive_together(memory.written.free, lane);
    arrive_together(memory.shown.empty_at(shown), lane);
    GDNBENCH_PHASE(mix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = shown * CHUNK + row + half * 8;
      if (walk.silent * CHUNK + token >= walk.tokens) continue;
      __nv_bfloat16* to = output + static_cast<long long>(token) * (GDN_HV * GDN_V) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < ROWS / 8; ++n)
        *reinterpret_cast<unsigned*>(to + n * 8) = pack_bf16(sums[n][2 * half], sums[n][2 * half + 1]);
    }
    GDNBENCH_PHASE(output);
  }
}

// A block: carries the state of its rows through the chunks, and writes their outputs. Its memory is initialised.
template <int Stages>
__device__ __forceinline__ void scan(ScanMemory<Stages>& memory, const Place& at, const Walk& walk, float scale) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  if (warp < STATE_WARPS) {
    if (GROUPS > 1) take_registers<160>();
    const size_t place = static_cast<size_t>(warp * TILE) * GDN_K;
    State s = {};
    if (at.state != nullptr) load_state(s, at.state + place, lane);
    carry_state(s, memory, walk, warp, lane);
    if (at.new_state != nullptr) store_state(at.new_state + place, s, lane);
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    if (GROUPS > 1) take_registers<136>();
    write_outputs(memory, at.output, scale, walk, warp - STATE_WARPS, lane);
  } else {
    if (GROUPS > 1) give_registers<56>();
    if (warp == STATE_WARPS + GROUP_WARPS) bring_carried(memory.carried, at, walk, lane);
    if (warp == STATE_WARPS + GROUP_WARPS + 1) bring_shown(memory.shown, at, walk, lane);
  }
}

}  // namespace gdn
