// The scan of scan.cuh by Hopper's warpgroups, for 64 or 128 rows of the state: four warps share each right operand.
//
// What needs the state is one chain from chunk to chunk: S K^T, R, U, S + U^T K. A warpgroup for each 64
// rows does nothing else; one more takes S and U from them through shared memory and works out the outputs, Q S^T and what
// U adds to them, with tokens as rows; one more warp brings the chunks. Outputs wait until the chain needs no tensor core.
#pragma once
#include <gdnbench/phases.cuh>
#include "scan.cuh"
#include "warpgroup.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, read, subtract, decay, solve, fade, write, begun, show, written, mix, output, bring);

namespace gdn {

constexpr int GROUP = GROUP_WARPS * WARP;
constexpr int ROWS = GROUPS * GROUP_ROWS;  // of the state in a block
constexpr int CARRIERS = GROUPS * GROUP_WARPS;
// Two warpgroups that carry the state need more registers than an even share, which a whole fourth one can give.
constexpr int SCAN_THREADS = (GROUPS + 1) * GROUP + (GROUPS > 1 ? GROUP : WARP);
static_assert(GDN_V % ROWS == 0, "a block works on one head");

// The chunks that a block takes, of one sequence and value head.
struct Walk {
  int chunks;  // in all
  int silent;  // of them, the first ones: another block writes their outputs
  int tokens;  // of those whose outputs it writes
};

// Where they and their tensors lie.
struct Place {
  const Loaded* loaded;      // of the first chunk and the key head
  const Prepared* prepared;  // likewise, and the value head
  const __nv_bfloat16* v;    // of the block's first row and the first token
  const float* state;        // of the block's first row; null for zeros
  __nv_bfloat16* output;     // of the block's first row and the first token that is not silent
  float* new_state;          // of the block's first row; null if another block has the sequence's last chunk
};

// A chunk in shared memory.
struct alignas(1024) GroupStage {
  Loaded loaded;
  Prepared prepared;
  alignas(16) __nv_bfloat16 values[CHUNK * ROWS];
};

// Shared memory of a block: chunks on their way, what goes from the first warpgroup to the second, and barriers. One
// that is named after what it tells of is passed when that is there, one with `free_` when it is done with.
template <int Stages>
struct Ring {
  GroupStage stages[Stages];
  alignas(1024) __nv_bfloat16 begun[ROWS * GDN_K];    // S at the chunk's beginning
  alignas(1024) __nv_bfloat16 written[ROWS * CHUNK];  // U^T
  Barrier full[Stages], empty[Stages], begun_there, begun_free, written_there, written_free;
};

// By one thread of a block, which synchronises after it.
template <int Stages>
__device__ __forceinline__ void initialise(Ring<Stages>& ring) {
  for (int slot = 0; slot < Stages; ++slot) {
    initialise(ring.full[slot], WARP + 1);
    initialise(ring.empty[slot], CARRIERS + GROUP_WARPS);
  }
  initialise(ring.begun_there, CARRIERS);
  initialise(ring.begun_free, GROUP_WARPS);
  initialise(ring.written_there, CARRIERS);
  initialise(ring.written_free, GROUP_WARPS);
  show_to_async_copies();
}

// Of a warp, once all of its lanes have come.
__device__ __forceinline__ void arrive_together(Barrier& barrier, unsigned lane) {
  __syncwarp();
  if (lane == 0) arrive(barrier);
}

// Rows of v after the sequence's end become zeros, as those of keys and queries are: they write nothing.
template <int Stages>
__device__ __forceinline__ void bring_chunks(Ring<Stages>& ring, const Place& from, const Walk& walk, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int tokens = walk.silent * CHUNK + walk.tokens;
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int slot = chunk % Stages, lap = chunk / Stages;
    if (lap > 0) wait(ring.empty[slot], (lap - 1) % 2);
    GroupStage& stage = ring.stages[slot];
    Barrier& full = ring.full[slot];
    if (lane == 0) {
      const unsigned loaded = chunk < walk.silent ? sizeof(Rows) : sizeof(Loaded);  // outputs alone need queries
      arrive_expecting(full, loaded + sizeof(Prepared));
      load_bulk(&stage.loaded, from.loaded + static_cast<size_t>(chunk) * GDN_HQ, loaded, full);
      load_bulk(&stage.prepared, from.prepared + static_cast<size_t>(chunk) * GDN_HV, sizeof(Prepared), full);
    }
    load_tile<ROWS / 8, WARP>(shared_address(stage.values), from.v + static_cast<long long>(chunk) * (CHUNK * GDN_HV * GDN_V),
                              GDN_HV * GDN_V, min(tokens - chunk * CHUNK, CHUNK), lane, swizzled<ROWS / 8>);
    arrive_after_copies(full);
    GDNBENCH_PHASE(bring);
  }
}

