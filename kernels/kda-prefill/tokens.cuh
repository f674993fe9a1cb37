// The tokens of a chunk as a block of kda-prefill holds them: its shared memory, and in registers of two warps a group of 8
// tokens, of which a lane has a pair of channels.
#pragma once
#define GDN_HQ GDN_H
#define GDN_HV GDN_H
#define GROUPS 1  // warpgroups of rows of the state
#include "../prefill/inverse.cuh"
#include "../prefill/scan.cuh"

namespace kda {

using namespace gdn;

constexpr float EPS = 1e-6f;  // below the root of a norm
constexpr int THREADS = 512;
constexpr int OWN = 8;  // tokens of a warp, and of the next one, which has the keys' other channels
constexpr int OWNERS = CHUNK / OWN;
constexpr int PAIRS = GDN_K / 2;  // of channels
constexpr int VALUE_TILES = GDN_V / TILE;
static_assert(PAIRS == 2 * WARP && THREADS == 2 * OWNERS * WARP, "two warps have the pairs of their tokens");
static_assert(KEY_TILES + VALUE_TILES == THREADS / WARP, "a warp solves for a tile of channels, or of values");

// What all rows of the state take of a chunk of a head,
struct alignas(128) Alike {
  Rows y;              // (I + A)^-1 diag(beta) (G ∘ K)
  Rows queries, keys;  // scale Q ∘ G, and K ∘ (G_C / G)
  Triangle products;   // scale P
  float whole[GDN_K];  // G_C
};

// and W, in lanes' order, of so many tiles of values.
template <int Tiles>
struct Ready {
  Alike alike;
  uint4 w[Tiles][SIDE][WARP];
};
using AllReady = Ready<VALUE_TILES>;

// Rows of keys or queries that products within a chunk are made of; the eight that ldmatrix reads lie in other banks.
constexpr int PITCH = GDN_K * 2 + 16;  // bytes
struct alignas(16) Parts {
  char rows[CHUNK * PITCH];
};

struct ChunkMemory {
  union {
    struct {
      alignas(1024) Rows y, queries, keys, decayed;
    };
    struct {
      Parts later[2], earlier;  // of two sizes of groups; of the earlier tokens the second's from row CHUNK / 2 on
    };
  };
  alignas(1024) Triangle products;
  union {
    alignas(1024) Triangle solved;
    float2 logs[OWNERS][PAIRS];  // of the decays of so many tokens, their sum
  };
  union {
    alignas(1024) __nv_bfloat16 values[CHUNK * GDN_V];
    uint4 w[VALUE_TILES][SIDE][WARP];
  };
  float whole[GDN_K];
  alignas(16) Coupling coupling;
  float2 kept[OWNERS][PAIRS];                    // of all of their tokens
  alignas(16) float partial[2][OWNERS][3 * OWN];  // of the channels of one warp: k·k, q·q, and k·q
  alignas(16) float beta[CHUNK];
};

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.f + exp2_fast(-LOG2_E * x)); }

// log2 of what a channel keeps; `slope` is -LOG2_E times the head's rate, and the bound is that of log2, too.
__device__ __forceinline__ float log_decay(float x, float slope, float bound) {
#if GDN_GATE == 1
  return bound * reciprocal(1.f + exp2_fast(slope * x));
#else
  return slope * (fmaxf(x, 0.f) + log1pf(exp2_fast(-LOG2_E * fabsf(x))));
#endif
}

__device__ __forceinline__ float2 times(float2 x, float2 y) { return make_float2(x.x * y.x, x.y * y.y); }

__device__ __forceinline__ float2 times(float x, float2 y) { return make_float2(x * y.x, x * y.y); }

__device__ __forceinline__ float2 plus(float2 x, float2 y) { return make_float2(x.x + y.x, x.y + y.y); }

__device__ __forceinline__ float2 exp2_of(float2 x) { return make_float2(exp2_fast(x.x), exp2_fast(x.y)); }

// Of a lane's channels: what makes decays of the gates as they come.
struct Gate {
  float2 bias;
  float slope, bound;

  __device__ __forceinline__ float2 log_decays(unsigned g) const {
    const float2 x = plus(unpack_bf16(g), bias);
    return make_float2(log_decay(x.x, slope, bound), log_decay(x.y, slope, bound));
  }
};

// A lane's channels of its warp's tokens, as they come.
struct Raw {
  unsigned k[OWN], q[OWN], g[OWN];

  // After the sequence's end nothing is written, and by a gate of minus infinity nothing decays.
  __device__ __forceinline__ void load(const __nv_bfloat16* keys, const __nv_bfloat16* queries,
                                       const __nv_bfloat16* gates, int tokens) {
    const auto pair = [](const __nv_bfloat16* from) { return *reinterpret_cast<const unsigned*>(from); };
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      k[i] = q[i] = 0, g[i] = 0xff80ff80u;
      if (i < tokens) {
        k[i] = pair(keys + i * (GDN_H * GDN_K));
        q[i] = pair(queries + i * (GDN_H * GDN_K));
        g[i] = pair(gates + i * (GDN_H * GDN_K));
      }
    }
  }
};

// What keys and queries of a warp's tokens are multiplied with, 1 / |k| and scale / |q|: a lane has one of these.
struct Norms {
  float factor;

  __device__ __forceinline__ float of_key(int token) const { return __shfl_sync(ALL_LANES, factor, 2 * token); }
  __device__ __forceinline__ float of_query(int token) const {
    return __shfl_sync(ALL_LANES, factor, WARP / 2 + 2 * token);
  }
};

__device__ __forceinline__ float dot(unsigned x, unsigned y) {
  const float2 a = unpack_bf16(x), b = unpack_bf16(y);
  return fmaf(a.x, b.x, a.y * b.y);
}

// The norms of a group's tokens, by its two warps; without a bound on the gate, products k·q are left in `partial`, too.
__device__ __forceinline__ Norms take_norms(ChunkMemory& memory, const Raw& raw, float scale, int group, int half,
                                            unsigned lane) {
  float squares[2 * OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) squares[i] = dot(raw.k[i], raw.k[i]), squares[OWN + i] = dot(raw.q[i], raw.q[i]);
  scatter_sums<WARP, 1>(squares, lane);  // two lanes have one
  if (lane % 2 == 0) memory.partial[half][group][lane / 2] = squares[0];
#if GDN_GATE != 1
  float products[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) products[i] = dot(raw.k[i], raw.q[i]);
  scatter_sums<WARP, 1>(products, lane);  // four lanes have one
  if (lane % 4 == 0) memory.partial[half][group][2 * OWN + lane / 4] = products[0];
#endif
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(2 * WARP) : "memory");
  const float sum = memory.partial[0][group][lane / 2] + memory.partial[1][group][lane / 2];
  return {(lane < WARP / 2 ? 1.f : scale) * rsqrtf(sum + EPS)};
}

}  // namespace kda
