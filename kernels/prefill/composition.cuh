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
  float diagonal[GDN_K];               // d
  float unit;                          // a power of two
};

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

// How the state at a segment's beginning is had: from so many transitions before it, of which the first begins with
// zeros or with the sequence's own state. None if it is forgotten so soon that a walk through the last segment's chunks
// tells it.
struct Origin {
  int transitions;
  bool from_zeros;
};

// `decays` has log2 of what the head's states decay by over each segment, from the sequence's first one on.
__device__ __forceinline__ Origin find_origin(const float* decays, int segment, unsigned lane) {
  float kept = 0.f;
  for (int back = 0; back < segment; back += WARP) {
    const int before = segment - 1 - back - static_cast<int>(lane);
    const float through = kept + sum_to_here(before >= 0 ? decays[before * GDN_HV] : 0.f, lane);
    const unsigned forgotten = __ballot_sync(ALL_LANES, through < -FORGOTTEN_BITS);
    if (forgotten != 0) {
      const int transitions = back + __ffs(forgotten);
      return {transitions == 1 ? 0 : transitions, true};
    }
    kept = __shfl_sync(ALL_LANES, through, WARP - 1);
  }
  return {segment, false};
}

// Shared memory of a block that may begin with a composed state. Transitions lie in places that are used later.
struct ComposedMemory : FusedMemory {
  Barrier added_there, rest_there;

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    gdn::initialise(added_there, 1);
    gdn::initialise(rest_there, 1);
    FusedMemory::initialise();
  }
  // B of a quarter of the warps, or of two quarters.
  __device__ __forceinline__ float* added(int quarter) {
    if (quarter < 2) return reinterpret_cast<float*>(&values[quarter]);
    return quarter == 2 ? reinterpret_cast<float*>(written.rows) : reinterpret_cast<float*>(&queries[1]);
  }
  __device__ __forceinline__ float* diagonal() { return added(3) + ROWS * GDN_K / 4; }
  // By one thread.
  __device__ __forceinline__ void bring_added(const Transition& from) {
    constexpr unsigned QUARTER = sizeof(from.added) / 4;
    static_assert(sizeof(values[0]) == QUARTER && sizeof(written.rows) == QUARTER &&
                      sizeof(queries[1]) >= QUARTER + sizeof(from.diagonal) && sizeof(begun.rows) == sizeof(from.rest),
                  "a transition fills these places");
    arrive_expecting(added_there, sizeof(from.added) + sizeof(from.diagonal));
#pragma unroll
    for (int i = 0; i < 4; ++i) load_bulk(added(i), from.added + i * (ROWS * GDN_K / 4), QUARTER, added_there);
    load_bulk(diagonal(), from.diagonal, sizeof(from.diagonal), added_there);
  }
  __device__ __forceinline__ void bring_rest(const Transition& from) {
    arrive_expecting(rest_there, sizeof(from.rest));
    load_bulk(begun.rows, from.rest, sizeof(from.rest), rest_there);
  }
};

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

// By the warps that carry the state: takes it through transitions, which are those of a sequence's segments.
__device__ __forceinline__ void compose(State& s, ComposedMemory& memory, const Transition* transitions,
                                        const Origin& origin, int warp, unsigned lane) {
  const bool brings = warp == 0 && lane == 0;
  const int begin = origin.from_zeros ? 1 : 0;  // of zeros the first transition makes B
  if (brings) {
    memory.bring_added(transitions[0]);
    memory.bring_rest(transitions[begin * GDN_HV]);
  }
  const float4* const added = reinterpret_cast<const float4*>(memory.added(warp / 2)) + warp % 2 * (LANE_QUADS * WARP);
#pragma unroll 1
  for (int step = 0; step < origin.transitions; ++step) {
    const Transition& here = transitions[step * GDN_HV];
    const bool is_last = step + 1 == origin.transitions;
    const float unit = here.unit;
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
    wait(memory.added_there, step % 2);
#pragma unroll
    for (int n = 0; n < LANE_QUADS; ++n) {
      const float2 d = *reinterpret_cast<const float2*>(memory.diagonal() + n * 8 + lane % 4 * 2);
      const float4 b = added[quad_of_lane(n, lane)];
      s[n][0] = fmaf(d.x, s[n][0], b.x);
      s[n][1] = fmaf(d.y, s[n][1], b.y);
      s[n][2] = fmaf(d.x, s[n][2], b.z);
      s[n][3] = fmaf(d.y, s[n][3], b.w);
    }
    synchronise<CARRYING>();
    if (brings && !is_last) memory.bring_added(transitions[(step + 1) * GDN_HV]);
    if (step < begin) continue;
    // Both factors' scales are those of the sums, too.
    const float to_unit = 1.f / unit;
    const float scales[2] = {up[0] * to_unit, up[1] * to_unit}, back[2] = {down[0] * unit, down[1] * unit};
    scale_rows(s, scales);
    keep_in_place(s);
    keep_in_place(narrowed);
    wait(memory.rest_there, (step - begin) % 2);
    fence_warpgroup();
    const Matrix rest = matrix(memory.begun.rows, GDN_K * BAND_BYTES);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) multiply_fp16(s, narrowed[k], rest.descriptor(k * (TILE * BAND_BYTES)));
    complete(s);
    scale_rows(s, back);
    keep_in_place(s);
    synchronise<CARRYING>();
    if (brings && !is_last) memory.bring_rest(transitions[(step + 1) * GDN_HV]);
  }
}

}  // namespace gdn
