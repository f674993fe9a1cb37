// A prompt in one launch: a block takes a value head through the chunks of a segment, and what each chunk tells without
// the state is worked out in the same block, a chunk ahead of the state.
//
// Four warpgroups share the work. One prepares chunks: their gates, K K^T, and the inverse of the triangle. One for
// each 64 rows of the state is the chain from chunk to chunk: S K^T, R, U, S + U^T K. One works out the outputs with
// tokens as rows: Q K^T, Q S^T and what U adds, for which S and U come through shared memory. Each copies what it takes
// of the tensors. They wait for each other at mbarriers alone, so that each is as far ahead as the places of chunks let
// it be.
#pragma once
#include <gdnbench/phases.cuh>

#include "fused_memory.cuh"

GDNBENCH_PHASE_NAMES(keys, pairs, couple, invert, solve, gates, narrow, ready, read, subtract, inverse, write, fade,
                     add, queries, mask, begun, show, written, mix, output);

namespace gdn {

// By the warpgroup that prepares, a warp a row of tiles. It brings the keys, too. Two such groups take chunks in turns.
// The block has had `before` chunks.
template <int Groups, class Memory>
__device__ __forceinline__ void prepare_chunks(Memory& memory, const Place& from, const Walk& walk, int before,
                                               int group, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  static_assert(Groups == 1 || Groups == 2, "there are places for so many");
  constexpr bool TURNS = Memory::TAKES_TURNS;
  constexpr int AHEAD = 2 / Groups, TRIANGLES = 2 / Groups;  // of a group's own chunks
  const int begin = TURNS ? (group + (Groups - 1) * before) % Groups : group;  // the first whose number is the group's
  if (TURNS ? begin >= walk.chunks : walk.chunks == 0) return;
  const auto synchronise_group = [&] {
    if (Groups == 1 || group == 0)
      synchronise<PREPARING>();
    else
      synchronise<SECOND_PREPARING>();
  };
  RawGates(&raw_gates)[2] = memory.raw_gates[group];
  GateInputs inputs, later;  // with turns, of two chunks at once: the first ones come from memory, one behind the other
  const auto load_gates = [&](GateInputs& to, int chunk) {
    to.load(from.a, from.b, chunk * CHUNK, walk.tokens, lane);
  };
  // The warps that have the least of the triangle see to the gates, one a chunk ahead of the others.
  const auto gates = [&](int raw, int whole) {
    if (warp == 0) {
      sum_decays(raw_gates[(before + raw) / Groups % 2], inputs, from.rate, from.dt_bias, walk.tokens - raw * CHUNK,
                 lane);
      if (TURNS) inputs = later;
      load_gates(TURNS ? later : inputs, raw + (TURNS ? 2 : 1) * Groups);
    }
    const int number = before + whole, place = KeyRing::place(number);
    if (warp == 1 && whole >= 0) store_gates(memory.gates[place], raw_gates[number / Groups % 2], lane);
    if (warp == 2 && whole >= 0) store_tile_gates(memory.gates[place], raw_gates[number / Groups % 2], lane);
  };
  const auto bring_keys = [&](int chunk) {
    const int place = KeyRing::place(before + chunk);
    bring(memory.keys[place], from.k, walk, chunk, memory.barriers.keys_there[place], warp == 3 && lane == 0);
  };
  if (warp == 0) load_gates(inputs, begin);
  if (TURNS && warp == 0) load_gates(later, begin + Groups);
#pragma unroll 1
  for (int own = 0; own < AHEAD; ++own) {
    if (TURNS) memory.barriers.wait_until_done(before + begin + own * Groups - KEY_STAGES);
    bring_keys(begin + own * Groups);
  }
#pragma unroll
  for (int i = 0; i < Memory::SOLVED_STAGES && !TURNS; ++i)
    if (group == i % Groups && warp == i / Groups + 1) clear_above(memory.solved[i], lane);
#pragma unroll 1
  for (int own = 0; own <= AHEAD; ++own) {  // as far ahead as the loop goes on
    gates(begin + own * Groups, TURNS && own == 0 ? -1 : begin + (own - 1) * Groups);
    synchronise_group();
  }
#pragma unroll 1
  for (int chunk = begin; chunk < walk.chunks; chunk += Groups) {
    const int number = before + chunk, place = KeyRing::place(number);
    const ChunkGates& own = memory.gates[place];
    TriangleTiles& triangle = memory.triangles[group][number % TRIANGLES];
    lane = worked_out_anew(lane);
    wait(memory.barriers.keys_there[place], KeyRing::parity(number));
    const bool is_cut_off = own_tokens(walk, chunk) < CHUNK;
    if (is_cut_off) clear_rows(memory.keys[place], own_tokens(walk, chunk), warp, lane);
    if (AHEAD == 1 || is_cut_off) synchronise_group();  // the gates are of the group's last chunk, after its barrier
    arrive_together(memory.barriers.ready[place], lane);
    GDNBENCH_PHASE(keys);
    TileSums sums[SIDE];
    Sum(&flat)[TOKEN_PAIRS] = *reinterpret_cast<Sum(*)[TOKEN_PAIRS]>(&sums);
    fence_warpgroup();
    multiply_rows<GDN_K, CHUNK, false>(flat, matrix(memory.keys[place]), matrix(memory.keys[place]));
    commit_group();
    // Then its places, and those of all before it, are free: of keys, gates and inverse.
    memory.barriers.wait_until_done(number + 2 - KEY_STAGES);
    bring_keys(chunk + 2);
    Factors factors;
    factors.load<false>(own, warp, lane);
    factors.scale_rows(own.beta[warp * TILE + lane / 4], own.beta[warp * TILE + lane / 4 + 8]);
    wait_for_groups<0>();
    keep_in_place(flat);
    GDNBENCH_PHASE(pairs);
    TileSums own_tile;
    Operand diagonal;
    factors.apply_diagonal(own_tile, sums, warp);
    store_coupling(triangle, sums, factors, warp, lane);
    GDNBENCH_PHASE(couple);
    invert_tile(diagonal, memory.diagonals[group][warp], own_tile, lane);
    store_matrices(half_tile_address(triangle.inverse[warp], lane), diagonal);
    synchronise_group();
    GDNBENCH_PHASE(invert);
    Triangle& solved = memory.solved[number % Memory::SOLVED_STAGES];
    solve_any_row(solved, triangle, diagonal, own.beta, warp, lane);
    fence_async_proxy();
    arrive_together(memory.barriers.inverse_there[place], lane);
    GDNBENCH_PHASE(solve);
    gates(chunk + (AHEAD + 1) * Groups, chunk + AHEAD * Groups);
    GDNBENCH_PHASE(gates);
  }
  // The next turn's gates take the places of this one's last, which all have read.
  if (TURNS) synchronise_group();
}

// By the warps that carry the state: a chunk's values.
template <class Memory>
__device__ __forceinline__ void bring_values(Memory& memory, const HeadRows& v, int chunk, const Walk& walk, int warp,
                                             unsigned lane) {
  const int place = ValueRing::place(chunk);
  bring(memory.values[place], v, walk, chunk, memory.barriers.values_there[place], warp == 0 && lane == 0);
}

// A warp's 16 rows of the state in shared memory: pieces of 32 bytes, of which those that lanes take at once, of four
// rows, lie in different banks.
struct BegunRows {
  float numbers[TILE * GDN_K];

