// The short convolution of a decode step: four channels a lane, with three earlier inputs each, and SiLU.
#pragma once
#include <gdn/bf16.cuh>
#include <gdn/math.cuh>

namespace gdn {

constexpr float LOG2_E = 1.442695041f;

__device__ __forceinline__ float sigmoid(float x) { return reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * x)); }

// Of two bf16 in a word the one at the lower address, and the other.
__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

// Pieces of 16 bytes that the earlier inputs of so many channels have, which are a multiple of eight.
__host__ __device__ constexpr unsigned pieces(unsigned channels) { return channels * 3 / 8; }

// Four channels' inputs and weights, as they lie in memory: three earlier inputs a channel, then the next channel's.
struct Channels {
  uint2 x, before[3];
  uint4 weight[2];

  // What does not wait for the slot.
  __device__ __forceinline__ void load_new(const __nv_bfloat16* x_of_channel, const __nv_bfloat16* weight_of_channel) {
    x = *reinterpret_cast<const uint2*>(x_of_channel);
    weight[0] = reinterpret_cast<const uint4*>(weight_of_channel)[0];
    weight[1] = reinterpret_cast<const uint4*>(weight_of_channel)[1];
  }

  __device__ __forceinline__ void load_before(const __nv_bfloat16* inputs) {
#pragma unroll
    for (int i = 0; i < 3; ++i) before[i] = reinterpret_cast<const uint2*>(inputs)[i];
  }

  // The newest input comes in, the oldest goes; the twelve numbers are c0 d0 e0 c1 d1 e1 ..., each x behind its d and e.
  __device__ __forceinline__ void store_shifted(uint2* to) const {
    const unsigned w0 = before[0].x, w1 = before[0].y, w2 = before[1].x, w3 = before[1].y, w4 = before[2].x,
                   w5 = before[2].y;
    to[0] = make_uint2(__byte_perm(w0, w1, 0x5432), __byte_perm(x.x, w2, 0x5410));
    to[1] = make_uint2(__byte_perm(w2, x.x, 0x7632), __byte_perm(w3, w4, 0x5432));
    to[2] = make_uint2(__byte_perm(x.y, w5, 0x5410), __byte_perm(w5, x.y, 0x7632));
  }

  // SiLU of the sums of taps, the oldest input first.
  __device__ __forceinline__ float4 convolved() const {
    const float c0 = tap(weight[0].x, weight[0].y, low(before[0].x), high(before[0].x), low(before[0].y), low(x.x));
    const float c1 = tap(weight[0].z, weight[0].w, high(before[0].y), low(before[1].x), high(before[1].x), high(x.x));
    const float c2 = tap(weight[1].x, weight[1].y, low(before[1].y), high(before[1].y), low(before[2].x), low(x.y));
    const float c3 = tap(weight[1].z, weight[1].w, high(before[2].x), low(before[2].y), high(before[2].y), high(x.y));
    return make_float4(c0 * sigmoid(c0), c1 * sigmoid(c1), c2 * sigmoid(c2), c3 * sigmoid(c3));
  }

 private:
  __device__ __forceinline__ static float tap(unsigned first, unsigned last, float oldest, float older, float old,
                                              float now) {
    return fmaf(high(last), now, fmaf(low(last), old, fmaf(high(first), older, low(first) * oldest)));
  }
};

}  // namespace gdn
