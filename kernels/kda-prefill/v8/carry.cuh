// By one warpgroup or by two: a head's state, or half of its rows, from step to step. It is multiplied and written to as it would be in
// a step's middle.
#pragma once
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(full, narrow, show, read, take, write, last, come, rows, products, solve);

namespace kda {

// 16 bytes, without a branch.
__device__ __forceinline__ void store_if(bool is_there, void* to, const Operand& x) {
  asm volatile("{ .reg .pred there; setp.ne.b32 there, %5, 0;\n@there st.global.v4.b32 [%0], {%1, %2, %3, %4}; }" ::"l"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(static_cast<int>(is_there))
               : "memory");
}

// A lane's part of a step's outputs for its warp's rows: of two tokens eight each.
struct Shown {
  Operand of[TILES];

  // By way of the places of their values.
  __device__ __forceinline__ void turn(Values& values, const Numbers& numbers, const TokenSums& sums, int tile, unsigned lane) {
    char* const rows = values.bands[0];
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      narrow_outputs(of[i], sums, numbers.norms, i, lane);
      store_transposed(shared_address(rows) + in_values(i * TILE + lane / 16 * 8 + lane % 8, 2 * tile + lane / 8 % 2), of[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const uint4 x = *reinterpret_cast<const uint4*>(rows + in_values(i * TILE + lane % 16, 2 * tile + lane / 16));
      of[i][0] = x.x, of[i][1] = x.y, of[i][2] = x.z, of[i][3] = x.w;
    }
    keep_in_place(of);
  }
  // Arrives for the warp, once all of its lanes have loaded their part: what they wait for is which lane it is. Else copies into the
  // place could come before the loads are done, for an arrival alone waits for none.
  __device__ __forceinline__ void leave(Barrier& empty, unsigned lane) const {
    static_assert(TILES == 2, "the last load of each tile");
    if (lane == static_cast<unsigned>(__all_sync(ALL_LANES, (of[0][0] & of[1][0]) == 0x7fff7fffu))) arrive(empty);
  }
  // To memory, from `to` on those of the first token, of which so many are wanted.
  __device__ __forceinline__ void send(__nv_bfloat16* to, int tokens, unsigned lane) const {
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const int token = i * TILE + lane % 16;
      store_if(token < tokens, to + static_cast<long long>(token) * (GDN_H * GDN_V) + lane / 16 * 8, of[i]);
    }
  }
};

// The state times keys or queries.
__device__ __forceinline__ void multiply_state(TokenSums& sums, const Operand (&s)[KEY_TILES], const char* first) {
  const Matrix rows = matrix_here(first);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long right = rows.descriptor(in_bands<Band>(0, 2 * k));
    if (k == 0)
      multiply_tokens<false>(sums, s[k], right);
    else
      multiply_tokens<true>(sums, s[k], right);
  }
}

// What a step's tokens give, times their products of queries and keys.
__device__ __forceinline__ void multiply_products(TokenSums& sums, const Operand (&x)[TILES], const char* products) {
  constexpr unsigned SWIZZLE_64_BYTES = 2u << 30;
  const unsigned low = matrix_here(products).low;
#pragma unroll
  for (int i = 0; i < TILES; ++i)
    multiply_tokens<true>(
        sums, x[i], static_cast<unsigned long long>(SWIZZLE_64_BYTES | 8 * SQUARE_BYTES / 16) << 32 | (low + in_products(0, 2 * i) / 16));
}

// What a step's tokens give, times a matrix of them, whose pieces begin at Piece.
template <int Piece, bool Adds>
__device__ __forceinline__ void multiply_square(TokenSums& sums, const Operand (&x)[TILES], const Square& square) {
  const Matrix rows = matrix_here(square);
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    const unsigned long long right = rows.descriptor(banded<TOKENS>(0, Piece + 2 * i));
    if (i == 0)
      multiply_tokens<Adds>(sums, x[i], right);
    else
      multiply_tokens<true>(sums, x[i], right);
  }
}

// Brings what a block goes over: a warp has one box of tokens or two, half of the elements of keys, queries or gates, or of values.
struct Bringer {
  const Tensors& in;
  int head, begin, steps, rank;
  int boxes[2], band;  // of tokens, as they lie in bands, and of values; or none, -1
  bool is_transition, leads;

