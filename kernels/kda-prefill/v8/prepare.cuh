// By warpgroups that take the block's own steps in turns: what of a step needs neither the state nor values, in the places where its
// tokens came, and from there to the other block.
#pragma once
#include "memory.cuh"

namespace kda {

// Of one of the warpgroups that prepare.
__device__ __forceinline__ void synchronise_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(GROUP_WARPS * WARP) : "memory");
}

// Of its first two warps: the second one waits for what the first has told.
enum Told : unsigned { NORMS, FIRST };
constexpr int TOLD = 2;
__device__ __forceinline__ void tell(Told what, int group) {
  asm volatile("bar.arrive %0, %1;" ::"r"(1 + PREPARERS + TOLD * group + what), "n"(2 * WARP) : "memory");
}
__device__ __forceinline__ void hear(Told what, int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + PREPARERS + TOLD * group + what), "n"(2 * WARP) : "memory");
}

// Of a warpgroup: the last warp goes on when all have come here, the others at once.
__device__ __forceinline__ void tell_last_warp(int group, bool is_last) {
  if (is_last)
    asm volatile("bar.sync %0, %1;" ::"r"(1 + (1 + TOLD) * PREPARERS + group), "n"(GROUP_WARPS * WARP) : "memory");
  else
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + (1 + TOLD) * PREPARERS + group), "n"(GROUP_WARPS * WARP) : "memory");
}

// A lane's two channels: their decays are 2^(1 / (bound + bound 2^(slope g + shift))).
struct Channels {
  float2 shift;
  float slope, bound;  // one by the bound

  __device__ __forceinline__ Channels(const Tensors& in, int head, int pair) {
    slope = -LOG2_E * exp2_fast(LOG2_E * in.A_log[head]), bound = reciprocal(LOG2_E * in.lower_bound);
    shift = times(slope, reinterpret_cast<const float2*>(in.dt_bias + head * GDN_K)[pair]);
  }
  __device__ __forceinline__ float2 log_decays(unsigned gates) const {
    const float2 x = unpack_bf16(gates);
    const auto log = [&](float x, float shift) { return reciprocal(fmaf(exp2_fast(fmaf(slope, x, shift)), bound, bound)); };
    return make_float2(log(x.x, shift.x), log(x.y, shift.y));
  }
};

// By a warpgroup: zeros in the place of tokens after the sequence's end, whose gates leave all as it is.
__device__ __forceinline__ void clear_tokens(Stage& stage, int tokens, int warp, unsigned lane) {
  for (int row = tokens + warp; row < TOKENS; row += GROUP_WARPS) {
    if (lane >= GDN_K / 8) continue;
    const auto put = [&](char* rows, unsigned x) { *reinterpret_cast<uint4*>(rows + in_bands(row, lane)) = make_uint4(x, x, x, x); };
    Band& first = stage.bands[0];
    put(first.keys, 0), put(first.queries, 0), put(first.earlier, 0xff80ff80u);
  }
}

// A lane's pairs of channels in a band, of sixteen rows. The compiler would not know by itself that rows lie apart, and an address
// for each of them would fill registers.
struct Pairs {
  unsigned base;  // in shared memory, of the first row

  __device__ __forceinline__ Pairs(const Band& band, int first, unsigned lane)
      : base(shared_address(&band) + first * BAND_BYTES + lane * 4) {}
  __device__ __forceinline__ unsigned place(int part, int row) const {
    return (base ^ row % 8 * 16) + part + row * BAND_BYTES;
  }
  __device__ __forceinline__ unsigned load(int part, int row) const {
    unsigned x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(place(part, row)));
    return x;
  }
  __device__ __forceinline__ void store(int part, int row, unsigned x) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(place(part, row)), "r"(x));
  }
};
constexpr int KEYS = 0, QUERIES = sizeof(Band::keys), EARLIER = QUERIES + sizeof(Band::queries);  // as they lie in a band

// A lane's part of four rows as they come.
struct Four {
  unsigned keys[4], queries[4], gates[4];
};

