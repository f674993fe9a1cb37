// What a segment makes of any state S that it begins with, S M + B, and states at the beginnings of segments by way of
// it: the state before the first of them, taken through one after the other.
//
// The diagonal d of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of
// the state. What is left of M, R, is multiplied in fp16, of 11 bits, and so is S, each scaled to fp16's range by
// powers of two: S M + B = S diag(d) + S R + B.
#pragma once
#include <gdn/power_of_two.cuh>

#include "forgetting.cuh"
#include "fused.cuh"

namespace gdn {

// Of a segment and head, in global memory, in the order in which lanes take it: what a lane has of a tile [16, 16] of R
// as the right operand of two products, of sums [16, 8] of B, and of eight of d.
struct alignas(128) Transition {
  uint4 rest[KEY_TILES][KEY_TILES][WARP];  // R in fp16 times 1 / unit, by columns, then rows
  float4 added[STATE_WARPS][2 * KEY_TILES][WARP];
  float4 diagonal[KEY_TILES][4];
  float4 unit;  // a power of two and its reciprocal, twice

  // Where column `column` stands in the diagonal.
  __device__ __forceinline__ float& on_diagonal(int column) {
    return reinterpret_cast<float*>(diagonal)[ByLane::place(column)];
  }
};

// Of each of a lane's two rows, the greatest of a warp's numbers.
template <int N>
__device__ __forceinline__ void find_greatest(float (&greatest)[2], const Sum (&s)[N]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float found = 0.f;
#pragma unroll
    for (int n = 0; n < N; ++n) found = fmaxf(found, fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
    found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 1));
    greatest[half] = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 2));
  }
}

// A block has a tile of rows of the state, and of its first warps each a quarter of their columns. One more brings the
// transitions.
constexpr int COMPOSE_STAGES = 4, COMPOSE_WARPS = 4, COMPOSE_THREADS = (COMPOSE_WARPS + 1) * WARP;
constexpr int COLUMN_TILES = KEY_TILES / COMPOSE_WARPS;
using Columns = Sum[2 * COLUMN_TILES];

// The first of a lane's pair in sum n of its warp.
__device__ __forceinline__ int column_of(int warp, int n, unsigned lane) {
  return warp * (COLUMN_TILES * TILE) + n * 8 + static_cast<int>(lane % 4) * 2;
}

struct ComposeMemory {
  // A place for what a tile of rows takes of a transition on its way, as it lies there.
  struct alignas(16) Slot {
    uint4 rest[KEY_TILES][KEY_TILES][WARP];
    float4 added[2 * KEY_TILES][WARP], diagonal[KEY_TILES][4], unit;
  } slots[COMPOSE_STAGES];
  struct alignas(16) {
    unsigned short row[GDN_K + 8];  // begin in different banks
  } narrowed[TILE];                 // the state in fp16, scaled
  float4 greatest[TILE];            // of each row, of each warp's columns
  static_assert(COMPOSE_WARPS == 4, "a number for each warp");
  Barrier there[COMPOSE_STAGES], free[COMPOSE_STAGES];
  int fates[SEGMENTS * CUTS];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < COMPOSE_STAGES; ++i) {
      gdn::initialise(there[i], 1);
      gdn::initialise(free[i], COMPOSE_WARPS);
    }
    fence_async_proxy();
  }
  // By one thread: what number `count` of the transitions has for a tile of rows, or of B alone.
  __device__ __forceinline__ void bring(const Transition& from, bool has_m, int tile, int count) {
    const int place = count % COMPOSE_STAGES;
    Slot& slot = slots[place];
    if (count >= COMPOSE_STAGES) wait(free[place], (count / COMPOSE_STAGES + 1) % 2);
    constexpr unsigned OF_DIAGONAL = sizeof(slot.diagonal) + sizeof(slot.unit);
    arrive_expecting(there[place], sizeof(slot.added) + (has_m ? OF_DIAGONAL + sizeof(slot.rest) : 0));
    load_bulk(slot.added, &from.added[tile], sizeof(slot.added), there[place]);
    if (!has_m) return;
    load_bulk(slot.diagonal, from.diagonal, OF_DIAGONAL, there[place]);
    load_bulk(slot.rest, from.rest, sizeof(slot.rest), there[place]);
  }
};

__device__ __forceinline__ void synchronise_composing() {
  asm volatile("bar.sync 1, %0;" ::"n"(COMPOSE_WARPS * WARP) : "memory");
}