  // Of the warps that bring the first ones; there are as many as carry, which are all of them where all rows are the block's.
  __device__ __forceinline__ Bringer(const Tensors& in, const Item& item, const Share& share, int warp)
      : in(in), head(item.head), begin(item.begin), steps(item.steps()), rank(share.rank), is_transition(share.is_transition),
        leads(warp == 0) {
    const int token_boxes = 3 * BANDS;
    if (item.is_behind) {
      boxes[0] = warp < token_boxes ? warp : -1, boxes[1] = -1;
      band = warp < token_boxes ? -1 : warp - token_boxes;
    } else {
      boxes[0] = warp, boxes[1] = warp < token_boxes - GROUP_WARPS ? GROUP_WARPS + warp : -1;
      band = warp == GROUP_WARPS - 1 ? rank : -1;
    }
  }
  __device__ __forceinline__ void bring(const void* to, const TensorMap* map, int column, int step, Barrier& barrier, bool is_there) const {
    bring_box(shared_address(to), map, column, head, begin + step * TOKENS, barrier, is_there && step < steps);
  }
  // Of the block's own step of that number, once its stage is free.
  __device__ __forceinline__ void bring_tokens(FusedMemory& memory, int number, unsigned lane) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int box = boxes[i], of = box / BANDS, stage = number % OWN_STAGES;
      bring(memory.stages[stage].bands[0].keys + box % BANDS * static_cast<int>(sizeof(Band)) + of * (TOKENS * BAND_BYTES),
            of == 0 ? in.k : (of == 1 ? in.q : in.g), box % BANDS * BAND, number * PAIR + rank, memory.come[stage], box >= 0 && lane == 0);
    }
  }
  __device__ __forceinline__ void bring_values(FusedMemory& memory, int step, unsigned lane) const {
    bring(memory.values[step % VALUES].bands[0] + band * (TOKENS * BAND_BYTES), in.v,
          band * BAND + (is_transition ? GDN_V : 0),  // beyond a head's values are zeros
          step, memory.values_come[step % VALUES], band >= 0 && lane == 0);
  }
  // The first ones. Those of all blocks come at once: the first steps' before others.
  __device__ __forceinline__ void bring_first(FusedMemory& memory, unsigned lane) const {
    bring_tokens(memory, 0, lane);
    for (int step = 0; step < VALUES; ++step) bring_values(memory, step, lane);
    for (int number = 1; number < OWN_STAGES; ++number) bring_tokens(memory, number, lane);
  }
  // Once a step is no more needed here.
  __device__ __forceinline__ void go_on(FusedMemory& memory, int step, unsigned lane) const {
    wait(memory.empty[step % VALUES], step / VALUES % 2);
    bring_values(memory, step + VALUES, lane);
    if (step % PAIR == rank) return;
    if (leads && lane == 0 && step + PAIR * OTHERS < steps) {
      const int number = step / PAIR % OTHERS;
      arrive_expecting(memory.full[OWN_STAGES + number], SENT_BYTES);
      arrive_in_block(memory.taken[number], 1 - rank);
    }
    // The block's own step before it is free once it has come to the other block, which tells as it is done with it.
    const int own = (step + 1) / PAIR - 1;
    if (own < 0 || own * PAIR + rank + PAIR * OWN_STAGES >= steps) return;
    wait(memory.taken[own % OTHERS], own / OTHERS % 2);
    bring_tokens(memory, own + OWN_STAGES, lane);
  }
};