// Q S^T or P U, [CHUNK, ROWS]: of both operands the rows are rows in shared memory, of Columns columns.
template <int Columns, bool Adds>
__device__ __forceinline__ void multiply_rows(Sum (&sums)[ROWS / 8], Matrix a, Matrix b) {
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long left = a.descriptor(banded<CHUNK>(0, 2 * i)), right = b.descriptor(banded<ROWS>(0, 2 * i));
    if (i == 0) multiply<Adds>(sums, left, right);
    else multiply<true>(sums, left, right);
  }
}

// X M^T, for X [ROWS, Columns] as operands and M [CHUNK, Columns] in shared memory.
template <int Columns>
__device__ __forceinline__ void multiply_operands(Sum (&sums)[TOKEN_PAIRS], const Operand (&x)[Columns / TILE],
                                                  Matrix m) {
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long right = m.descriptor(banded<CHUNK>(0, 2 * i));
    if (i == 0) multiply<false>(sums, x[i], right);
    else multiply<true>(sums, x[i], right);
  }
}

// S + U^T K, for U^T [ROWS, CHUNK] as operands and keys [CHUNK, K] in shared memory.
__device__ __forceinline__ void add_written(State& s, const Operand (&u)[SIDE], Matrix keys) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
    add_transposed(s, u[token], keys.descriptor(token * (TILE * BAND_BYTES)));
}

// Operands [16, 16] side by side into a matrix of ROWS rows, for wgmma to read.
template <int Tiles>
__device__ __forceinline__ void show_rows(unsigned to, const Operand (&x)[Tiles], int warp, unsigned lane) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i)
    store_matrices(to + banded<ROWS>(warp * TILE + lane % 16, 2 * i + lane / 16), x[i]);
  show_to_async_copies();
}

// Each token's column times its factor, as operands.
__device__ __forceinline__ void fade_tokens(Operand (&to)[SIDE], const Sum (&sums)[TOKEN_PAIRS], const float* factors,
                                            unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n) {
    const float2 factor = *reinterpret_cast<const float2*>(&factors[n * 8 + lane % 4 * 2]);
    to[n / 2][n % 2 * 2] = pack_bf16(factor.x * sums[n][0], factor.y * sums[n][1]);
    to[n / 2][n % 2 * 2 + 1] = pack_bf16(factor.x * sums[n][2], factor.y * sums[n][3]);
  }
}

// By warp `warp` of those that carry the state: takes its 16 rows of the state through the chunks.
template <int Stages>
__device__ __forceinline__ void carry_state(State& s, Ring<Stages>& ring, const Walk& walk, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int slot = chunk % Stages, shown = chunk - walk.silent;
    const GroupStage& stage = ring.stages[slot];
    const Prepared& prepared = stage.prepared;
    Sum sums[TOKEN_PAIRS];
    Operand begun[KEY_TILES], r[SIDE], u[SIDE];
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    settle(begun);
    GDNBENCH_PHASE_USING(narrow, begun);
    wait(ring.full[slot], chunk / Stages % 2);
    GDNBENCH_PHASE(full);
    begin();
    multiply_operands<GDN_K>(sums, begun, matrix(stage.loaded.keys));
    commit();
    if (shown > 0) wait(ring.begun_free, (shown - 1) % 2);
    if (shown >= 0) show_rows(shared_address(ring.begun), begun, warp, lane);
    wait_for_groups<0>();
    settle(sums);
    if (shown >= 0) arrive_together(ring.begun_there, lane);
    GDNBENCH_PHASE(read);
    subtract_read<ROWS>(r, sums, shared_address(stage.values), prepared.since, warp, lane);
    settle(r);
    GDNBENCH_PHASE_USING(subtract, r);
    begin();
    multiply_operands<CHUNK>(sums, r, matrix(stage.prepared.solved));
    commit();
    settle(s);  // or what follows would be issued between the products, and delay them
    const float kept = prepared.since[CHUNK - 1];
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= kept;
    GDNBENCH_PHASE_USING(decay, s);
    wait_for_groups<0>();
    settle(sums);
    GDNBENCH_PHASE(solve);
    fade_tokens(u, sums, prepared.until, lane);
    settle(u);
    settle(s);
    GDNBENCH_PHASE_USING(fade, u);
    begin();
    add_written(s, u, matrix(stage.loaded.keys, CHUNK * BAND_BYTES));
    commit();
    if (shown > 0) wait(ring.written_free, (shown - 1) % 2);
    if (shown >= 0) {
      narrow_tokens(r, sums);
      show_rows(shared_address(ring.written), r, warp, lane);
    }
    wait_for_groups<0>();
    settle(s);
    if (shown >= 0) arrive_together(ring.written_there, lane);
    arrive_together(ring.empty[slot], lane);
    GDNBENCH_PHASE(write);
  }
}