// By a warp: a band of the rows of sixteen tokens after the middle if they are Later, else before it, and of their queries' squares.
// Away from the middle decays are multiplied, and reciprocals taken of every fourth product. Returns what is kept of the tokens.
// Squares in bf16 are added up by tensor cores: a product of four tokens' with ones in two columns gives sums of eight channels.
template <bool Later>
__device__ __forceinline__ float2 prepare_rows(float* squares, const Pairs& pairs, const Channels& channels, unsigned lane) {
  const auto row = [](int i) { return Later ? i : TILE - 1 - i; };
  Four rows[2];  // in turns: the next ones are loaded before others are stored, which takes as long
  const auto load = [&](int from) {
    Four& to = rows[from / 4 % 2];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.gates[i] = pairs.load(EARLIER, row(from + i));
#pragma unroll
    for (int i = 0; i < 4; ++i) to.keys[i] = pairs.load(KEYS, row(from + i)), to.queries[i] = pairs.load(QUERIES, row(from + i));
  };
  load(0);
  float2 all = make_float2(1.f, 1.f);
  Sum sums = {};
#pragma unroll
  for (int from = 0; from < TILE; from += 4) {
    const Four& own = rows[from / 4 % 2];
    if (from + 4 < TILE) load(from + 4);
    float2 decays[4];
    unsigned small[4], large[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      decays[i] = exp2_of(channels.log_decays(own.gates[i]));
      if (Later) all = times(all, decays[i]);
      small[i] = narrowed(all);
      if (!Later && i < 3) all = times(all, decays[i]);
    }
    float2 inverse = make_float2(reciprocal(all.x), reciprocal(all.y));
    if (!Later) all = times(all, decays[3]);
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      large[i] = narrowed(inverse);
      if (i > 0) inverse = times(inverse, decays[Later ? i : i - 1]);
    }
    Operand products;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned later = Later ? small[i] : large[i], earlier = Later ? large[i] : small[i];
      pairs.store(KEYS, row(from + i), times(own.keys[i], later));
      pairs.store(QUERIES, row(from + i), times(own.queries[i], later));
      pairs.store(EARLIER, row(from + i), times(own.keys[i], earlier));
      products[i] = times(own.queries[i], own.queries[i]);
    }
    const int column = lane / 4;
    mma_bf16(sums, products, column == from / 2 ? 0x3f803f80u : 0, column == from / 2 + 1 ? 0x3f803f80u : 0);
  }
  scatter_sums<8, 4>(sums, lane);
  squares[row(lane % 4 * 4 + lane / 16 + lane / 8 % 2 * 2)] = sums[0];
  return all;
}

// By a warp: what is kept of a band's channels in sixteen tokens. The state is multiplied with the product of two such factors, unless
// one is so small that fp32 may have no number for it.
__device__ __forceinline__ void store_decays(float* factors, int* is_small, float2 kept, int band, unsigned lane) {
  constexpr float LEAST = 0x1p-63f;
  reinterpret_cast<float2*>(factors)[band * WARP + lane] = kept;
  const bool is_any = __any_sync(ALL_LANES, fminf(kept.x, kept.y) < LEAST);
  if (lane == 0) is_small[band] = is_any;
}

// A tile of a matrix [TOKENS, TOKENS], whose pieces begin at `piece`; or one of P.
__device__ __forceinline__ void store_tile(Square& to, const TileSums& x, int row, int column, int piece, unsigned lane) {
  Operand pairs;
  narrow(pairs, x[0], x[1]);
  store_matrices(shared_address(to) + banded<TOKENS>(row * TILE + lane % 16, piece + 2 * column + lane / 16), pairs);
}
__device__ __forceinline__ void store_product(char* to, const TileSums& x, int row, int column, unsigned lane) {
  Operand pairs;
  narrow(pairs, x[0], x[1]);
  store_matrices(shared_address(to) + in_products(row * TILE + lane % 16, 2 * column + lane / 16), pairs);
}

// Once, by a warp: the tiles above the diagonals are zeros.
__device__ __forceinline__ void clear_tiles(Stage& stage, int warp, unsigned lane) {
  const TileSums none = {};
  if (warp == 0)
    store_tile(stage.solved, none, 0, 1, 0, lane), store_tile(stage.solved, none, 0, 1, BESIDE, lane);
  else
    store_product(stage.products, none, 0, 1, lane);
}

// Numbers of a tile's tokens, as a lane has them in its columns, and in its rows.
struct OfColumns {
  float at[2][2];
  __device__ __forceinline__ OfColumns(const float* numbers, int tile, unsigned lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair = *reinterpret_cast<const float2*>(&numbers[tile * TILE + half * 8 + lane % 4 * 2]);
      at[half][0] = pair.x, at[half][1] = pair.y;
    }
  }
};
struct OfRows {
  float at[2];
  __device__ __forceinline__ OfRows(const float* numbers, int tile, unsigned lane)
      : at{numbers[tile * TILE + lane / 4], numbers[tile * TILE + lane / 4 + 8]} {}
};

