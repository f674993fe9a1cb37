// By warpgroups that take steps in turns: what of a step needs neither the state nor values, in the places where its tokens came.
#pragma once
#include "memory.cuh"

namespace kda {

// By a warpgroup: zeros in the place of tokens after the sequence's end, whose gates leave all as it is.
__device__ __forceinline__ void clear_tokens(Stage& stage, int tokens, int warp, unsigned lane) {
  for (int row = tokens + warp; row < TOKENS; row += GROUP_WARPS) {
    if (lane >= GDN_K / 8) continue;
    const auto put = [&](char* rows, unsigned x) { *reinterpret_cast<uint4*>(rows + in_bands<Band>(row, lane)) = make_uint4(x, x, x, x); };
    Band& first = stage.bands[0];
    put(first.keys, 0), put(first.queries, 0), put(first.values, 0), put(first.earlier, 0xff80ff80u);
  }
}

// By a warp: what the state of a band's channels is multiplied with. Two times sixteen decays are one factor, unless fp32 has
// fewer bits for it than bf16.
__device__ __forceinline__ void join_decays(FusedMemory& memory, int step, float2 first, int band, unsigned lane) {
  constexpr float LEAST = 0x1p-140f;
  Stage& stage = memory.stages[step % STAGES];
  const auto of_lane = [&](float* numbers) -> float2& { return reinterpret_cast<float2*>(numbers)[band * WARP + lane]; };
  float2 since = first;
  bool is_small = false;
  if (step > 0) {
    const int last = (step - 1) % STAGES;
    // The other warpgroup has then seen its tokens of four steps before the next ones come, which have the same barrier.
    wait(memory.decayed[last], (step - 1) / STAGES % 2);
    const float2 before = of_lane(memory.stages[last].rest), both = times(before, first);
    is_small = __any_sync(ALL_LANES, fminf(both.x, both.y) < LEAST);
    if (is_small)
      of_lane(stage.before) = before;
    else
      since = both;
  }
  of_lane(stage.since) = since;
  if (lane == 0) stage.is_small[band] = is_small;
}

// Once, by a warp: the tiles above the diagonals are zeros, or all there are, which are stored where they are needed.
__device__ __forceinline__ void clear_tiles(Stage& stage, int warp, unsigned lane) {
  const TileSums none = {};
  for (int piece = 0; piece < 2 * BESIDE; piece += 2) store_tile(warp == 0 ? stage.solved : stage.products, none, 0, 0, piece, lane);
  for (int piece = 0; piece < 2 * BESIDE; piece += 2) store_tile(warp == 0 ? stage.solved : stage.products, none, 1, 0, piece, lane);
}

// By a warpgroup: every other step.
__device__ __forceinline__ void prepare(FusedMemory& memory, const Tensors& in, const Item& item, int group, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  constexpr int BETAS = TILES;  // the warp that finds them
  Solving& own = memory.solving[group];
  // Warps of keys, which solve, have the later tokens: for the earlier ones' there is more to do.
  const int band = warp % 2, tile = warp % 2, first = warp < TILES ? TILE : 0;
  const int head = item.head, begin = item.begin, all = item.tokens;
  const Channels channels(in, head, band * WARP + lane);
  const auto load_logit = [&](int step) {  // minus infinity after the end
    const int token = step * TOKENS + static_cast<int>(lane);
    if (warp != BETAS || token >= all) return static_cast<unsigned short>(0xff80);
    return reinterpret_cast<const unsigned short*>(in.b)[static_cast<long long>(begin + token) * GDN_H + head];
  };
  unsigned short logit = load_logit(group);
  if (warp < 2)
    for (int stage = group; stage < STAGES; stage += PREPARERS) clear_tiles(memory.stages[stage], warp, lane);
#pragma unroll 1
  for (int step = group; step * TOKENS < all; step += PREPARERS) {
    Stage& stage = memory.stages[step % STAGES];
    auto& tokens = own.tokens[step / PREPARERS % 2];
    wait(memory.come[step % STAGES], step / STAGES % 2);
    GDNBENCH_PHASE(come);
    const int left = all - step * TOKENS;
    if (left < TOKENS) {
      clear_tokens(stage, left, warp, lane);
      synchronise_group(group);
    }
    const Pairs pairs(stage.bands[band], first, lane);
    if (first == 0) {
      join_decays(memory, step, prepare_rows<false>(tokens.squares[band], pairs, channels, lane), band, lane);
    } else {
      reinterpret_cast<float2*>(stage.rest)[band * WARP + lane] = prepare_rows<true>(tokens.squares[band] + TILE, pairs, channels, lane);
      arrive_together(memory.decayed[step % STAGES], lane);
    }
    if (warp == BETAS) tokens.betas[lane] = sigmoid(__uint_as_float(static_cast<unsigned>(logit) << 16));
    fence_async_proxy();
    GDNBENCH_PHASE(rows);
    synchronise_group(group);
    TokenSums sums;
    take_products<Band>(sums, matrix(stage.bands[0].keys), matrix(stage.bands[0].earlier));
    GDNBENCH_PHASE(products);
    TileSums diagonal, below;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) diagonal[half][i] = tile == 0 ? sums[half][i] : sums[2 + half][i], below[half][i] = sums[half][i];
    // Addresses are worked out for each step: all of them would fill registers.
    if (warp < TILES)
      solve(stage.solved, own, tokens.betas, diagonal, below, group, tile, worked_out_anew(lane));
    else
      show_queries(stage, tokens.squares, diagonal, below, in.scale, tile, worked_out_anew(lane),
                   [&](const TileSums& x, int row, int column, unsigned own_lane) {
                     store_tile(stage.products, x, row, column, 0, own_lane);
                   });
    fence_async_proxy();
    logit = load_logit(step + PREPARERS);  // long before the next fence, which waits for it
    arrive_together(memory.full[step % STAGES], lane);
    GDNBENCH_PHASE(solve);
  }
}

}  // namespace kda
