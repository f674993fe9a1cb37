// The chain from chunk to chunk for a block with one warpgroup that carries the state (turns.cuh): as in fused.cuh, but
// that a chunk's tokens go to the state in two spans, one behind the other.
#pragma once
#include "fused.cuh"

namespace gdn {

// What a span writes follows from what it and those before it read, so that tensor cores have the next one's products
// while numbers of one are worked on. What is read of the state comes by one product for all.
constexpr int SPANS = 2, SPAN_TILES = SIDE / SPANS;
constexpr int SPAN_BYTES = CHUNK / SPANS * BAND_BYTES;  // of its rows in a matrix
using SpanSums = Sum[2 * SPAN_TILES];

// Sums [64, 32] of A [64, 16] and B [16, 32], whose columns are rows in shared memory; added to the sums if Adds.
template <bool Adds>
__device__ __forceinline__ void multiply(Sum (&sums)[4], const Operand& a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred adds; setp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, adds, 1, 1, 0; }"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]),
        "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]),
        "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(Adds)));
}

// X Y^T, for X as operands of which the first `Tiles` count, and a span's rows of Y [CHUNK, …] in shared memory.
template <int Tiles, int N>
__device__ __forceinline__ void multiply_span(SpanSums& sums, const Operand (&x)[N], Matrix y) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i) {
    const unsigned long long right = y.descriptor(banded<CHUNK>(0, 2 * i));
    if (i == 0)
      multiply<false>(sums, x[i], right);
    else
      multiply<true>(sums, x[i], right);
  }
}

// The rows of a matrix that are a span's.
__device__ __forceinline__ Matrix span_of(Matrix m, int span) { return {m.low + span * (SPAN_BYTES / 16)}; }

// Columns of a tile of sixteen tokens times a number for each, and subtracted from those of v if there are any.
__device__ __forceinline__ void subtract_tile(Operand& r, const Sum* read, const float4& since) {
  Sum rest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float first = half == 0 ? since.x : since.z, second = half == 0 ? since.y : since.w;
    const float2 upper = unpack_bf16(r[2 * half]), lower = unpack_bf16(r[2 * half + 1]);
    rest[half][0] = fmaf(-first, read[half][0], upper.x);
    rest[half][1] = fmaf(-second, read[half][1], upper.y);
    rest[half][2] = fmaf(-first, read[half][2], lower.x);
    rest[half][3] = fmaf(-second, read[half][3], lower.y);
  }
  narrow(r, rest[0], rest[1]);
}

__device__ __forceinline__ void fade_tile(Operand& u, const Sum* written, const float4& until) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float first = half == 0 ? until.x : until.z, second = half == 0 ? until.y : until.w;
    u[2 * half] = pack_bf16(first * written[half][0], second * written[half][1]);
    u[2 * half + 1] = pack_bf16(first * written[half][2], second * written[half][3]);
  }
}

// By one thread, where `is_one`: the block's rows of a chunk's values, as `bring` does with whole heads.
template <class Memory>
__device__ __forceinline__ void bring_values(Memory& memory, const HeadRows& v, const Walk& walk, int chunk, int number,
                                             bool is_one) {
  static_assert(ROWS == BAND, "a box has as many columns");
  const int place = ValueRing::place(number);
  asm volatile(
      "{ .reg .pred one; setp.ne.b32 one, %6, 0;\n"
      "@one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%5], %7;\n"
      "@one cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];}" ::"r"(shared_address(memory.values[place])),
      "l"(v.map), "r"(v.column), "r"(v.head), "r"(v.token + chunk * CHUNK),
      "r"(shared_address(&memory.barriers.values_there[place])), "r"(static_cast<int>(is_one && chunk < walk.chunks)),
      "n"(static_cast<int>(sizeof(memory.values[place])))
      : "memory");
}

