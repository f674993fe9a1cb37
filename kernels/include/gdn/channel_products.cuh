// A state times the keys and queries of some tokens, each times decays, by tensor cores: in bf16, or in tf32.
//
// mma multiplies A [16, 16] by B [16, 8]. Lane l holds, in pairs, elements of rows l / 4 and l / 4 + 8 of A, of column
// l / 4 of B, and of rows l / 4 and l / 4 + 8 of the sum [16, 8]: there the pair l % 4 of a row's four; of A and B the
// pairs l % 4 and l % 4 + 4 of the 16 elements that are summed over. These may be any, if A and B have the same. So of
// each 32 elements of a row or vector, a span, a lane holds eight that follow each other, one load of 16 bytes: two of
// its pairs are its part of one mma, two that of another. Its two rows of the state follow each other, too. In tf32 all
// is the same with one number for each pair.
#pragma once
#include <gdn/channel_tokens.cuh>

namespace kda {

// Numbers that an fp32 is the sum of, its leading bits and what is left: three bf16, which is exact, beside a state in
// bf16; two tf32 beside one in fp32, of which tensor cores leave out the last bits.
constexpr int PARTS = sizeof(gdn::State) == 2 ? 3 : 2;
constexpr unsigned LEADING_BITS = sizeof(gdn::State) == 2 ? 0xffff0000u : 0xffffe000u;
constexpr int BANKS_APART = 64 / sizeof(gdn::State);  // elements between vectors: two of them lie in different banks

__device__ __forceinline__ float leading(float x) { return __uint_as_float(__float_as_uint(x) & LEADING_BITS); }

// In shared memory. Vectors of S are keys and queries in turns, times D(i, -1), each in parts.
template <int Tokens, bool IsEach, bool IsKept>
struct PartVectors : Updates<Tokens, IsEach, IsKept> {
  static constexpr int COUNT = 2 * Tokens;
  alignas(16) gdn::State of_state[PARTS][COUNT][GDN_K + BANKS_APART];

  template <int Count>
  __device__ __forceinline__ void set_of_state(int vector, unsigned column, const float (&x)[Count]) {
    float left[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) left[i] = x[i];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      gdn::State own[Count];
#pragma unroll
      for (int i = 0; i < Count; ++i) own[i] = static_cast<gdn::State>(leading(left[i])), left[i] -= leading(left[i]);
      store(&of_state[part][vector][column], own);
    }
  }
};

constexpr int QUAD = 4;        // lanes that share a row of a sum, and its tokens: lane i has token i of each four
constexpr int TILE_ROWS = 16;  // of the state that mma multiplies
constexpr int SPAN = 64 / sizeof(gdn::State);
constexpr int SPANS = GDN_K / SPAN;  // of a row
constexpr bool IS_SPLIT = PARTS == 2;  // is the state more than tensor cores multiply at once?
static_assert(GDN_K % SPAN == 0, "no element of a row is left over");

#if GDN_STATE == 16
#define KDA_MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define KDA_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#endif

__device__ __forceinline__ void multiply_add(uint2 upper, uint2 lower, uint2 b, float4& sum) {
  asm volatile(KDA_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
               : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(b.x), "r"(b.y));
}

// Both halves of a span.
__device__ __forceinline__ void multiply_add(uint4 upper, uint4 lower, uint4 b, float4& sum, float4& next_sum) {
  multiply_add(make_uint2(upper.x, upper.y), make_uint2(lower.x, lower.y), make_uint2(b.x, b.y), sum);
  multiply_add(make_uint2(upper.z, upper.w), make_uint2(lower.z, lower.w), make_uint2(b.z, b.w), next_sum);
}

// What tensor cores leave out of numbers in fp32.
__device__ __forceinline__ uint4 left_out(uint4 bits) {
  const auto rest = [](unsigned x) { return __float_as_uint(__uint_as_float(x) - leading(__uint_as_float(x))); };
  return make_uint4(rest(bits.x), rest(bits.y), rest(bits.z), rest(bits.w));
}

// Of a lane's token of each four, and of its two rows: S k and S q.
template <int Tokens>
using StateProducts = float2[(Tokens + QUAD - 1) / QUAD][2];

// Eight columns of B are the keys and queries of four tokens, and their parts are added up. Those of a single token are
// side by side: the lanes of a row then sum them for each other.
template <bool IsOne, int Tokens, class AllVectors>
__device__ __forceinline__ void multiply_state(const gdn::State (*rows)[GDN_K], const AllVectors& vectors,
                                               unsigned lane, StateProducts<Tokens>& products) {
  constexpr int CHAINS = IsOne ? 2 : 3;  // of mmas that wait for each other
  constexpr int FOURS = (Tokens + QUAD - 1) / QUAD;
  const unsigned turn = lane / QUAD, quarter = lane % QUAD;
  float4 sums[FOURS][CHAINS] = {};
#pragma unroll
  for (int span = 0; span < SPANS; ++span) {
    const unsigned first = span * SPAN + quarter * (SPAN / QUAD);
    const uint4 upper = *reinterpret_cast<const uint4*>(&rows[2 * turn][first]);
    const uint4 lower = *reinterpret_cast<const uint4*>(&rows[2 * turn + 1][first]);
#pragma unroll
    for (int four = 0; four < FOURS; ++four)
#pragma unroll
      for (int part = 0; part < (IsOne ? 1 : PARTS); ++part) {
        const unsigned vector = IsOne ? turn % 2 : min(four * 8 + turn, AllVectors::COUNT - 1);
        const unsigned own_part = IsOne ? min(turn / 2, PARTS - 1) : part;
        const uint4 b = *reinterpret_cast<const uint4*>(&vectors.of_state[own_part][vector][first]);
        multiply_add(upper, lower, b, sums[four][part], sums[four][IsOne ? 1 : part]);
        if (IS_SPLIT && part == 0)
          multiply_add(left_out(upper), left_out(lower), b, sums[four][IsOne ? 0 : 2], sums[four][IsOne ? 1 : 2]);
      }
  }
#pragma unroll
  for (int four = 0; four < FOURS; ++four) {
    float4 all = sums[four][CHAINS - 1];
#pragma unroll
    for (int chain = CHAINS - 2; chain >= 0; --chain) {
      const float4 more = sums[four][chain];
      all = make_float4(all.x + more.x, all.y + more.y, all.z + more.z, all.w + more.w);
    }
    if constexpr (IsOne) {
      const bool is_part = quarter < PARTS;
      all.x = gdn::group_sum<QUAD>(is_part ? all.x : 0.f), all.y = gdn::group_sum<QUAD>(is_part ? all.y : 0.f);
      all.z = gdn::group_sum<QUAD>(is_part ? all.z : 0.f), all.w = gdn::group_sum<QUAD>(is_part ? all.w : 0.f);
    }
    products[four][0] = make_float2(all.x, all.y), products[four][1] = make_float2(all.z, all.w);
  }
}

}  // namespace kda
