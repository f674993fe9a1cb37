// By warpgroups that take the block's own steps in turns: what of a step needs neither the state nor values, in the places where its
// tokens came, and from there to the other block.
#pragma once
#include "memory.cuh"

namespace kda {

// Of a warpgroup: the last warp goes on when all have come here, the others at once.
__device__ __forceinline__ void tell_last_warp(int group, bool is_last) {
  if (is_last)
    asm volatile("bar.sync %0, %1;" ::"r"(1 + (1 + TOLD) * PREPARERS + group), "n"(GROUP_WARPS * WARP) : "memory");
  else
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + (1 + TOLD) * PREPARERS + group), "n"(GROUP_WARPS * WARP) : "memory");
}

// By a warpgroup: zeros in the place of tokens after the sequence's end, whose gates leave all as it is.
__device__ __forceinline__ void clear_tokens(Stage& stage, int tokens, int warp, unsigned lane) {
  for (int row = tokens + warp; row < TOKENS; row += GROUP_WARPS) {
    if (lane >= GDN_K / 8) continue;
    const auto put = [&](char* rows, unsigned x) { *reinterpret_cast<uint4*>(rows + in_bands<Band>(row, lane)) = make_uint4(x, x, x, x); };
    Band& first = stage.bands[0];
    put(first.keys, 0), put(first.queries, 0), put(first.earlier, 0xff80ff80u);
  }
}

// By a warp: what is kept of a band's channels in sixteen tokens. The state is multiplied with the product of two such factors, unless
// one is so small that fp32 may have no number for it.
__device__ __forceinline__ void store_decays(float* factors, int* is_small, float2 kept, int band, unsigned lane) {
  constexpr float LEAST = 0x1p-63f;
  reinterpret_cast<float2*>(factors)[band * WARP + lane] = kept;
  const bool is_any = __any_sync(ALL_LANES, fminf(kept.x, kept.y) < LEAST);
  if (lane == 0) is_small[band] = is_any;
}

// A tile of P.
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
    take_products<Band>(sums, matrix_here(stage.bands[0].keys), matrix_here(stage.bands[0].earlier));
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
      solve(stage.solved, own, tokens.betas, diagonal, below, group, tile, worked_out_anew(lane));
    else
      show_queries(numbers, tokens.squares, diagonal, below, in.scale, tile, worked_out_anew(lane),
                   [&](const TileSums& x, int row, int column, unsigned own_lane) {
                     store_product(stage.products, x, row, column, own_lane);
                   });
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