  static __device__ __forceinline__ constexpr int place(int row, int column) {
    return row * GDN_K + (column ^ row % 4 * 8);
  }
};

// The state that a sequence begins with, by the warps that carry it, through places that are used later, which all of
// the warps leave before any goes on.
__device__ __forceinline__ void begin_state(State& s, FusedMemory& memory, const float* from, int warp, unsigned lane) {
  if (from == nullptr) return;
  constexpr int HALF = STATE_WARPS / 2, QUARTER = STATE_WARPS / 4, PIECE = 16 / sizeof(float);
  static_assert(sizeof(memory.begun.rows) == HALF * sizeof(BegunRows) &&
                    sizeof(memory.written.rows) == QUARTER * sizeof(BegunRows) &&
                    sizeof(memory.queries[1]) >= QUARTER * sizeof(BegunRows) && GDN_K == WARP * PIECE,
                "the state fills these places, and a warp copies a row");
  void* const quarter = warp < HALF + QUARTER ? static_cast<void*>(memory.written.rows) : &memory.queries[1];
  void* const part = warp < HALF ? memory.begun.rows : quarter;
  BegunRows& rows = static_cast<BegunRows*>(part)[warp < HALF ? warp : warp % QUARTER];
  const float* const row = from + static_cast<size_t>(warp * TILE) * GDN_K + lane * PIECE;
#pragma unroll
  for (int i = 0; i < TILE; ++i)
    copy_async(shared_address(&rows.numbers[BegunRows::place(i, lane * PIECE)]), row + i * GDN_K, true);
  wait_for_copies();
  __syncwarp();
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair =
          *reinterpret_cast<const float2*>(&rows.numbers[BegunRows::place(lane / 4 + half * 8, n * 8 + lane % 4 * 2)]);
      s[n][2 * half] = pair.x, s[n][2 * half + 1] = pair.y;
    }
  synchronise<CARRYING>();
}

