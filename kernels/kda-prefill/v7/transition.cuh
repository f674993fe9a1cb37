// What a segment makes of any state S that it begins with, S M + B: B is the state that it leaves of zero, and M what it leaves of
// the unit matrix without values.
//
// The diagonal of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of the state. What
// is left of M, R, is multiplied in fp16, of 11 bits.
#pragma once
#include "../v6/memory.cuh"

namespace kda {

// In global memory. R lies as a right operand of wgmma does, in two bands of columns.
struct alignas(128) Transition {
  unsigned short rest[GDN_K * GDN_K];  // R in fp16, times REST_SCALE
  float diagonal[GDN_K];
};

// Neither keys, of norm 1, nor betas nor decays are greater than 1, so that M makes no state longer.
constexpr float REST_SCALE = 16384.f;

// By a warp: its rows of M.
__device__ __forceinline__ void store_transition(Transition& to, const State& s, int warp, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp * TILE + static_cast<int>(lane / 4) + half * 8, first = n * 8 + static_cast<int>(lane % 4) * 2;
      float pair[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float own = s[n][2 * half + i];
        if (row == first + i) to.diagonal[row] = own;
        pair[i] = row == first + i ? 0.f : REST_SCALE * own;
      }
      *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(to.rest) + banded<GDN_K>(row, n) + lane % 4 * 4) =
          pack_fp16(pair[0], pair[1]);
    }
}

}  // namespace kda
