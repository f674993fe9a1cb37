// A prompt in one launch whose blocks take turns: each goes from sequence to sequence and from head to head, and its
// warpgroups need not be at the same one. Those that prepare chunks begin with the next while the state is still on its
// way through the last.
//
// The work is that of fused.cuh, for 64 rows of the state or for 128. With 64 there is one warpgroup that carries the
// state instead of two, half of what is handed on, and in place of the other one a second that prepares: each chunk of
// a sequence is prepared by the blocks of both halves of the rows, but twice as soon.
#pragma once
#include "spans.cuh"

namespace gdn {

// By a warpgroup that prepares, a warp a row of tiles: its share of a turn's chunks. It brings their keys, too.
__device__ __forceinline__ void prepare_chunks(TurnMemory& memory, const Turn& turn, int before, int group, int warp,
                                               unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  constexpr int STEP = PREPARING_GROUPS, OWN_AHEAD = AHEAD / STEP;
  // The places of the keys that come next are those of a chunk that the state may not have left yet.
  constexpr bool BRINGS_LATE = CHUNK_PLACES - AHEAD < SOLVED_PLACES;
  const Place& from = turn.at;
  const Walk& walk = turn.walk;
  const auto synchronise_group = [&] {
    if (STEP == 1 || group == 0)
      synchronise<PREPARING>();
    else if (STEP == 2 || group == 1)
      synchronise<SECOND_PREPARING>();
    else
      synchronise<THIRD_PREPARING>();
  };
  RawGates(&raw_gates)[2] = memory.raw_gates[group];
  GateInputs inputs, later;  // of two chunks at once: the first ones come from memory, one behind the other
  const auto load_gates = [&](GateInputs& to, int chunk) {
    to.load(from.a, from.b, chunk * CHUNK, walk.tokens, lane);
  };
  // The warps that have the least of the triangle see to the gates, one a chunk ahead of the others.
  const auto gates = [&](int raw, int whole) {
    if (warp == 0) {
      sum_decays(raw_gates[(before + raw) / STEP % 2], inputs, from.rate, from.dt_bias, walk.tokens - raw * CHUNK,
                 lane);
      inputs = later;
      load_gates(later, raw + 2 * STEP);
    }
    const RawGates& summed = raw_gates[(before + whole) / STEP % 2];
    ChunkGates& to = memory.gates[ChunkPlaces::place(before + whole)];
    if (warp == 1 && whole >= 0) store_gates(to, summed, lane);
    if (warp == 2 && whole >= 0) store_tile_gates(to, summed, lane);
  };
  // When all before the chunk whose places it takes are done with, those of gates and inverse are free, too.
  const auto bring_keys = [&](int chunk) {
    const int number = before + chunk, place = ChunkPlaces::place(number);
    memory.wait_until_done(number - CHUNK_PLACES);
    bring(memory.keys[place], from.k, walk, chunk, memory.keys_there[place], warp == 3 && lane == 0);
  };
  const int first = (group + (STEP - 1) * before) % STEP;  // the turn's first chunk whose number is the group's
  if (first >= walk.chunks) return;
  if (warp == 0) {
    load_gates(inputs, first);
    load_gates(later, first + STEP);
  }
#pragma unroll 1
  for (int own = 0; own < OWN_AHEAD; ++own) bring_keys(first + own * STEP);
#pragma unroll 1
  for (int own = 0; own <= OWN_AHEAD; ++own) {  // as far ahead as the loop goes on
    gates(first + own * STEP, own == 0 ? -1 : first + (own - 1) * STEP);
    synchronise_group();
  }
#pragma unroll 1
  for (int chunk = first; chunk < walk.chunks; chunk += STEP) {
    const int number = before + chunk, place = ChunkPlaces::place(number);
    const ChunkGates& own = memory.gates[place];
    TriangleTiles& triangle = memory.triangles[number % TRIANGLES];
    lane = worked_out_anew(lane);
    wait(memory.keys_there[place], ChunkPlaces::parity(number));
    const bool is_cut_off = own_tokens(walk, chunk) < CHUNK;
    if (is_cut_off) clear_rows(memory.keys[place], own_tokens(walk, chunk), warp, lane);
    // The gates are of the group's last chunk, after its barrier.
    if (OWN_AHEAD == 1 || is_cut_off) synchronise_group();
    arrive_together(memory.ready[place], lane);
    GDNBENCH_PHASE(keys);
    TileSums sums[SIDE];
    Sum(&flat)[TOKEN_PAIRS] = *reinterpret_cast<Sum(*)[TOKEN_PAIRS]>(&sums);
    fence_warpgroup();
    multiply_rows<GDN_K, CHUNK, false>(flat, matrix(memory.keys[place]), matrix(memory.keys[place]));
    commit_group();
    if (!BRINGS_LATE) bring_keys(chunk + AHEAD);
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
    if (BRINGS_LATE) memory.wait_until_done(number - SOLVED_PLACES);
    solve_any_row(memory.solved[Solved::place(number)], triangle, diagonal, own.beta, warp, lane);
    fence_async_proxy();
    arrive_together(memory.inverse_there[place], lane);
    GDNBENCH_PHASE(solve);
    if (BRINGS_LATE) bring_keys(chunk + AHEAD);
    gates(chunk + (OWN_AHEAD + 1) * STEP, chunk + AHEAD);
    GDNBENCH_PHASE(gates);
  }
  // The next turn's gates take the places of this one's last, which all have read.
  if (STEP > 1) synchronise_group();
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

// By a warpgroup: has memory bring a block's rows of a state near.
__device__ __forceinline__ void prefetch_state(const float* from, int warp, unsigned lane) {
  constexpr int LINE = 128 / sizeof(float);
  if (from == nullptr) return;
#pragma unroll
  for (int i = 0; i < ROWS * GDN_K / LINE / GROUP; ++i)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + ((i * GROUP_WARPS + warp) * WARP + lane) * LINE) : "memory");
}

