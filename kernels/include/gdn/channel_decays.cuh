// Kimi Delta Attention's decays, one a channel: worked out by a block's threads, for the rows of its head to read.
#pragma once
#include <gdn/math.cuh>
#include <gdn/quads.cuh>
#include <gdn/state_rows.cuh>

namespace kda {

constexpr unsigned QUERIES = GDN_H * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_H * GDN_V;  // of a token's queries, keys and values
constexpr float EPS = 1e-6f;                             // below the root of a norm
constexpr float LOG2_E = 1.442695041f;
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

__device__ __forceinline__ float sigmoid(float x) {
  return gdn::reciprocal_mufu(1.f + gdn::exp2_mufu(-LOG2_E * x));
}

// What a channel keeps, of its raw gate with the bias and the head's rate, exp(A_log). The softplus is max(x, 0) +
// log1p(exp(-|x|)): no overflow, and full relative precision where it is tiny.
__device__ __forceinline__ float decay(float x, float rate, float lower_bound) {
#if GDN_GATE == 1
  return gdn::exp2_mufu(LOG2_E * lower_bound * sigmoid(rate * x));
#else
  const float softplus = fmaxf(x, 0.f) + log1pf(gdn::exp2_mufu(-LOG2_E * fabsf(x)));
  return gdn::exp2_mufu(-LOG2_E * rate * softplus);
#endif
}

// A branch that is never taken, for the batch size is not 0: past it ptxas moves no load, which it else does to where
// the load is used, behind the wait for others, so that it is a trip to memory of its own.
__device__ __forceinline__ void loads_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, 0; @never trap; }" ::"r"(batches) : "memory");
}

// A branch that is never taken, for what is given is not negative: past it ptxas moves nothing that it is computed of,
// which it else does, to where that is used, behind the wait for the state.
__device__ __forceinline__ void computed_first(float not_negative) {
  asm volatile("{ .reg .pred never; setp.lt.f32 never, %0, 0f00000000; @never trap; }" ::"f"(not_negative) : "memory");
}

// The channels whose decays a thread works out, for all rows of its block, which read them behind a barrier.
template <int Threads>
struct Channels {
  static constexpr int COUNT = (GDN_K + Threads - 1) / Threads;
  __nv_bfloat16 g[COUNT];
  float bias[COUNT], A;

  __device__ __forceinline__ static bool is_there(int i) {
    return GDN_K % Threads == 0 || i * Threads + threadIdx.x < GDN_K;
  }

  __device__ __forceinline__ void load(const __nv_bfloat16* gates, const float* dt_bias, const float* A_log) {
    A = *A_log;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (is_there(i)) g[i] = gates[i * Threads + threadIdx.x], bias[i] = dt_bias[i * Threads + threadIdx.x];
  }

  __device__ __forceinline__ void store_decays(float (&to)[GDN_K], float lower_bound) const {
    const float rate = gdn::exp2_mufu(LOG2_E * A);
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (is_there(i)) to[i * Threads + threadIdx.x] = decay(__bfloat162float(g[i]) + bias[i], rate, lower_bound);
  }
};

__device__ __forceinline__ float4 product(float4 x, float4 y) {
  return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
}

// What a lane's part of a row keeps: each element times its channel's decay.
template <int Quads>
__device__ __forceinline__ void decay_row(float4 (&s)[Quads], const float4 (&decays)[Quads]) {
#pragma unroll
  for (int i = 0; i < Quads; ++i) s[i] = product(decays[i], s[i]);
}

// The decays of a lane's part of a row.
template <int Lanes, int Quads>
__device__ __forceinline__ void load_decays(float4 (&quads)[Quads], const float (&decays)[GDN_K], unsigned lane) {
#pragma unroll
  for (int i = 0; i < Quads; ++i)
    quads[i] = *reinterpret_cast<const float4*>(decays + gdn::column<Lanes>(lane, i));
}

}  // namespace kda
