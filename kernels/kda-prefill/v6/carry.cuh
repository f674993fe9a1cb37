// By two warpgroups: a head's state, from step to step. It is multiplied and written to as it would be in a step's middle.
#pragma once
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(full, narrow, show, read, take, write, last, come, rows, products, solve);

namespace kda {

// Of one of the warpgroups that carry. Its barrier's number comes after those of others.
__device__ __forceinline__ void synchronise_rows(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + (1 + TOLD) * PREPARERS + group), "n"(GROUP_WARPS * WARP) : "memory");
}

// A lane's part of a step's outputs for its warp's rows: of two tokens eight each.
struct Shown {
  Operand of[TILES];

  __device__ __forceinline__ void narrow_all(const Stage& stage, const TokenSums& sums, unsigned lane) {
#pragma unroll
    for (int i = 0; i < TILES; ++i) narrow_outputs(of[i], sums, stage.norms, i, lane);
  }
  // In the places of their values.
  __device__ __forceinline__ void store(Stage& stage, int warp, unsigned lane) const {
#pragma unroll
    for (int i = 0; i < TILES; ++i)
      store_transposed(
          shared_address(stage.bands[0].values) + in_bands<Band>(i * TILE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2), of[i]);
  }
  // To memory, those of the last step: after it another sequence may have tokens.
  __device__ __forceinline__ void send(const Item& item, const Stage& stage, int warp, unsigned lane) const {
    const int first = (item.steps() - 1) * TOKENS;
    __nv_bfloat16* const to =
        item.output + (static_cast<long long>(item.begin + first) * GDN_H + item.head) * GDN_V + warp * TILE + lane / 16 * 8;
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const int token = i * TILE + lane % 16;
      const uint4 x = *reinterpret_cast<const uint4*>(stage.bands[0].values + in_bands<Band>(token, 2 * warp + lane / 16));
      if (first + token < item.tokens) *reinterpret_cast<uint4*>(to + static_cast<long long>(token) * (GDN_H * GDN_V)) = x;
    }
  }
};

// By a warpgroup: its band of a step's outputs to memory, out of the places of their values. One lane asks for the copy, without a
// branch, so that it goes between products.
struct Sender {
  const TensorMap* map;
  int band, head;
  bool speaks;

  __device__ __forceinline__ Sender(const Item& item, int warp, unsigned lane)
      : map(item.outputs), band(warp / GROUP_WARPS), head(item.head), speaks(warp % GROUP_WARPS == 0 && lane == 0) {}
  // What all lanes of the warpgroup have stored before.
  __device__ __forceinline__ void send(const Stage& stage, int token, bool is_wanted) const {
    fence_async_proxy();
    synchronise_rows(band);
    asm volatile(
        "{ .reg .pred one; setp.ne.b32 one, %5, 0;\n"
        "@one cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n"
        "cp.async.bulk.commit_group; }" ::"l"(map),
        "r"(band * BAND), "r"(head), "r"(token), "r"(shared_address(stage.bands[band].values)),
        "r"(static_cast<int>(speaks && is_wanted))
        : "memory");
  }
  // Arrives for the warpgroup once the copy has read them. All of the stage was read before they were stored.
  __device__ __forceinline__ void leave(Barrier& empty) const {
    asm volatile(
        "{ .reg .pred one; setp.ne.b32 one, %1, 0;\n"
        "cp.async.bulk.wait_group.read 0;\n"
        "@one mbarrier.arrive.shared::cta.b64 _, [%0]; }" ::"r"(shared_address(&empty)),
        "r"(static_cast<int>(speaks))
        : "memory");
  }
};

// The state times keys, and times queries.
__device__ __forceinline__ void multiply_state(TokenSums& of_keys, TokenSums& of_queries, const Operand (&s)[KEY_TILES],
                                               const Stage& stage) {
  static_assert(sizeof(Band::keys) == TOKENS * BAND_BYTES, "queries' rows follow those of keys");
  const Matrix rows = matrix(stage.bands[0].keys);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long right = rows.descriptor(in_bands<Band>(0, 2 * k));
    if (k == 0)
      multiply_both<false>(of_keys, of_queries, s[k], right);
    else
      multiply_both<true>(of_keys, of_queries, s[k], right);
  }
}

// A warpgroup's values times T.
__device__ __forceinline__ void multiply_values(TokenSums& sums, const Stage& stage, int group) {
  const Matrix values = matrix(stage.bands[group].values), solved = matrix(stage.solved);
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    const unsigned long long left = values.descriptor(i * (TILE * BAND_BYTES)), right = solved.descriptor(banded<TOKENS>(0, 2 * i));
    if (i == 0)
      multiply_tokens<false, true>(sums, left, right);
    else
      multiply_tokens<true, true>(sums, left, right);
  }
}

// What a step's tokens give, times a matrix of them, whose pieces begin at Piece; added to the sums.
template <int Piece>
__device__ __forceinline__ void multiply_square(TokenSums& sums, const Operand (&x)[TILES], const Square& square) {
  const Matrix rows = matrix(square);
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    const unsigned long long right = rows.descriptor(banded<TOKENS>(0, Piece + 2 * i));
    multiply_tokens<true>(sums, x[i], right);
  }
}