// By warp `warp` of those that carry the state: takes its 16 rows of the state through the chunks.
template <class Memory>
__device__ __forceinline__ void carry_state(State& s, Memory& memory, const HeadRows& v, const Walk& walk,
                                            int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
#pragma unroll 1
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const int shown = Memory::SHOWS ? chunk - walk.silent : -1, place = KeyRing::place(chunk);
    const ChunkGates& gates = memory.gates[place];
    Sum sums[TOKEN_PAIRS];
    Operand begun[KEY_TILES], r[SIDE], u[SIDE];  // r begins as v
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
    GDNBENCH_PHASE_USING(narrow, begun);
    memory.barriers.wait_until_ready(chunk);
    GDNBENCH_PHASE(ready);
    fence_warpgroup();
    multiply_operands<GDN_K, CHUNK, false>(sums, begun, matrix(memory.keys[place]));
    commit_group();
    // What needs no product is done while it is worked out; waits keep ptxas from putting it between the products.
    wait(memory.begun.free, (max(shown, 0) + 1) % 2);
    if (shown >= 0) store_rows<ROWS>(shared_address(memory.begun.rows), begun, warp, lane);
    wait(memory.barriers.values_there[ValueRing::place(chunk)], ValueRing::parity(chunk));
    load_values(r, shared_address(memory.values[ValueRing::place(chunk)]), warp, lane, banded<CHUNK>);
    if (own_tokens(walk, chunk) < CHUNK) clear_tokens(r, own_tokens(walk, chunk), lane);
    // All warps are done with those of the last chunk: outputs have begun it, or wait for nothing.
    if (shown <= 0) memory.barriers.wait_until_done(chunk - 1);
    bring_values(memory, v, chunk + 1, walk, warp, lane);
    keep_in_place(r);
    wait_for_groups<0>();
    keep_in_place(sums);
    if (shown >= 0) arrive_together(memory.begun.there, lane);
    GDNBENCH_PHASE(read);
    subtract_read(r, sums, gates.since, lane);
    keep_in_place(r);
    GDNBENCH_PHASE_USING(subtract, r);
    wait(memory.barriers.inverse_there[place], KeyRing::parity(chunk));
    GDNBENCH_PHASE(inverse);
    fence_warpgroup();
    multiply_operands<CHUNK, CHUNK, false>(sums, r, matrix(memory.solved[chunk % Memory::SOLVED_STAGES]));
    commit_group();
    wait(memory.written.free, (max(shown, 0) + 1) % 2);
    keep_in_place(s);
    decay_state(s, gates.whole);
    keep_in_place(s);
    wait_for_groups<0>();
    keep_in_place(sums);
    GDNBENCH_PHASE(write);
    fade_tokens(u, sums, gates.until, lane);
    keep_in_place(u);
    keep_in_place(s);
    GDNBENCH_PHASE_USING(fade, u);
    fence_warpgroup();
    add_written(s, u, matrix(memory.keys[place], CHUNK * BAND_BYTES));
    commit_group();
    if (shown >= 0) {
      narrow_tokens(r, sums);
      store_rows<ROWS>(shared_address(memory.written.rows), r, warp, lane);
      arrive_together(memory.written.there, lane);
    }
    wait_for_groups<0>();
    keep_in_place(s);
    arrive_together(memory.barriers.done[place], lane);
    GDNBENCH_PHASE(add);
  }
}

