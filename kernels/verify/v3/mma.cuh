// Products of bf16 by tensor cores, added up in fp32, and how the lanes of a warp hold what they multiply.
//
// mma multiplies A [16, 16] by B [16, 8]. Lane l holds, in pairs, elements of rows l / 4 and l / 4 + 8 of A, of column
// l / 4 of B, and of rows l / 4 and l / 4 + 8 of the sum [16, 8]: there the pair l % 4 of a row's four; of A and B the
// pairs l % 4 and l % 4 + 4 of the 16 elements that are summed over. These may be any, if A and B have the same. So of
// each 32 elements of a row or vector, a span, a lane holds eight that follow each other, one load of 16 bytes: two of
// its pairs are its part of one mma, two that of another.
#pragma once
#include "verify.cuh"

namespace gdn {

constexpr int QUAD = 4;  // lanes that share a row
constexpr int SPAN = 32;
constexpr int SPANS = GDN_K / SPAN;  // of a row
constexpr int PAIRS = 4;             // of a span that a lane holds
static_assert(GDN_STATE == 16, "tensor cores multiply bf16");
static_assert(GDN_K % SPAN == 0, "no element of a row is left over");

using Part = unsigned[SPANS][PAIRS];  // a lane's of a row or vector, in pairs
using Sum = float4;                   // and of a sum: a pair of its upper row, then one of its lower

// Where a span begins in a row. A warp counts them from the first of those that are its own.
__device__ __forceinline__ unsigned span_at(int span, unsigned first) { return (span + first) % SPANS * SPAN; }

// From the lane's first element of a row or vector.
__device__ __forceinline__ void load_part(const __nv_bfloat16* from, unsigned first_span, Part& part) {
#pragma unroll
  for (int span = 0; span < SPANS; ++span) {
    const uint4 load = *reinterpret_cast<const uint4*>(from + span_at(span, first_span));
    part[span][0] = load.x, part[span][1] = load.y, part[span][2] = load.z, part[span][3] = load.w;
  }
}

// A B + sum. Of A the pairs of the upper and of the lower row, for each first those of the first eight elements. It is
// volatile, or the compiler puts off what is not needed at once until it waits for the state anyway.
__device__ __forceinline__ Sum multiply_add(unsigned upper, unsigned lower, unsigned next_upper, unsigned next_lower,
                                            unsigned b, unsigned next_b, Sum sum) {
  Sum result;
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(result.x), "=f"(result.y), "=f"(result.z), "=f"(result.w)
      : "r"(upper), "r"(lower), "r"(next_upper), "r"(next_lower), "r"(b), "r"(next_b), "f"(sum.x), "f"(sum.y),
        "f"(sum.z), "f"(sum.w));
  return result;
}

// The dot products of 8 rows with 8 vectors, of which a lane gets those of its row with its pair of vectors. The four
// registers of a load are A as they lie: the first and the third pair of a row above, the others below, where mma has
// another row. So of either product one half counts, and there are twice as many as 16 rows at once would take; but A,
// which is four registers that follow each other, takes no moves, and the products wait less for each other.
template <int Chains>
__device__ __forceinline__ float2 dot_products(const Part& rows, const Part& vectors) {
  Sum above[Chains] = {}, below[Chains] = {};
#pragma unroll
  for (int span = 0; span < SPANS; ++span) {
    const unsigned(&a)[PAIRS] = rows[span], (&b)[PAIRS] = vectors[span];
    const int chain = span % Chains;
    above[chain] = multiply_add(a[0], a[1], a[2], a[3], b[0], b[2], above[chain]);
    below[chain] = multiply_add(a[0], a[1], a[2], a[3], b[1], b[3], below[chain]);
  }
  float2 result = make_float2(above[0].x + below[0].z, above[0].y + below[0].w);
#pragma unroll
  for (int chain = 1; chain < Chains; ++chain) {
    result.x += above[chain].x + below[chain].z;
    result.y += above[chain].y + below[chain].w;
  }
  return result;
}

// A float as the sum of three bf16, its leading bits, the next ones and the last: exact, for each has eight of 24.
struct ThreeParts {
  unsigned leading;  // a pair: the first and the second
  unsigned last;     // the third, and zero
};

__device__ __forceinline__ ThreeParts three_parts(float x) {
  constexpr unsigned UPPER = 0xffff0000u;  // a float's half that is a bf16
  const unsigned bits = __float_as_uint(x);
  const float rest = x - __uint_as_float(bits & UPPER);
  const unsigned rest_bits = __float_as_uint(rest);
  const float last = rest - __uint_as_float(rest_bits & UPPER);
  return {__byte_perm(bits, rest_bits, 0x7632), __float_as_uint(last) >> 16};
}

}  // namespace gdn
