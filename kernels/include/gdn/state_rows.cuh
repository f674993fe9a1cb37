// Rows of a state in fp32 or bf16, as GDN_STATE says, and of keys: the part that a lane of those that share a row has.
#pragma once
#include <gdn/bf16.cuh>

namespace gdn {

#if GDN_STATE == 16
using State = __nv_bfloat16;
#else
using State = float;
#endif

constexpr unsigned HEAD = GDN_V * GDN_K;       // of a head's state
constexpr unsigned PACK = 16 / sizeof(State);  // of a state that one load brings: one float4, or two
constexpr unsigned PACK_QUADS = PACK / 4;

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
    quads[i] =
        make_float4(__uint_as_float(load.x), __uint_as_float(load.y), __uint_as_float(load.z), __uint_as_float(load.w));
#endif
  }
}

template <int Lanes, int Quads>
__device__ __forceinline__ void store_row(State* row, unsigned lane, const float4 (&quads)[Quads]) {
#pragma unroll
  for (int i = 0; i < Quads; i += PACK_QUADS) {
#if GDN_STATE == 16
    const uint4 store =
        make_uint4(pack(quads[i].x, quads[i].y), pack(quads[i].z, quads[i].w), pack(quads[i + 1].x, quads[i + 1].y),
                   pack(quads[i + 1].z, quads[i + 1].w));
#else
    const uint4 store = make_uint4(__float_as_uint(quads[i].x), __float_as_uint(quads[i].y),
                                   __float_as_uint(quads[i].z), __float_as_uint(quads[i].w));
#endif
    *reinterpret_cast<uint4*>(row + column<Lanes>(lane, i)) = store;
  }
}

}  // namespace gdn