// By a warp that carries: its 16 rows of the state over the steps, of which there is one.
__device__ __forceinline__ void carry(State& s, FusedMemory& memory, const Bringer& bringer, const Item& item, const Share& share, int warp,
                                      unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int steps = bringer.steps, silent = item.silent, rank = share.rank, tile = share.first_tile + warp;
  __nv_bfloat16* to = item.output + (static_cast<long long>(item.begin - TOKENS) * GDN_H + item.head) * GDN_V + tile * TILE;
  TokenSums sums, outputs = {};
  const auto take = [&](int step, bool shows) {
    const Place here(step, rank);
    const int place = uniform(here.stage), before = uniform(Place(step - 1, rank).stage);
    const Stage& stage = memory.stages[place];
    const Numbers& numbers = memory.numbers[place];
    Values& last = memory.values[(step + VALUES - 1) % VALUES];
    Operand begun[KEY_TILES], values[TILES], x[TILES];
    wait(memory.full[place], here.parity);
    GDNBENCH_PHASE(full);
    Factors<> since(numbers.first, lane);
    if (shows) {
      const Numbers& old = memory.numbers[before];
      const Factors<> rest(old.rest, lane);
      const int2 small = *reinterpret_cast<const int2*>(numbers.first_is_small), others = *reinterpret_cast<const int2*>(old.rest_is_small);
      if (uniform(small.x | small.y | others.x | others.y))
        rest.scale(s);  // fp32 may have no number for both
      else
        since.multiply_with(rest);
    }
    since.scale(s);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
    GDNBENCH_PHASE(narrow);
    fence_warpgroup();
    multiply_state(sums, begun, stage.bands[0].keys);
    commit_group();
    Shown shown;
    if (shows) shown.turn(last, memory.numbers[before], outputs, tile, lane);
    keep_in_place(outputs);
    wait(memory.values_come[step % VALUES], step / VALUES % 2);
#pragma unroll
    for (int i = 0; i < TILES; ++i)
      load_matrices_transposed(values[i], shared_address(memory.values[step % VALUES].bands) +
                                              in_values(i * TILE + lane / 16 * 8 + lane % 8, 2 * tile + lane / 8 % 2));
    keep_in_place(values);
    if (shows) shown.leave(memory.empty[(step + VALUES - 1) % VALUES], lane);
    GDNBENCH_PHASE(show);
    wait_for_groups<0>();
    keep_in_place(sums);
    GDNBENCH_PHASE(read);
    narrow_sums(x, sums);
    keep_in_place(x);
    // Products of outputs run while what the chain goes on with is narrowed.
    fence_warpgroup();
    multiply_square<0, false>(sums, values, stage.solved);
    multiply_square<BESIDE, true>(sums, x, stage.solved);
    commit_group();
    multiply_state(outputs, begun, stage.bands[0].queries);
    commit_group();
    if (shows) shown.send(to, step > silent ? TOKENS : 0, lane);
    to += TOKENS * GDN_H * GDN_V;
    wait_for_groups<1>();
    keep_in_place(sums);
    GDNBENCH_PHASE(take);
    narrow_sums(x, sums);
    keep_in_place(x);
    keep_in_place(s);
    fence_warpgroup();
    const Matrix earlier = matrix_here(stage.bands[0].earlier, sizeof(Band));
#pragma unroll
    for (int i = 0; i < TILES; ++i) multiply<true, true>(s, x[i], earlier.descriptor(i * (TILE * BAND_BYTES)));
    commit_group();
    multiply_products(outputs, x, stage.products);
    commit_group();
    if (shows && item.is_behind) bringer.go_on(memory, step - 1, lane);
    wait_for_groups<1>();
    keep_in_place(s);
    GDNBENCH_PHASE(write);
    wait_for_groups<0>();
    keep_in_place(outputs);
    GDNBENCH_PHASE(last);
  };
  take(0, false);
#pragma unroll 1
  for (int step = 1; step < steps; ++step) take(step, true);
  const Numbers& numbers = memory.numbers[Place(steps - 1, rank).stage];
  Factors<>(numbers.rest, lane).scale(s);
  Shown shown;
  shown.turn(memory.values[(steps - 1) % VALUES], numbers, outputs, tile, lane);
  shown.send(to, steps > silent ? item.tokens - (steps - 1) * TOKENS : 0, lane);
}

// A state's rows of a warp, where an item begins.
__device__ __forceinline__ void begin_state(State& s, const Item& item, const Share& share, int warp, unsigned lane) {
  const int tile = share.first_tile + warp;
  if (item.state != nullptr && !item.is_behind) {
    load_state(s, item.state + tile * TILE * GDN_K, lane);
    return;
  }
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = tile * TILE + lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
      s[n][i] = share.is_transition && row == column ? 1.f : 0.f;
    }
}

}  // namespace kda