// (G_i / G_j) (q_i·k_j) of a row of tiles, as operands.
__device__ __forceinline__ void mask_products(Operand (&to)[SIDE], const TileSums (&sums)[SIDE], const Factors& factors,
                                              int row) {
  TileSums x;
  Operand diagonal;
  factors.apply_diagonal(x, sums, row);
  narrow(diagonal, x[0], x[1]);
#pragma unroll
  for (int column = 0; column < SIDE; ++column) {
    if (column < SIDE - 1) {
      factors.apply(x, sums[column], column);
      narrow(to[column], x[0], x[1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned other = column == row ? diagonal[i] : 0;
      to[column][i] = column < SIDE - 1 && column < row ? to[column][i] : other;
    }
  }
}

// By a warp: its tokens' outputs, in whole rows.
__device__ __forceinline__ void store_outputs(const Queries& from, __nv_bfloat16* output, int first, int tokens,
                                              int warp, unsigned lane) {
  constexpr int PIECES = ROWS / 8, STEP = WARP / PIECES;
  const int row = lane / PIECES, piece = lane % PIECES;
  const __nv_bfloat16* place = &from.outputs[warp * TILE + row].row[piece * 8];
  __nv_bfloat16* to = output + static_cast<long long>(first + row) * (GDN_HV * GDN_V) + piece * 8;
  asm volatile("" : "+l"(to));  // what is added from here on are constants
#pragma unroll
  for (int i = 0; i < TILE; i += STEP) {
    const uint4 x = *reinterpret_cast<const uint4*>(place + i * (ROWS + 8));
    if (first + row + i < tokens) *reinterpret_cast<uint4*>(to + static_cast<long long>(i) * (GDN_HV * GDN_V)) = x;
  }
}

// Has operands worked out before what follows: where a later product takes them, ptxas puts their instructions between
// those of the product before that.
template <int N>
__device__ __forceinline__ void work_out_now(const Operand (&x)[N]) {
  unsigned all = 0;
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) all ^= x[n][i];
  asm volatile("{ .reg .pred never; setp.eq.u32 never, %0, 0x7fedcba9; @never nanosleep.u32 0; }" ::"r"(all)
               : "memory");
}

// By the warpgroup of the outputs, of which a warp has 16 tokens of every chunk. It brings the queries, too. Where half
// of the state leaves registers for them, both products have these from registers.
template <class Memory>
__device__ __forceinline__ void write_outputs(Memory& memory, const Place& at, float scale, const Walk& walk,
                                              const Count& before, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  constexpr bool HOLDS_QUERIES = GROUPS == 1;
  const auto bring_queries = [&](int chunk) {
    const int place = QueryRing::place(before.shown + chunk - walk.silent);
    bring(memory.queries[place].rows, at.q, walk, chunk, memory.queries_there[place], warp == 0 && lane == 0);
  };
  bring_queries(walk.silent);
#pragma unroll 1
  for (int chunk = 0; chunk < walk.silent; ++chunk) {
    memory.barriers.wait_until_ready(before.chunks + chunk);
    arrive_together(memory.barriers.done[KeyRing::place(before.chunks + chunk)], lane);
  }
#pragma unroll 1
  for (int chunk = walk.silent; chunk < walk.chunks; ++chunk) {
    lane = worked_out_anew(lane);
    const int number = before.chunks + chunk, key_place = KeyRing::place(number);
    const int shown = before.shown + chunk - walk.silent, place = QueryRing::place(shown);
    const ChunkGates& gates = memory.gates[key_place];
    Queries& queries = memory.queries[place];
    Operand products[SIDE], q[KEY_TILES];
    wait(memory.queries_there[place], QueryRing::parity(shown));
#pragma unroll
    for (int i = 0; i < KEY_TILES && HOLDS_QUERIES; ++i)
      load_matrices(q[i], shared_address(queries.rows) + banded<CHUNK>(warp * TILE + lane % 16, 2 * i + lane / 16));
    fence_async_proxy();
    synchronise<SHOWING>();  // all warps are done with the last chunk's
    memory.barriers.wait_until_ready(number);
    GDNBENCH_PHASE(queries);
    {
      TileSums sums[SIDE];
      Sum(&flat)[TOKEN_PAIRS] = *reinterpret_cast<Sum(*)[TOKEN_PAIRS]>(&sums);
      fence_warpgroup();
      if (HOLDS_QUERIES)
        multiply_operands<GDN_K, CHUNK, false>(flat, q, matrix(memory.keys[key_place]));
      else
        multiply_rows<GDN_K, CHUNK, false>(flat, matrix(queries.rows), matrix(memory.keys[key_place]));
      commit_group();
      if (HOLDS_QUERIES || shown > 0) bring_queries(chunk + 1);
      Factors factors;
      factors.load<true>(gates, warp, lane);
      factors.scale_rows(scale, scale);
      wait_for_groups<0>();
      keep_in_place(flat);
      mask_products(products, sums, factors, warp);
      keep_in_place(products);
      if (HOLDS_QUERIES) work_out_now(products);
    }
    const int row = warp * TILE + lane / 4;
    const float since[2] = {scale * gates.since.at(row), scale * gates.since.at(row + 8)};
    GDNBENCH_PHASE_USING(mask, products);
    Sum sums[ROWS / 8];
    wait(memory.begun.there, shown % 2);
    GDNBENCH_PHASE(begun);
    fence_async_proxy();
    fence_warpgroup();
    if (HOLDS_QUERIES)
      multiply_operands<GDN_K, ROWS, false>(sums, q, matrix(memory.begun.rows));
    else
      multiply_rows<GDN_K, ROWS, false>(sums, matrix(queries.rows), matrix(memory.begun.rows));
    commit_group();
    // Before that, a state could have been in their place.
    if (!HOLDS_QUERIES && shown == 0) bring_queries(chunk + 1);
    wait_for_groups<0>();
    keep_in_place(sums);
    arrive_together(memory.begun.free, lane);
    GDNBENCH_PHASE(show);
    scale_rows(sums, since);
    keep_in_place(sums);
    wait(memory.written.there, shown % 2);
    GDNBENCH_PHASE(written);
    fence_async_proxy();
    fence_warpgroup();
    multiply_operands<CHUNK, ROWS, true>(sums, products, matrix(memory.written.rows));
    complete(sums);
    arrive_together(memory.written.free, lane);
    arrive_together(memory.barriers.done[key_place], lane);
    GDNBENCH_PHASE(mix);
    synchronise<SHOWING>();  // all warps are done with the queries
#pragma unroll
    for (int i = 0; i < ROWS / TILE; ++i) {
      Operand narrowed;
      narrow(narrowed, sums[2 * i], sums[2 * i + 1]);
      store_matrices(shared_address(&queries.outputs[warp * TILE + lane % 16].row[i * TILE + lane / 16 * 8]), narrowed);
    }
    __syncwarp();
    store_outputs(queries, at.output, (chunk - walk.silent) * CHUNK + warp * TILE, walk.tokens - walk.silent * CHUNK,
                  warp, lane);
    GDNBENCH_PHASE(output);
  }
}

// A block: carries the state of its rows through the chunks, and writes their outputs. Its memory is initialised.
__device__ __forceinline__ void prefill(FusedMemory& memory, const Place& at, const Walk& walk, float scale, int warp,
                                        unsigned lane) {
  if (warp < STATE_WARPS) {
    take_registers<160>();
    State s = {};
    bring_values(memory, at.v, 0, walk, warp, lane);
    begin_state(s, memory, at.state, warp, lane);
    carry_state(s, memory, at.v, walk, warp, lane);
    if (at.new_state != nullptr) store_state(at.new_state + static_cast<size_t>(warp * TILE) * GDN_K, s, lane);
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    give_registers<120>();
    write_outputs(memory, at, scale, walk, {0, 0}, warp - STATE_WARPS, lane);
  } else {
    give_registers<72>();
    prepare_chunks<1>(memory, at, walk, 0, 0, warp - STATE_WARPS - GROUP_WARPS, lane);
  }
}

}  // namespace gdn
