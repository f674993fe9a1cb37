// By two warpgroups: a head's state, from step to step. It is multiplied and written to as it would be in a step's middle.
#pragma once
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(full, narrow, show, read, take, write, last, come, rows, products, solve);

namespace kda {

// Stores an operand [16, 16] transposed, as rows of two pieces; lane l tells where row l % 8 + l / 16 * 8 has its piece l / 8 % 2.
__device__ __forceinline__ void store_transposed(unsigned address, const Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

// 16 bytes, without a branch.
__device__ __forceinline__ void store_if(bool is_there, void* to, const Operand& x) {
  asm volatile("{ .reg .pred there; setp.ne.b32 there, %5, 0;\n@there st.global.v4.b32 [%0], {%1, %2, %3, %4}; }" ::"l"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(static_cast<int>(is_there))
               : "memory");
}

// A lane's factors of channels from `From` on.
template <int From, int To>
struct Factors {
  float2 by[(To - From) / 8];

  __device__ __forceinline__ Factors(const float* factors, unsigned lane) {
#pragma unroll
    for (int n = From / 8; n < To / 8; ++n) by[n - From / 8] = *reinterpret_cast<const float2*>(&factors[n * 8 + lane % 4 * 2]);
  }
  __device__ __forceinline__ void scale(State& s) const {
#pragma unroll
    for (int n = From / 8; n < To / 8; ++n) {
      const float2 own = by[n - From / 8];
      s[n][0] *= own.x, s[n][1] *= own.y, s[n][2] *= own.x, s[n][3] *= own.y;
    }
  }
};

__device__ __forceinline__ void narrow_sums(Operand (&to)[TILES], const TokenSums& sums) {
#pragma unroll
  for (int i = 0; i < TILES; ++i) narrow(to[i], sums[2 * i], sums[2 * i + 1]);
}

// A lane's part of a step's outputs for its warp's rows: of two tokens eight each.
struct Shown {
  Operand of[TILES];

  // By way of the places of their values.
  __device__ __forceinline__ void turn(Stage& stage, const TokenSums& sums, int warp, unsigned lane) {
    char* const rows = stage.bands[0].values;
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      narrow(of[i], sums[2 * i], sums[2 * i + 1]);
#pragma unroll
      for (int n = 0; n < 4; ++n)
        of[i][n] = times(of[i][n], *reinterpret_cast<const unsigned*>(&stage.norms[i * TILE + n / 2 * 8 + lane % 4 * 2]));
      store_transposed(shared_address(rows) + in_bands(i * TILE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2), of[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      const uint4 x = *reinterpret_cast<const uint4*>(rows + in_bands(i * TILE + lane % 16, 2 * warp + lane / 16));
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
  const Matrix rows = matrix(first);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long right = rows.descriptor(in_bands(0, 2 * k));
    if (k == 0)
      multiply_tokens<false>(sums, s[k], right);
    else
      multiply_tokens<true>(sums, s[k], right);
  }
}

// What a step's tokens give, times a matrix of them, whose pieces begin at Piece.
template <int Piece, bool Adds>
__device__ __forceinline__ void multiply_square(TokenSums& sums, const Operand (&x)[TILES], const Square& square) {
  const Matrix rows = matrix(square);
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    const unsigned long long right = rows.descriptor(banded<TOKENS>(0, Piece + 2 * i));
    if (i == 0)
      multiply_tokens<Adds>(sums, x[i], right);
    else
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
    column = band * BAND + (of == 3 && item.is_transition ? GDN_V : 0);  // beyond a head's values are zeros
  }
  // Once the place is free. Without a branch, so that it goes between products.
  __device__ __forceinline__ void bring(FusedMemory& memory, int step, unsigned lane) const {
    asm volatile(
        "{ .reg .pred one; setp.ne.b32 one, %6, 0;\n"
        "@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%5], %7;\n"
        "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5]; }" ::"r"(
            shared_address(&memory.stages[step % STAGES]) + place),
        "l"(map), "r"(column), "r"(head), "r"(begin + step * TOKENS), "r"(shared_address(&memory.come[step % STAGES])),
        "r"(static_cast<int>(lane == 0 && step < steps)), "n"(TOKENS * BAND_BYTES)
        : "memory");
  }
};

// By a warp of the two warpgroups: its 16 rows of the state over the steps, of which there is one.
__device__ __forceinline__ void carry(State& s, FusedMemory& memory, const Bringer& bringer, const Item& item, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int steps = bringer.steps, silent = item.silent;
  __nv_bfloat16* to = item.output + (static_cast<long long>(item.begin - TOKENS) * GDN_H + item.head) * GDN_V + warp * TILE;
  TokenSums sums, outputs = {};
  const auto take = [&](int step, bool shows) {
    const int place = uniform(step % STAGES), last = uniform((step + STAGES - 1) % STAGES);
    const Stage& stage = memory.stages[place];
    Operand begun[KEY_TILES], values[TILES], x[TILES];
    wait(memory.full[place], step / STAGES % 2);
    GDNBENCH_PHASE(full);
    const int2 is_small = *reinterpret_cast<const int2*>(stage.is_small);
    const Factors<0, GDN_K> since(stage.since, lane);
    if (uniform(is_small.x | is_small.y)) {
      if (uniform(is_small.x)) Factors<0, BAND>(stage.before, lane).scale(s);
      if (uniform(is_small.y)) Factors<BAND, GDN_K>(stage.before, lane).scale(s);
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
    if (shows) shown.turn(memory.stages[last], outputs, warp, lane);
    keep_in_place(outputs);
#pragma unroll
    for (int i = 0; i < TILES; ++i)
      load_matrices_transposed(values[i], shared_address(stage.bands[0].values) +
                                              in_bands(i * TILE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2));
    keep_in_place(values);
    if (shows) shown.leave(memory.empty[last], lane);
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
    const Matrix earlier = matrix(stage.bands[0].earlier, sizeof(Band));
#pragma unroll
    for (int i = 0; i < TILES; ++i) multiply<true, true>(s, x[i], earlier.descriptor(i * (TILE * BAND_BYTES)));
    commit_group();
    multiply_square<0, true>(outputs, x, stage.products);
    commit_group();
    if (shows) {
      wait(memory.empty[last], (step - 1) / STAGES % 2);
      bringer.bring(memory, step - 1 + STAGES, lane);
    }
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
  Stage& last = memory.stages[(steps - 1) % STAGES];
  Factors<0, GDN_K>(last.rest, lane).scale(s);
  Shown shown;
  shown.turn(last, outputs, warp, lane);
  shown.send(to, steps > silent ? item.tokens - (steps - 1) * TOKENS : 0, lane);
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
    for (int i = 0; i < 4; ++i) {
      const int row = warp * TILE + lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
      s[n][i] = item.is_transition && row == column ? 1.f : 0.f;
    }
}

}  // namespace kda
