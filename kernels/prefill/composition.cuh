// What a segment makes of any state S that it begins with, S M + B, and states at the beginnings of segments by way of
// it: the state before the first of them, taken through one after the other.
//
// The diagonal d of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of
// the state. What is left of M, R, is multiplied in fp16, of 11 bits, and so is S, each scaled to fp16's range by powers
// of two: S M + B = S diag(d) + S R + B.
#pragma once
#include "fused.cuh"

namespace gdn {

// Of a segment and head, in global memory.
struct alignas(128) Transition {
  unsigned short rest[GDN_K * GDN_K];  // R in fp16 times 1 / unit, in bands as wgmma reads them
  float added[ROWS * GDN_K];           // B as lanes hold it: of each warp, a float4 of all lanes after the other
  struct Diagonal {
    float numbers[GDN_K];  // d
    float unit[4];         // a power of two, alike
  } diagonal;
};

constexpr int FEWEST_COMPOSED = 3;  // segments of a sequence: the second one of two may as well begin where the first does

// How sequences are cut, in chunks: for outputs, and for transitions, of which a segment has CUTS.
struct Cut {
  int chunks;  // of a transition

  explicit __device__ __forceinline__ Cut(long long all) : chunks(segment_chunks(static_cast<int>(all), SEGMENTS * CUTS)) {}
  __device__ __forceinline__ int of_outputs() const { return CUTS * chunks; }
  // Whether states of a sequence of so many chunks are composed.
  __device__ __forceinline__ bool composes(int sequence_chunks) const {
    return sequence_chunks > (FEWEST_COMPOSED - 1) * of_outputs();
  }
  // Where a sequence's first transition lies: two that are not last begin so many chunks apart at least.
  __device__ __forceinline__ int first_slot(int chunks_before) const { return chunks_before / chunks; }
};

// What is known of a segment by a number: log2 of what a state decays by over it, if it is kept. If it is forgotten, the
// state after it is that of the last chunks that matter: of more than WALKED of them it is worked out once, in place of
// by the blocks of the next segment.
constexpr int WALKED = 4;
constexpr float WORKED_OUT = -2.f * FORGOTTEN_BITS, FORGOTTEN_SOON = -4.f * FORGOTTEN_BITS;

__device__ __forceinline__ bool is_kept(float decay) { return decay >= -FORGOTTEN_BITS; }

__device__ __forceinline__ bool is_worked_out(float decay) { return decay >= WORKED_OUT; }

constexpr int COMPOSE_STAGES = 3;
constexpr int LANE_QUADS = 2 * KEY_TILES;  // float4 of a lane, of a warp's rows of the state

// By a lane: where its numbers of B lie.
__device__ __forceinline__ int quad_of_lane(int n, unsigned lane) { return n * WARP + static_cast<int>(lane); }

// A power of two that brings numbers up to `greatest` near fp16's largest, and its reciprocal. Below 2^Least they are as
// good as zero.
struct PowerOfTwo {
  float to, from;

  template <int Least>
  static __device__ __forceinline__ PowerOfTwo of(float greatest) {
    constexpr int BIAS = 127, TOP = 14;
    const int exponent = min(max(static_cast<int>(__float_as_uint(greatest) >> 23), BIAS + Least), BIAS + 60);
    return {__uint_as_float(static_cast<unsigned>(2 * BIAS + TOP - exponent) << 23),
            __uint_as_float(static_cast<unsigned>(exponent - TOP) << 23)};
  }
};

constexpr int LEAST_OF_STATE = -50, LEAST_OF_TRANSITION = -30;

// Of each of a lane's two rows, the greatest number of the whole row.
__device__ __forceinline__ void find_greatest(float (&greatest)[2], const State& s) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float found = 0.f;
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n)
      found = fmaxf(found, fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
    found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 1));
    greatest[half] = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 2));
  }
}

// The rows of the state as operands in fp16, each row times its factor.
__device__ __forceinline__ void narrow_scaled(Operand (&to)[KEY_TILES], const State& s, const float (&factors)[2]) {
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float factor = factors[i % 2];
      const float* pair = &s[2 * k + i / 2][i % 2 * 2];
      to[k][i] = pack_fp16(factor * pair[0], factor * pair[1]);
    }
}

