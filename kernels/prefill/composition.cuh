// What a segment makes of any state S that it begins with, S M + B, and states at the beginnings of segments by way of
// it: the state before the first of them, taken through one after the other.
//
// The diagonal d of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of
// the state. What is left of M, R, is multiplied in fp16, of 11 bits, and so is S, each scaled to fp16's range by
// powers of two: S M + B = S diag(d) + S R + B.
#pragma once
#include "forgetting.cuh"
#include "fused.cuh"

namespace gdn {

// Of a segment and head, in global memory, in the order in which lanes take it: what a lane has of a tile [16, 16] of R
// as the right operand of two products, of sums [16, 8] of B, and of eight of d.
struct alignas(128) Transition {
  uint4 rest[KEY_TILES][KEY_TILES][WARP];  // R in fp16 times 1 / unit, by columns, then rows
  float4 added[STATE_WARPS][2 * KEY_TILES][WARP];
  float4 diagonal[KEY_TILES][4];
  float4 unit;  // a power of two, in each part

  // Where column `column` stands in the diagonal.
  __device__ __forceinline__ float& on_diagonal(int column) {
    return reinterpret_cast<float*>(diagonal)[ByLane::place(column)];
  }
};

// A power of two that brings numbers up to `greatest` near fp16's largest, and its reciprocal. Smaller ones than 2^-30
// are scaled as that is: fp16 has exponents for them, and products of two scales must not overflow.
struct PowerOfTwo {
  float to, from;

