// The factors before values, S k, S q and w, which are the same for all rows of a head. Each lane finds those of its
// tokens, one of each four, while the state is on its way.
#pragma once
#include "mma.cuh"

namespace gdn {

constexpr int FOURS = (TOKENS + QUAD - 1) / QUAD;  // of tokens, the last of which may be fewer
constexpr int TURNS = FOURS * QUAD;

// Of a lane's token i of each four.
struct Factors {
  float written_value[FOURS];            // of v_i in w_i
  float written_state[FOURS];            // of S k_i in w_i
  float written_written[FOURS][TOKENS];  // of w_j in w_i; none where j is not before i
  float output_state[FOURS];             // of S q_i in output_i
  float output_written[FOURS][TOKENS];   // of w_j in output_i; none where j is after i
  float last_written[FOURS];             // of w_i k_i^T in the last state
  float last_state;                      // of the first state in the last one
};

// Of the keys and queries of each four, in turns, with key i and query i of a lane's token i.
using Products = float2[FOURS];

template <int Width = WARP>
__device__ __forceinline__ float from_lane(float x, int lane) {
  return __shfl_sync(ALL_LANES, x, lane, Width);
}

// Norms are in the factors, and w_i has its key's, so that keys and queries are used as they are. A lane's last token
// may be none; its w is 0.
__device__ __forceinline__ Factors find_factors(const Products (&all_products)[FOURS], Gates own, float scale,
                                                int quarter) {
  Factors factors;
  float decays[TOKENS];
  factors.last_state = 1.f;
#pragma unroll
  for (int t = 0; t < TOKENS; ++t) {
    decays[t] = from_lane<TURNS>(own.decay, t);
    factors.last_state *= decays[t];
  }
#pragma unroll
  for (int four = 0; four < FOURS; ++four) {
    const int i = four * QUAD + quarter;
    const Products& products = all_products[four];
    const float k_norm = rsqrtf(from_lane(products[four].x, quarter * 9) + EPS);  // from the row of key i
    const float q_norm = rsqrtf(from_lane(products[four].y, quarter * 9 + QUAD) + EPS) * scale;  // of query i
    const float beta = FOURS == 1 ? own.write : from_lane<TURNS>(own.write, i);
    const float write = i < TOKENS ? beta * k_norm : 0.f;
    float decay = 1.f;  // D(i, j)
    factors.last_written[four] = 1.f;
#pragma unroll
    for (int j = TOKENS - 1; j >= 0; --j) {
      factors.last_written[four] *= j > i ? decays[j] : 1.f;
      if (j / QUAD > four) continue;
      const int lane = j % QUAD * 8 + quarter;  // in the row of key j
      const float kk = from_lane(products[j / QUAD].x, lane), qk = from_lane(products[j / QUAD].y, lane);
      factors.written_written[four][j] = j < i ? write * k_norm * (decay * kk) : 0.f;
      factors.output_written[four][j] = j <= i ? q_norm * (decay * qk) : 0.f;
      decay *= j <= i ? decays[j] : 1.f;
    }
    factors.written_value[four] = write;
    factors.written_state[four] = write * k_norm * decay;
    factors.output_state[four] = q_norm * decay;
  }
  return factors;
}

// Something that needs all of them.
__device__ __forceinline__ unsigned bits_of(const Factors& factors) {
  unsigned bits = GDN_KEEP ? 0 : __float_as_uint(factors.last_state);
#pragma unroll
  for (int four = 0; four < FOURS; ++four) {
    bits ^= __float_as_uint(factors.written_value[four]) ^ __float_as_uint(factors.written_state[four]);
    bits ^= __float_as_uint(factors.output_state[four]) ^ (GDN_KEEP ? 0 : __float_as_uint(factors.last_written[four]));
#pragma unroll
    for (int j = 0; j < TOKENS && j / QUAD <= four; ++j)
      bits ^= __float_as_uint(factors.written_written[four][j]) ^ __float_as_uint(factors.output_written[four][j]);
  }
  return bits;
}

// Past these nothing is moved that touches memory, nor past the second what `bits` are worked out from: ptxas else puts
// it off to where it is used, when the state has come. They are branches that are never taken, for no batch has a
// negative size; with a number each, for ptxas drops one that asks the same as another before it.
template <int Number>
__device__ __forceinline__ void memory_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, %1; @never trap; }" ::"r"(batches), "n"(-Number)
               : "memory");
}

template <int Number>
__device__ __forceinline__ void values_first(int batches, unsigned bits) {
  asm volatile(
      "{ .reg .pred none, never;\n"
      "  setp.eq.s32 none, %0, %1;\n"
      "  setp.eq.and.u32 never, %2, 0, none;\n"
      "  @never trap; }" ::"r"(batches),
      "n"(-Number), "r"(bits)
      : "memory");
}

}  // namespace gdn