// Of keys, queries, gates and values a warp's part: half of one's elements.
struct Bringer {
  const TensorMap* map;
  int place, column;  // in a stage
  int head, begin, steps;

  __device__ __forceinline__ Bringer(const Tensors& in, const Item& item, int warp)
      : head(item.head), begin(item.begin), steps(item.steps()) {
    const int of = warp / BANDS, band = warp % BANDS;  // as they lie in a band
    map = of < 2 ? (of == 0 ? in.k : in.q) : (of == 2 ? in.g : in.v);
    place = band * static_cast<int>(sizeof(Band)) + of * (TOKENS * BAND_BYTES);
    column = band * BAND;
  }
  // Once the place is free.
  __device__ __forceinline__ void bring(FusedMemory& memory, int step, unsigned lane) const {
    bring_box(shared_address(&memory.stages[step % STAGES]) + place, map, column, head, begin + step * TOKENS, memory.come[step % STAGES],
              lane == 0 && step < steps);
  }
};

// By a warp of the two warpgroups: its 16 rows of the state over the steps, of which there is one.
__device__ __forceinline__ void carry(State& s, FusedMemory& memory, const Bringer& bringer, const Item& item, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int steps = bringer.steps, silent = item.silent, begin = item.begin, group = warp / GROUP_WARPS;
  const Sender sender(item, warp, lane);
  TokenSums outputs = {};
  Factors<> since;
  int2 is_small;
  const auto load_ahead = [&](int step) {
    const Stage& stage = memory.stages[uniform(step % STAGES)];
    wait(memory.full[uniform(step % STAGES)], step / STAGES % 2);
    is_small = *reinterpret_cast<const int2*>(stage.is_small);
    since.load(stage.since, lane);
  };
  const auto take = [&](int step, bool shows) {
    const int place = uniform(step % STAGES), last = uniform((step + STAGES - 1) % STAGES);
    const Stage& stage = memory.stages[place];
    Operand begun[KEY_TILES], x[TILES];
    TokenSums sums, reads, taken;
    fence_warpgroup();
    multiply_values(taken, stage, group);
    commit_group();
    Shown shown;
    if (shows) shown.narrow_all(memory.stages[last], outputs, lane);
    if (uniform(is_small.x | is_small.y)) {
      if (uniform(is_small.x)) Factors<0, BAND>(stage.before, lane).scale(s);
      if (uniform(is_small.y)) Factors<BAND, GDN_K>(stage.before, lane).scale(s);
    }
    since.scale(s);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
    if (shows) keep_in_place(shown.of);
    GDNBENCH_PHASE(narrow);
    fence_warpgroup();
    multiply_state(sums, reads, begun, stage);
    commit_group();
    if (shows) {
      shown.store(memory.stages[last], warp, lane);
      sender.send(memory.stages[last], begin + (step - 1) * TOKENS, step > silent);
    }
    GDNBENCH_PHASE(show);
    wait_for_groups<0>();
    keep_in_place(sums), keep_in_place(reads), keep_in_place(taken);
    // Apart from the sums of what follows: ptxas would wait for each product.
#pragma unroll
    for (int n = 0; n < TOKENS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs[n][i] = reads[n][i];
    GDNBENCH_PHASE(read);
    narrow_sums(x, sums);
    keep_in_place(x);
    fence_warpgroup();
    multiply_square<BESIDE>(taken, x, stage.solved);
    commit_group();
    synchronise_rows(group);  // values have been read, for whose places the next step has outputs
    wait_for_groups<0>();
    keep_in_place(taken);
    GDNBENCH_PHASE(take);
    narrow_sums(x, taken);
    keep_in_place(x);
    keep_in_place(s);
    fence_warpgroup();
    const Matrix earlier = matrix(stage.bands[0].earlier, sizeof(Band));
#pragma unroll
    for (int i = 0; i < TILES; ++i) multiply<true, true>(s, x[i], earlier.descriptor(i * (TILE * BAND_BYTES)));
    commit_group();
    multiply_square<0>(outputs, x, stage.products);
    commit_group();
    if (shows) {
      sender.leave(memory.empty[last]);
      wait(memory.empty[last], (step - 1) / STAGES % 2);
      bringer.bring(memory, step - 1 + STAGES, lane);
    }
    load_ahead(min(step + 1, steps - 1));
    GDNBENCH_PHASE(full);
    wait_for_groups<1>();
    keep_in_place(s);
    GDNBENCH_PHASE(write);
    wait_for_groups<0>();
    keep_in_place(outputs);
    GDNBENCH_PHASE(last);
  };
  load_ahead(0);
  GDNBENCH_PHASE(full);
  take(0, false);
#pragma unroll 1
  for (int step = 1; step < steps; ++step) take(step, true);
  Stage& last = memory.stages[(steps - 1) % STAGES];
  Factors<>(last.rest, lane).scale(s);
  Shown shown;
  shown.narrow_all(last, outputs, lane), shown.store(last, warp, lane);
  __syncwarp();
  if (steps > silent) shown.send(item, last, warp, lane);
}

// A state's rows of a warp, where an item begins.
__device__ __forceinline__ void begin_state(State& s, const Item& item, int warp, unsigned lane) {
  if (item.state != nullptr) {
    load_state(s, item.state + warp * TILE * GDN_K, lane);
    return;
  }
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0.f;
}

}  // namespace kda