// A tile times numbers of its rows and its columns.
__device__ __forceinline__ void scale_tile(TileSums& x, const float (&rows)[2], const OfColumns& columns) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) x[half][i] *= rows[i / 2] * columns.at[half][i % 2];
}

// Of (I + A)^-1 a tile, or minus it: a tile of T, and of what lies beside it.
__device__ __forceinline__ void store_solved(Stage& stage, const float (&beta)[TOKENS], TileSums& x, bool is_negative,
                                             const OfRows& norms, const OfColumns& others, int row, int column, unsigned lane) {
  const float sign = is_negative ? -1.f : 1.f;
  const float rows[2] = {sign * norms.at[0], sign * norms.at[1]}, minus[2] = {-1.f, -1.f};
  scale_tile(x, rows, OfColumns(beta, column, lane));
  store_tile(stage.solved, x, row, column, 0, lane);
  scale_tile(x, minus, others);
  store_tile(stage.solved, x, row, column, BESIDE, lane);
}

// By a warpgroup: the products of the step's tokens with each other. Warps have tiles' rows of keys, then of queries.
__device__ __forceinline__ void take_products(TokenSums& sums, const Stage& stage) {
  const Matrix left = matrix_here(stage.bands[0].keys), right = matrix_here(stage.bands[0].earlier);
  fence_warpgroup();
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long a = left.descriptor(in_bands(0, 2 * k)), b = right.descriptor(in_bands(0, 2 * k));
    if (k == 0)
      multiply_tokens<false>(sums, a, b);
    else
      multiply_tokens<true>(sums, a, b);
  }
  commit_group();
  wait_for_groups<0>();
  keep_in_place(sums);
}

// Of a number that is at least EPS.
__device__ __forceinline__ float rsqrt_mufu(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// By a warp of keys: the inverse of I + A.
__device__ __forceinline__ void solve(Stage& stage, Solving& memory, const float (&beta)[TOKENS], TileSums& diagonal, TileSums& below,
                                      int group, int tile, unsigned lane) {
  const int row = lane / 4;
  if (lane % 4 == row / 2) {  // has squares of keys, which are on the diagonal
    memory.norms[tile * TILE + row] = rsqrt_mufu((row % 2 ? diagonal[0][1] : diagonal[0][0]) + EPS);
    memory.norms[tile * TILE + 8 + row] = rsqrt_mufu((row % 2 ? diagonal[1][3] : diagonal[1][2]) + EPS);
  }
  __syncwarp();
  if (tile == 0) tell(NORMS, group);
  const OfRows norms(memory.norms, tile, lane), betas(beta, tile, lane);
  const OfColumns own(memory.norms, tile, lane);
  const float rows[2] = {norms.at[0] * betas.at[0], norms.at[1] * betas.at[1]};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (half * 8 + lane % 4 * 2 + i % 2 >= lane / 4 + i / 2 * 8) diagonal[half][i] = 0.f;
  scale_tile(diagonal, rows, own);
  Operand inverse;
  invert_tile(inverse, memory.blocks[tile], diagonal, lane);
  const auto store_own = [&] {
    TileSums found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack_fp16(inverse[i]);
      found[i / 2][i % 2 * 2] = pair.x, found[i / 2][i % 2 * 2 + 1] = pair.y;
    }
    store_solved(stage, beta, found, false, norms, own, tile, tile, lane);
  };
  if (tile == 0) {
    store_matrices(half_tile_address(memory.first, lane), inverse);
    tell(FIRST, group);
    store_own();
    return;
  }
  hear(NORMS, group);
  const OfColumns first(memory.norms, 0, lane);
  scale_tile(below, rows, first);
  TileSums beside = {}, found = {};
  Operand narrowed;
  unsigned right[4];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    mma_fp16(beside[half], inverse, transpose(pack_fp16(below[half][0], below[half][1])),
             transpose(pack_fp16(below[half][2], below[half][3])));
  store_own();
  narrow_fp16(narrowed, beside);
  hear(FIRST, group);
  load_matrices_transposed(right, half_tile_address(memory.first, lane));
#pragma unroll
  for (int half = 0; half < 2; ++half) mma_fp16(found[half], narrowed, right[2 * half], right[2 * half + 1]);
  store_solved(stage, beta, found, true, norms, first, 1, 0, lane);
}