// By warp `warp` of those that carry the state: takes its 16 rows of the state through the chunks.
template <class Memory>
__device__ __forceinline__ void carry_spans(State& s, Memory& memory, const HeadRows& v, const Walk& walk,
                                            const Count& before, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
#pragma unroll 1
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    const bool is_shown = chunk >= walk.silent;
    const int number = before.chunks + chunk, place = KeyRing::place(number);
    const int shown = before.shown + max(chunk - walk.silent, 0);
    const ChunkGates& gates = memory.gates[place];
    SpanSums sums[SPANS];
    Sum whole[TOKEN_PAIRS];  // what all tokens read
    Operand begun[KEY_TILES], r[SIDE], u[SIDE];  // r begins as v
    float4 since[SIDE], until[SIDE];
    const auto load_factors = [&](float4(&to)[SIDE], const ByLane& from) {
#pragma unroll
      for (int tile = 0; tile < SIDE; ++tile) to[tile] = from.of_tile(tile, lane);
    };
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
    GDNBENCH_PHASE_USING(narrow, begun);
    memory.barriers.wait_until_ready(number);
    GDNBENCH_PHASE(ready);
    fence_warpgroup();
    multiply_operands<GDN_K, CHUNK, false>(whole, begun, matrix(memory.keys[place]));
    commit_group();
    // What needs no product is done while it is worked out; waits keep ptxas from putting it between the products, or
    // behind them.
    wait(memory.begun.free, (shown + 1) % 2);
    keep_in_place(s);
    decay_state(s, gates.whole);
    keep_in_place(s);
    load_factors(since, gates.since);
    if (is_shown) store_rows<ROWS>(shared_address(memory.begun.rows), begun, warp, lane);
    wait(memory.barriers.values_there[ValueRing::place(number)], ValueRing::parity(number));
    load_values(r, shared_address(memory.values[ValueRing::place(number)]), warp, lane, banded<CHUNK>);
    if (own_tokens(walk, chunk) < CHUNK) clear_tokens(r, own_tokens(walk, chunk), lane);
    // All warps are done with those of the last chunk: outputs have begun it, or wait for nothing.
    if (shown == 0) memory.barriers.wait_until_done(number - 1);
    bring_values(memory, v, walk, chunk + 1, number + 1, warp == 0 && lane == 0);
    keep_in_place(r);
    wait_for_groups<0>();
    keep_in_place(whole);
#pragma unroll
    for (int span = 0; span < SPANS; ++span) {
      if (span > 0 && is_shown) arrive_together(memory.begun.there, lane);
      GDNBENCH_PHASE(read);
#pragma unroll
      for (int i = 0; i < SPAN_TILES; ++i) {
        const int tile = span * SPAN_TILES + i;
        subtract_tile(r[tile], &whole[2 * tile], since[tile]);
      }
      keep_in_place(r);
      GDNBENCH_PHASE_USING(subtract, r);
      if (span == 0) wait(memory.barriers.inverse_there[place], KeyRing::parity(number));
      GDNBENCH_PHASE(inverse);
      const Matrix solved = span_of(matrix(memory.solved[number % Memory::SOLVED_STAGES]), span);
      fence_warpgroup();
      if (span == 0)
        multiply_span<SPAN_TILES>(sums[span], r, solved);
      else
        multiply_span<SIDE>(sums[span], r, solved);
      commit_group();
    }
    load_factors(until, gates.until);
    wait(memory.written.free, (shown + 1) % 2);
#pragma unroll
    for (int span = 0; span < SPANS; ++span) {
      wait_for_groups<SPANS - 1>();  // the group of the span behind this one need not be complete
      keep_in_place(sums[span]);
      GDNBENCH_PHASE(write);
#pragma unroll
      for (int i = 0; i < SPAN_TILES; ++i)
        fade_tile(u[span * SPAN_TILES + i], &sums[span][2 * i], until[span * SPAN_TILES + i]);
      keep_in_place(u);
      GDNBENCH_PHASE_USING(fade, u);
      const Matrix keys = matrix(memory.keys[place], CHUNK * BAND_BYTES);
      fence_warpgroup();
#pragma unroll
      for (int tile = span * SPAN_TILES; tile < (span + 1) * SPAN_TILES; ++tile)
        multiply<true, true>(s, u[tile], keys.descriptor(tile * (TILE * BAND_BYTES)));
      commit_group();
    }
    if (is_shown) {
#pragma unroll
      for (int tile = 0; tile < SIDE; ++tile) {
        const Sum* of_tile = &sums[tile / SPAN_TILES][tile % SPAN_TILES * 2];
        narrow(r[tile], of_tile[0], of_tile[1]);
      }
      store_rows<ROWS>(shared_address(memory.written.rows), r, warp, lane);
      arrive_together(memory.written.there, lane);
    }
    wait_for_groups<0>();
    keep_in_place(s);
    arrive_together(memory.barriers.done[place], lane);
    GDNBENCH_PHASE(add);
  }
}

}  // namespace gdn