  explicit __device__ __forceinline__ PowerOfTwo(float greatest) {
    constexpr int BIAS = 127, TOP = 14;
    const int exponent = min(max(static_cast<int>(__float_as_uint(greatest) >> 23), BIAS - 30), BIAS + 60);
    to = __uint_as_float(static_cast<unsigned>(2 * BIAS + TOP - exponent) << 23);
    from = __uint_as_float(static_cast<unsigned>(exponent - TOP) << 23);
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

// A block has a tile of rows of the state, and a warp a tile of their columns.
constexpr int COMPOSE_STAGES = 4, COMPOSE_WARPS = KEY_TILES, COMPOSE_THREADS = COMPOSE_WARPS * WARP;
using Columns = Sum[2];

// The first of a lane's pair in sum n of its warp.
__device__ __forceinline__ int column_of(int warp, int n, unsigned lane) {
  return warp * TILE + n * 8 + static_cast<int>(lane % 4) * 2;
}

struct ComposeMemory {
  // A place for what each lane takes of a transition on its way: no other lane reads it.
  struct Slot {
    uint4 rest[KEY_TILES][COMPOSE_THREADS];
    float4 added[2][COMPOSE_THREADS], diagonal[COMPOSE_THREADS], unit[COMPOSE_THREADS];
  } slots[COMPOSE_STAGES];
  struct alignas(16) {
    unsigned short row[GDN_K + 8];  // begin in different banks
  } narrowed[TILE];                 // the state in fp16, scaled
  struct alignas(16) {
    float of_warp[COMPOSE_WARPS + 4];
  } greatest[TILE];  // of a row
  int fates[SEGMENTS * CUTS];

  // What the lane takes of number `count` of the transitions for a tile of rows, or of B alone.
  __device__ __forceinline__ void bring(const Transition& from, bool has_m, int tile, int count, int warp,
                                        unsigned lane) {
    Slot& slot = slots[count % COMPOSE_STAGES];
    const auto copy = [](void* to, const void* source, bool is_there) {
      copy_async(shared_address(to), source, is_there);
    };
#pragma unroll
    for (int n = 0; n < 2; ++n) copy(&slot.added[n][threadIdx.x], &from.added[tile][2 * warp + n][lane], true);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) copy(&slot.rest[k][threadIdx.x], &from.rest[warp][k][lane], has_m);
    copy(&slot.diagonal[threadIdx.x], &from.diagonal[warp][lane % 4], has_m);
    copy(&slot.unit[threadIdx.x], &from.unit, has_m);
  }
};

// S = S M + B, for a warp's columns. What needs no other warp's columns is done before the warps wait for these.
__device__ __forceinline__ void take_transition(Columns& s, ComposeMemory& memory, const ComposeMemory::Slot& slot,
                                                int warp, unsigned lane) {
  float greatest[2], up[2], down[2];
  find_greatest(greatest, s);
  if (lane % 4 == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) memory.greatest[lane / 4 + half * 8].of_warp[warp] = greatest[half];
  }
  const float4 d = slot.diagonal[threadIdx.x];
  const float unit = slot.unit[threadIdx.x].x, to_unit = 1.f / unit;
  Columns next;  // to be scaled
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const float4 b = slot.added[n][threadIdx.x];
    const float first = n == 0 ? d.x : d.z, second = n == 0 ? d.y : d.w;
    next[n][0] = fmaf(first, s[n][0], b.x);
    next[n][1] = fmaf(second, s[n][1], b.y);
    next[n][2] = fmaf(first, s[n][2], b.z);
    next[n][3] = fmaf(second, s[n][3], b.w);
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto& row = memory.greatest[lane / 4 + half * 8];
#pragma unroll
    for (int quad = 0; quad < COMPOSE_WARPS / 4; ++quad) {
      const float4 x = *reinterpret_cast<const float4*>(&row.of_warp[4 * quad]);
      greatest[half] = fmaxf(greatest[half], fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
    }
    const PowerOfTwo power(greatest[half]);
    up[half] = power.to;
    down[half] = power.from;
#pragma unroll
    for (int n = 0; n < 2; ++n)
      *reinterpret_cast<unsigned*>(&memory.narrowed[lane / 4 + half * 8].row[column_of(warp, n, lane)]) =
          pack_fp16(up[half] * s[n][2 * half], up[half] * s[n][2 * half + 1]);
  }
  __syncthreads();
  // Both factors' scales are those of the sums, too. A chain of sums for each half of the products.
  const float scales[2] = {up[0] * to_unit, up[1] * to_unit}, back[2] = {down[0] * unit, down[1] * unit};
  Columns others = {};
  scale_rows(next, scales);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    Operand left;
    load_matrices(left, shared_address(&memory.narrowed[lane % 16].row[k * TILE + lane / 16 * 8]));
    const uint4 right = slot.rest[k][threadIdx.x];
    Columns& sums = k % 2 == 0 ? next : others;
    mma_fp16(sums[0], left, right.x, right.y);
    mma_fp16(sums[1], left, right.z, right.w);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = next[n][i] + others[n][i];
  scale_rows(s, back);
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
  int brought = 0, ahead = 0;
  const auto bring_next = [&] {
    while (ahead < count && !counts(ahead)) ++ahead;
    if (ahead < count) {
      memory.bring(transitions[static_cast<size_t>(ahead) * GDN_HV], multiplies(ahead), tile, brought++, warp, lane);
      ++ahead;
    }
    commit_copies();
  };
#pragma unroll 1
  for (int i = 0; i < COMPOSE_STAGES - 1; ++i) bring_next();
  Columns s = {};
  int taken = 0;
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    if (!counts(number)) continue;
    const ComposeMemory::Slot& slot = memory.slots[taken++ % COMPOSE_STAGES];
    bring_next();
    wait_for_copies_but<COMPOSE_STAGES - 1>();
    if (multiplies(number)) {
      take_transition(s, memory, slot, warp, lane);
    } else {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float4 b = slot.added[n][threadIdx.x];
        s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
      }
    }
    if (!shows(number)) continue;
    float* const rows = begun + (static_cast<size_t>(number) * GDN_HV * GDN_V + tile * TILE + lane / 4) * GDN_K;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(&rows[half * 8 * GDN_K + column_of(warp, n, lane)]) =
            make_float2(s[n][2 * half], s[n][2 * half + 1]);
  }
}

}  // namespace gdn