// S = S M + B, for a warp's columns. What needs no other warp's columns is done before the warps wait for these.
__device__ __forceinline__ void take_transition(Columns& s, ComposeMemory& memory, const ComposeMemory::Slot& slot,
                                                int warp, unsigned lane) {
  float greatest[2], scales[2], back[2];
  find_greatest(greatest, s);
  if (lane % 4 == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      reinterpret_cast<float*>(&memory.greatest[lane / 4 + half * 8])[warp] = greatest[half];
  }
  uint4 right[COLUMN_TILES][KEY_TILES];
#pragma unroll
  for (int tile = 0; tile < COLUMN_TILES; ++tile)
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) right[tile][k] = slot.rest[warp * COLUMN_TILES + tile][k][lane];
  const float2 unit = *reinterpret_cast<const float2*>(&slot.unit);
  Columns next;  // to be scaled
#pragma unroll
  for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
    const float4 d = slot.diagonal[warp * COLUMN_TILES + n / 2][lane % 4];
    const float4 b = slot.added[warp * (2 * COLUMN_TILES) + n][lane];
    const float first = n % 2 == 0 ? d.x : d.z, second = n % 2 == 0 ? d.y : d.w;
    next[n][0] = fmaf(first, s[n][0], b.x);
    next[n][1] = fmaf(second, s[n][1], b.y);
    next[n][2] = fmaf(first, s[n][2], b.z);
    next[n][3] = fmaf(second, s[n][3], b.w);
  }
  synchronise_composing();
  const float4 of_rows[2] = {memory.greatest[lane / 4], memory.greatest[lane / 4 + 8]};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 x = of_rows[half];
    const PowerOfTwo power(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
    // Both factors' scales are those of the sums, too.
    scales[half] = power.to * unit.y;
    back[half] = power.from * unit.x;
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
      *reinterpret_cast<unsigned*>(&memory.narrowed[lane / 4 + half * 8].row[column_of(warp, n, lane)]) =
          pack_fp16(power.to * s[n][2 * half], power.to * s[n][2 * half + 1]);
  }
  scale_rows(next, scales);
  synchronise_composing();
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    Operand left;
    load_matrices(left, shared_address(&memory.narrowed[lane % 16].row[k * TILE + lane / 16 * 8]));
#pragma unroll
    for (int tile = 0; tile < COLUMN_TILES; ++tile) {
      mma_fp16(next[2 * tile], left, right[tile][k].x, right[tile][k].y);
      mma_fp16(next[2 * tile + 1], left, right[tile][k].z, right[tile][k].w);
    }
  }
#pragma unroll
  for (int n = 0; n < 2 * COLUMN_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = back[i / 2] * next[n][i];
}

// A block: a tile of rows of the states after a sequence's transitions, `begun` [transitions, HV, V, K], as far as they
// are worked out.
__device__ __forceinline__ void compose(ComposeMemory& memory, const Transition* transitions, int count, int tile,
                                        float* begun, int warp, unsigned lane) {
  const auto keeps = [&](int number) { return number < count && memory.fates[number] == KEPT; };
  const auto shows = [&](int number) { return is_worked_out(memory.fates[number]); };
  // B alone is the state after the first one, and after one that forgets.
  const auto multiplies = [&](int number) { return number > 0 && keeps(number); };
  const auto counts = [&](int number) { return shows(number) || keeps(number + 1); };
  int taken = 0;
  if (warp == COMPOSE_WARPS) {
    if (lane > 0) return;
#pragma unroll 1
    for (int number = 0; number < count; ++number)
      if (counts(number))
        memory.bring(transitions[static_cast<size_t>(number) * GDN_HV], multiplies(number), tile, taken++);
    return;
  }
  Columns s = {};
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    if (!counts(number)) continue;
    const int place = taken % COMPOSE_STAGES;
    const ComposeMemory::Slot& slot = memory.slots[place];
    wait(memory.there[place], taken++ / COMPOSE_STAGES % 2);
    if (multiplies(number)) {
      take_transition(s, memory, slot, warp, lane);
    } else {
#pragma unroll
      for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
        const float4 b = slot.added[warp * (2 * COLUMN_TILES) + n][lane];
        s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
      }
    }
    arrive_together(memory.free[place], lane);
    if (!shows(number)) continue;
    float* const rows = begun + (static_cast<size_t>(number) * GDN_HV * GDN_V + tile * TILE + lane / 4) * GDN_K +
                        column_of(warp, 0, lane);
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(rows + half * 8 * GDN_K + n * 8) = make_float2(s[n][2 * half], s[n][2 * half + 1]);
  }
}

}  // namespace gdn
