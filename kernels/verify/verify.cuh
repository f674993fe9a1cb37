// What the CUDA kernels over draft tokens share: the argument list, where things lie, gates and sums.
#pragma once
#include <cuda_bf16.h>

// The op's argument list, the same for every CUDA kernel: inputs, scalars, outputs, the batch size, then derived sizes.
#define GDN_VERIFY_ARGUMENTS                                                                                   \
  const __nv_bfloat16 *__restrict__ mixed_qkv, const __nv_bfloat16 *__restrict__ a,                            \
      const __nv_bfloat16 *__restrict__ b, const float *__restrict__ A_log, const float *__restrict__ dt_bias, \
      const gdn::State *__restrict__ pool, const int *__restrict__ slot, const float scale,                    \
      const float beta_limit, __nv_bfloat16 *__restrict__ output, gdn::State *__restrict__ states,             \
      const int batches, const long long slots, const long long mixed, const long long kept

namespace gdn {

#if GDN_STATE == 16
using State = __nv_bfloat16;
#else
using State = float;
#endif

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr int TOKENS = GDN_T;
constexpr int KEPT = GDN_KEEP ? TOKENS : 1;               // states of a sequence that are written
constexpr unsigned QUERIES = GDN_HQ * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_HV * GDN_V;  // of a token's queries, keys and values
constexpr unsigned HEAD = GDN_V * GDN_K;                  // of a head's state
constexpr unsigned PACK = 16 / sizeof(State);             // of a state that one load brings: one float4, or two
constexpr unsigned PACK_QUADS = PACK / 4;
constexpr float EPS = 1e-6f;                              // below the root of a norm
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

struct Gates {
  float decay;  // g = exp(-exp(A_log) * softplus(a + dt_bias))
  float write;  // beta = beta_limit * sigmoid(b)
};

// 2^x and 1/x by the special function unit: an error of 2 ulp, and none of the library's branches.
__device__ __forceinline__ float exp2_mufu(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_mufu(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ Gates gates(float A_log, float dt_bias, float a, float b, float beta_limit) {
  constexpr float LOG2_E = 1.442695041f;
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1pf(exp2_mufu(-LOG2_E * fabsf(x)));
  const float rate = exp2_mufu(LOG2_E * A_log) * softplus;
  return {exp2_mufu(-LOG2_E * rate), beta_limit * reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * b))};
}

// A branch that is never taken, for the batch size is not 0. Past it ptxas moves no load, which it else does to save
// registers, down to where the load is used, so that two trips to memory take place one after the other.
__device__ __forceinline__ void loads_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, 0; @never trap; }" ::"r"(batches) : "memory");
}

// Four bf16 as floats.
__device__ __forceinline__ float4 widen(uint2 bits) {
  return make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
                     __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u));
}

// Where in a row the quads begin that a lane holds: its loads lie Lanes of them apart, and one brings PACK_QUADS quads.
template <int Lanes>
__device__ __forceinline__ unsigned column(unsigned lane, int quad) {
  return (quad / PACK_QUADS * Lanes + lane) * PACK + quad % PACK_QUADS * 4;
}

// A lane's part of a query or key, by loads of 16 bytes where the columns that follow each other allow it.
template <int Lanes, int Quads>
__device__ __forceinline__ void load_key(const __nv_bfloat16* key, unsigned lane, uint2 (&bits)[Quads]) {
#pragma unroll
  for (int i = 0; i < Quads; i += PACK_QUADS) {
#if GDN_STATE == 16
    const uint4 load = *reinterpret_cast<const uint4*>(key + column<Lanes>(lane, i));
    bits[i] = make_uint2(load.x, load.y);
    bits[i + 1] = make_uint2(load.z, load.w);
#else
    bits[i] = *reinterpret_cast<const uint2*>(key + column<Lanes>(lane, i));
#endif
  }
}

// A lane's part of a row of the state, as it lies in memory, and as floats where they are waited for.
template <int Quads>
struct RowBits {
  uint4 loads[Quads / PACK_QUADS];
};

template <int Lanes, int Quads>
__device__ __forceinline__ RowBits<Quads> load_row(const State* row, unsigned lane) {
  RowBits<Quads> bits;
#pragma unroll
  for (int i = 0; i < Quads; i += PACK_QUADS)
    bits.loads[i / PACK_QUADS] = *reinterpret_cast<const uint4*>(row + column<Lanes>(lane, i));
  return bits;
}

template <int Quads>
__device__ __forceinline__ void widen(const RowBits<Quads>& bits, float4 (&quads)[Quads]) {
#pragma unroll
  for (int i = 0; i < Quads; i += PACK_QUADS) {
    const uint4 load = bits.loads[i / PACK_QUADS];
#if GDN_STATE == 16
    quads[i] = widen(make_uint2(load.x, load.y));
    quads[i + 1] = widen(make_uint2(load.z, load.w));
#else
    quads[i] = make_float4(__uint_as_float(load.x), __uint_as_float(load.y), __uint_as_float(load.z),
                           __uint_as_float(load.w));
#endif
  }
}

__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

template <int Lanes, int Quads>
__device__ __forceinline__ void store_row(State* row, unsigned lane, const float4 (&quads)[Quads]) {
#pragma unroll
  for (int i = 0; i < Quads; i += PACK_QUADS) {
#if GDN_STATE == 16
    const uint4 store =
        make_uint4(bf16_pair(quads[i].x, quads[i].y), bf16_pair(quads[i].z, quads[i].w),
                   bf16_pair(quads[i + 1].x, quads[i + 1].y), bf16_pair(quads[i + 1].z, quads[i + 1].w));
#else
    const uint4 store = make_uint4(__float_as_uint(quads[i].x), __float_as_uint(quads[i].y),
                                   __float_as_uint(quads[i].z), __float_as_uint(quads[i].w));
#endif
    *reinterpret_cast<uint4*>(row + column<Lanes>(lane, i)) = store;
  }
}

// A dot product over several quads: two chains that run side by side.
template <int Quads>
__device__ __forceinline__ float dot_of_quads(const float4 (&x)[Quads], const float4 (&y)[Quads]) {
  float odd = x[0].y * y[0].y, even = x[0].x * y[0].x;
#pragma unroll
  for (int i = 0; i < Quads; ++i) {
    if (i > 0) even = fmaf(x[i].x, y[i].x, even), odd = fmaf(x[i].y, y[i].y, odd);
    even = fmaf(x[i].z, y[i].z, even);
    odd = fmaf(x[i].w, y[i].w, odd);
  }
  return even + odd;
}

// Sum over groups of so many neighbouring lanes, in every lane.
template <int Lanes>
__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

// x * y
__device__ __forceinline__ float4 scaled(float x, float4 y) {
  return make_float4(x * y.x, x * y.y, x * y.z, x * y.w);
}

// x + s * y
__device__ __forceinline__ float4 add_scaled(float4 x, float s, float4 y) {
  return make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
}

}  // namespace gdn