// Places for transitions on their way, for a block of 64 rows of the state.
struct ComposeMemory {
  struct Slot {
    alignas(1024) unsigned short rest[GDN_K * GDN_K];
    float added[GROUP_ROWS * GDN_K];
    Transition::Diagonal diagonal;
  } slots[COMPOSE_STAGES];
  Barrier there[COMPOSE_STAGES];
  float decays[SEGMENTS * CUTS];  // log2 of what states decay by over each segment

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (Barrier& barrier : there) gdn::initialise(barrier, 1);
    fence_async_proxy();
  }
  // By one thread: what number `count` of the transitions has for rows from `group` times 64 on, or B alone.
  __device__ __forceinline__ void bring(const Transition& from, bool has_m, int group, int count) {
    Slot& slot = slots[count % COMPOSE_STAGES];
    Barrier& barrier = there[count % COMPOSE_STAGES];
    arrive_expecting(barrier, sizeof(slot.added) + (has_m ? sizeof(slot.diagonal) + sizeof(slot.rest) : 0));
    load_bulk(slot.added, from.added + group * (GROUP_ROWS * GDN_K), sizeof(slot.added), barrier);
    if (!has_m) return;
    load_bulk(&slot.diagonal, &from.diagonal, sizeof(slot.diagonal), barrier);
    load_bulk(slot.rest, from.rest, sizeof(slot.rest), barrier);
  }
};

// S = S M + B.
__device__ __forceinline__ void take_transition(State& s, const ComposeMemory::Slot& slot, const float4* added,
                                                unsigned lane) {
  Operand narrowed[KEY_TILES];
  float greatest[2], up[2], down[2];
  find_greatest(greatest, s);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const PowerOfTwo power = PowerOfTwo::of<LEAST_OF_STATE>(greatest[half]);
    up[half] = power.to;
    down[half] = power.from;
  }
  narrow_scaled(narrowed, s, up);
  // Both factors' scales are those of the sums, too.
  const float unit = slot.diagonal.unit[0], to_unit = 1.f / unit;
  const float scales[2] = {up[0] * to_unit, up[1] * to_unit}, back[2] = {down[0] * unit, down[1] * unit};
#pragma unroll
  for (int n = 0; n < LANE_QUADS; ++n) {
    const float2 d = *reinterpret_cast<const float2*>(&slot.diagonal.numbers[n * 8 + lane % 4 * 2]);
    const float4 b = added[quad_of_lane(n, lane)];
    s[n][0] = scales[0] * fmaf(d.x, s[n][0], b.x);
    s[n][1] = scales[0] * fmaf(d.y, s[n][1], b.y);
    s[n][2] = scales[1] * fmaf(d.x, s[n][2], b.z);
    s[n][3] = scales[1] * fmaf(d.y, s[n][3], b.w);
  }
  keep_in_place(s);
  keep_in_place(narrowed);
  fence_warpgroup();
  const Matrix rest = matrix(slot.rest, GDN_K * BAND_BYTES);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) multiply_fp16(s, narrowed[k], rest.descriptor(k * (TILE * BAND_BYTES)));
  complete(s);
  scale_rows(s, back);
}

// A warpgroup: 64 rows, from `group` times 64 on, of the states after a sequence's transitions, `begun`
// [transitions, HV, V, K], as far as they are worked out.
__device__ __forceinline__ void compose(ComposeMemory& memory, const Transition* transitions, int count, int group,
                                        float* begun, int warp, unsigned lane) {
  const auto keeps = [&](int number) { return number < count && is_kept(memory.decays[number]); };
  const auto shows = [&](int number) { return is_worked_out(memory.decays[number]); };
  // B alone is the state after the first one, and after one that forgets.
  const auto multiplies = [&](int number) { return number > 0 && keeps(number); };
  const auto counts = [&](int number) { return shows(number) || keeps(number + 1); };
  int brought = 0, ahead = 0;
  const auto bring_next = [&] {
    while (ahead < count && !counts(ahead)) ++ahead;
    if (ahead == count) return;
    memory.bring(transitions[static_cast<size_t>(ahead) * GDN_HV], multiplies(ahead), group, brought++);
    ++ahead;
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < COMPOSE_STAGES; ++i) bring_next();
  }
  State s = {};
  int taken = 0;
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    if (!counts(number)) continue;
    const ComposeMemory::Slot& slot = memory.slots[taken % COMPOSE_STAGES];
    const float4* const added = reinterpret_cast<const float4*>(slot.added) + warp * (LANE_QUADS * WARP);
    wait(memory.there[taken % COMPOSE_STAGES], taken / COMPOSE_STAGES % 2);
    if (multiplies(number)) {
      take_transition(s, slot, added, lane);
    } else {
#pragma unroll
      for (int n = 0; n < LANE_QUADS; ++n) {
        const float4 b = added[quad_of_lane(n, lane)];
        s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
      }
    }
    if (shows(number)) {
      const size_t rows = static_cast<size_t>(number) * GDN_HV * GDN_V + group * GROUP_ROWS + warp * TILE;
      store_state(begun + rows * GDN_K, s, lane);
    }
    ++taken;
    __syncthreads();
    if (threadIdx.x == 0) bring_next();
  }
}

}  // namespace gdn