// By the warpgroup of the outputs, of which a warp has 16 tokens of every chunk. It brings the queries, too.
__device__ __forceinline__ void write_outputs(TurnMemory& memory, const Place& at, float scale, const Walk& walk,
                                              const Count& before, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const auto bring_queries = [&](int chunk) {
    const int place = QueryRing::place(before.shown + chunk - walk.silent);
    bring(memory.queries[place].rows, at.q, walk, chunk, memory.queries_there[place], warp == 0 && lane == 0);
  };
  bring_queries(walk.silent);
#pragma unroll 1
  for (int chunk = 0; chunk < walk.silent; ++chunk) {
    memory.wait_until_ready(before.chunks + chunk);
    arrive_together(memory.done[ChunkPlaces::place(before.chunks + chunk)], lane);
  }
#pragma unroll 1
  for (int chunk = walk.silent; chunk < walk.chunks; ++chunk) {
    lane = worked_out_anew(lane);
    const int number = before.chunks + chunk, key_place = ChunkPlaces::place(number);
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
    memory.wait_until_ready(number);
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
      bring_queries(chunk + 1);
      Factors factors;
      factors.load<true>(gates, warp, lane);
      factors.scale_rows(scale, scale);
      wait_for_groups<0>();
      keep_in_place(flat);
      mask_products(products, sums, factors, warp);
      keep_in_place(products);
      work_out_now(products);
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
    complete(sums);
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
    arrive_together(memory.done[key_place], lane);
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

// The turns of a block, by their numbers: from `first` on, `step` apart.
struct Turns {
  int first, end, step;
};

// Calls `take` with each turn, and where it begins; `find` gives a turn by its number.
template <class Find, class Take>
__device__ __forceinline__ void for_each(const Turns& turns, Find find, Take take) {
  Count before = {0, 0};
#pragma unroll 1
  for (int number = turns.first; number < turns.end; number += turns.step) {
    const Turn turn = find(number);
    take(turn, before);
    before.chunks += turn.walk.chunks;
    before.shown += turn.walk.chunks - turn.walk.silent;
  }
}

// A block, each of its warps for itself. Its memory is initialised.
template <class Find>
__device__ __forceinline__ void take_turns(TurnMemory& memory, const Turns& turns, Find find, float scale, int warp,
                                           unsigned lane) {
  if (warp < STATE_WARPS) {
    take_registers<CARRYING_REGISTERS>();
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      const size_t rows = static_cast<size_t>(warp * TILE) * GDN_K;
      State s = {};
      bring_values(memory, turn.at.v, turn.walk, 0, before.chunks, warp == 0 && lane == 0);
      if (turn.at.state != nullptr) load_state(s, turn.at.state + rows, lane);
      carry_state(s, memory, turn.at.v, turn.walk, before, warp, lane);
      if (turn.at.new_state != nullptr) store_state(turn.at.new_state + rows, s, lane);
    });
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    if (SHOWING_REGISTERS > LAUNCHED_REGISTERS)
      take_registers<SHOWING_REGISTERS>();
    else
      give_registers<SHOWING_REGISTERS>();
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      prefetch_state(turn.next_state, warp - STATE_WARPS, lane);
      write_outputs(memory, turn.at, scale, turn.walk, before, warp - STATE_WARPS, lane);
    });
  } else {
    give_registers<PREPARING_REGISTERS>();
    const int group = warp / GROUP_WARPS - GROUPS - 1;
    for_each(turns, find, [&](const Turn& turn, const Count& before) {
      prepare_chunks(memory, turn, before.chunks, group, warp % GROUP_WARPS, lane);
    });
  }
}

}  // namespace gdn
