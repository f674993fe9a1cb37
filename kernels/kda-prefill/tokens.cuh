// The tokens of a chunk as a block of kda-prefill holds them: its shared memory, and of each warp 8 tokens in registers, a
// lane's four channels of each.
#pragma once
#define GDN_HQ GDN_H
#define GDN_HV GDN_H
#define GROUPS 1  // warpgroups of rows of the state
#include "../prefill/inverse.cuh"
#include "../prefill/scan.cuh"

namespace kda {

using namespace gdn;

constexpr float EPS = 1e-6f;  // below the root of a norm
constexpr int THREADS = 256;
constexpr int OWN = 8;  // tokens of a warp
constexpr int VALUE_TILES = GDN_V / TILE;
static_assert(GDN_K == 4 * WARP && CHUNK == OWN * THREADS / WARP, "a lane has four channels of its warp's tokens");
static_assert(VALUE_TILES <= THREADS / WARP, "a warp has no more than a tile of values");

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
    float4 logs[THREADS / WARP][WARP];  // of the decays of a warp's tokens, their sum
  };
  union {
    alignas(1024) __nv_bfloat16 values[CHUNK * GDN_V];
    uint4 w[VALUE_TILES][SIDE][WARP];
  };
  float whole[GDN_K];
  alignas(16) Coupling coupling;
  float4 kept[THREADS / WARP][WARP];                    // of all tokens of a warp
  alignas(16) float key[CHUNK], query[CHUNK];           // 1 / |k| and scale / |q|
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

__device__ __forceinline__ float4 times(float4 x, float4 y) {
  return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
}

__device__ __forceinline__ float4 exp2_of(float4 x) {
  return make_float4(exp2_fast(x.x), exp2_fast(x.y), exp2_fast(x.z), exp2_fast(x.w));
}

// Of a lane's channels: what makes decays of the gates as they come.
struct Gate {
  float4 bias;
  float slope, bound;

  __device__ __forceinline__ float4 log_decays(uint2 g) const {
    const float4 x = gdn::widen(g);
    return make_float4(log_decay(x.x + bias.x, slope, bound), log_decay(x.y + bias.y, slope, bound),
                       log_decay(x.z + bias.z, slope, bound), log_decay(x.w + bias.w, slope, bound));
  }
};

// A lane's channels of its warp's tokens, as they come.
struct Raw {
  uint2 k[OWN], q[OWN], g[OWN];

  // After the sequence's end nothing is written, and by a gate of minus infinity nothing decays.
  __device__ __forceinline__ void load(const __nv_bfloat16* keys, const __nv_bfloat16* queries,
                                       const __nv_bfloat16* gates, int tokens) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      k[i] = q[i] = make_uint2(0, 0), g[i] = make_uint2(0xff80ff80u, 0xff80ff80u);
      if (i < tokens) {
        k[i] = load_bits(keys + i * (GDN_H * GDN_K));
        q[i] = load_bits(queries + i * (GDN_H * GDN_K));
        g[i] = load_bits(gates + i * (GDN_H * GDN_K));
      }
    }
  }
};

// The norms of a warp's tokens.
__device__ __forceinline__ void take_norms(ChunkMemory& memory, const Raw& raw, float scale, int warp, unsigned lane) {
  float squares[2 * OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) {
    const float4 k = gdn::widen(raw.k[i]), q = gdn::widen(raw.q[i]);
    squares[i] = dot(k, k);
    squares[OWN + i] = dot(q, q);
  }
  scatter_sums<WARP, 1>(squares, lane);  // two lanes have one
  const bool is_key = lane < WARP / 2;
  const float factor = (is_key ? 1.f : scale) * rsqrtf(squares[0] + EPS);
  (is_key ? memory.key : memory.query)[warp * OWN + lane / 2 % OWN] = factor;
  __syncwarp();
}

}  // namespace kda