// By a warp of queries: their products, and norms.
__device__ __forceinline__ void show_queries(Stage& stage, Numbers& numbers, const float (&squares)[BANDS][TOKENS], TileSums& diagonal, const TileSums& below,
                                             float scale, int tile, unsigned lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (half * 8 + lane % 4 * 2 + i % 2 > lane / 4 + i / 2 * 8) diagonal[half][i] = 0.f;
  store_product(stage.products, diagonal, tile, tile, lane);
  if (tile == 1) store_product(stage.products, below, 1, 0, lane);
  const int token = tile * TILE + lane % TILE;
  if (lane < TILE) numbers.norms[token] = __float2bfloat16(scale * rsqrt_mufu(squares[0][token] + squares[1][token] + EPS));
}

// By a warpgroup: every other of the block's own steps.
__device__ __forceinline__ void prepare(FusedMemory& memory, const Tensors& in, const Item& item, int rank, int group, int warp,
                                        unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  constexpr int BETAS = TILES, LAST = GROUP_WARPS - 1;  // the warps that find them, and that send
  Solving& own = memory.solving[group];
  // Warps of keys, which solve, have the later tokens: for the earlier ones' there is more to do.
  const int band = warp % 2, tile = warp % 2, first = warp < TILES ? TILE : 0;
  const int head = item.head, begin = item.begin, all = item.tokens;
  const Channels channels(in, head, band * WARP + lane);
  const auto load_logit = [&](int number) {  // minus infinity after the end
    const int token = (number * PAIR + rank) * TOKENS + static_cast<int>(lane);
    if (warp != BETAS || token >= all) return static_cast<unsigned short>(0xff80);
    return reinterpret_cast<const unsigned short*>(in.b)[static_cast<long long>(begin + token) * GDN_H + head];
  };
  unsigned short logit = load_logit(group);
  if (warp < 2)
    for (int stage = group; stage < OWN_STAGES; stage += PREPARERS) clear_tiles(memory.stages[stage], warp, lane);
#pragma unroll 1
  for (int number = group; (number * PAIR + rank) * TOKENS < all; number += PREPARERS) {
    const int place = number % OWN_STAGES, there = number % OTHERS;
    Stage &stage = memory.stages[place], &other_stage = memory.stages[OWN_STAGES + there];
    Numbers& numbers = memory.numbers[place];
    auto& tokens = own.tokens[number / PREPARERS % 2];
    // In parts, each once it is prepared.
    const auto send = [&](void* mine, const void* from, unsigned part_bytes) {
      copy_to_block(mine, from, part_bytes, memory.full[OWN_STAGES + there], 1 - rank);
    };
    wait(memory.come[place], number / OWN_STAGES % 2);
    GDNBENCH_PHASE(come);
    const int left = all - (number * PAIR + rank) * TOKENS;
    if (left < TOKENS) {
      clear_tokens(stage, left, warp, lane);
      synchronise_group(group);
    }
    const Pairs pairs(stage.bands[band], first, lane);
    if (first == 0)
      store_decays(numbers.first, numbers.first_is_small, prepare_rows<false>(tokens.squares[band], pairs, channels, lane), band, lane);
    else
      store_decays(numbers.rest, numbers.rest_is_small, prepare_rows<true>(tokens.squares[band] + TILE, pairs, channels, lane), band, lane);
    if (warp == BETAS) tokens.betas[lane] = sigmoid(__uint_as_float(static_cast<unsigned>(logit) << 16));
    fence_async_proxy();
    GDNBENCH_PHASE(rows);
    synchronise_group(group);
    TokenSums sums;
    take_products(sums, stage);
    GDNBENCH_PHASE(products);
    if (warp == LAST && lane == 0) {
      if (number >= OTHERS) wait(memory.taken[there], (number / OTHERS - 1) % 2);
      send(other_stage.bands, stage.bands, sizeof(stage.bands));
    }
    __syncwarp();
    TileSums diagonal, below;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) diagonal[half][i] = tile == 0 ? sums[half][i] : sums[2 + half][i], below[half][i] = sums[half][i];
    // Addresses are worked out for each step: all of them would fill registers.
    if (warp < TILES)
      solve(stage, own, tokens.betas, diagonal, below, group, tile, worked_out_anew(lane));
    else
      show_queries(stage, numbers, tokens.squares, diagonal, below, in.scale, tile, worked_out_anew(lane));
    fence_async_proxy();
    logit = load_logit(number + PREPARERS);  // long before the next fence, which waits for it
    arrive_together(memory.full[place], lane);
    tell_last_warp(group, warp == LAST);
    if (warp == LAST && lane == 0) {
      send(other_stage.solved, stage.solved, sizeof(stage.solved) + sizeof(stage.products));
      send(&memory.numbers[OWN_STAGES + there], &numbers, sizeof(numbers));
    }
    __syncwarp();
    GDNBENCH_PHASE(solve);
  }
}

}  // namespace kda