// By a warp of the next warpgroup: the outputs, of which a warp has 16 tokens of every chunk. `output` is where those of
// the block's rows begin.
template <int Stages>
__device__ __forceinline__ void write_outputs(Ring<Stages>& ring, __nv_bfloat16* output, float scale, const Walk& walk,
                                              int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int row = warp * TILE + lane / 4;
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int slot = chunk % Stages, shown = chunk - walk.silent;
    const GroupStage& stage = ring.stages[slot];
    wait(ring.full[slot], chunk / Stages % 2);
    if (shown < 0) {
      arrive_together(ring.empty[slot], lane);
      continue;
    }
    wait(ring.begun_there, shown % 2);
    GDNBENCH_PHASE(begun);
    Sum sums[ROWS / 8];
    begin();
    multiply_rows<GDN_K, false>(sums, matrix(stage.loaded.queries), matrix(ring.begun));
    commit();
    const float since[2] = {scale * stage.prepared.since[row], scale * stage.prepared.since[row + 8]};
    wait_for_groups<0>();
    settle(sums);
    arrive_together(ring.begun_free, lane);
    GDNBENCH_PHASE(show);
#pragma unroll
    for (int n = 0; n < ROWS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= since[i / 2];
    settle(sums);
    wait(ring.written_there, shown % 2);
    GDNBENCH_PHASE(written);
    begin();
    multiply_rows<CHUNK, true>(sums, matrix(stage.prepared.products), matrix(ring.written));
    commit();
    wait_for_groups<0>();
    settle(sums);
    arrive_together(ring.written_free, lane);
    arrive_together(ring.empty[slot], lane);
    GDNBENCH_PHASE(mix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = shown * CHUNK + row + half * 8;
      if (token >= walk.tokens) continue;
      __nv_bfloat16* to = output + static_cast<long long>(token) * (GDN_HV * GDN_V) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < ROWS / 8; ++n)
        *reinterpret_cast<unsigned*>(to + n * 8) = pack_bf16(sums[n][2 * half], sums[n][2 * half + 1]);
    }
    GDNBENCH_PHASE(output);
  }
}

// A block: carries the state of its rows through the chunks, and writes their outputs. The ring is initialised.
template <int Stages>
__device__ __forceinline__ void scan(Ring<Stages>& ring, const Place& at, const Walk& walk, float scale) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  if (warp < CARRIERS) {
    if (GROUPS > 1) take_registers<160>();
    const size_t place = static_cast<size_t>(warp * TILE) * GDN_K;
    State s = {};
    if (at.state != nullptr) load_state(s, at.state + place, lane);
    carry_state(s, ring, walk, warp, lane);
    if (at.new_state != nullptr) store_state(at.new_state + place, s, lane);
  } else if (warp < CARRIERS + GROUP_WARPS) {
    if (GROUPS > 1) take_registers<136>();
    write_outputs(ring, at.output, scale, walk, warp - CARRIERS, lane);
  } else {
    if (GROUPS > 1) give_registers<56>();
    if (warp == CARRIERS + GROUP_WARPS) bring_chunks(ring, at, walk, lane);
  }
}

}  // namespace gdn
