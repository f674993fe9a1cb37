// Numbers in nvfp4, widened to fp16, where e2m1 times its scale is exact. A number's three bits of magnitude, as bits
// 11 to 9 of an fp16, are 2^-14 of it, the subnormal one's, too: e2m1's bias is 1 and fp16's 15. A scale comes as 2^7
// of itself, at most 57344. So either factor is widened to 2^-7 of its scaled numbers, multiples of 2^-17 with no more
// than 6 significant bits.
//
// A word has 8 codes. Codes i and i + 4 lie at the same place in its halves, and become a register, a pair.
#pragma once

namespace gemm {

constexpr int BLOCK = 16;               // numbers that share a scale
constexpr int SCALES = GEMM_K / BLOCK;  // of a row
constexpr int STEP = 128;               // numbers of a row that are multiplied at once
constexpr int STEPS = GEMM_K / STEP;
constexpr int STEP_BYTES = STEP / 2, STEP_SCALES = STEP / BLOCK;  // of a row
constexpr float FROM_BOTH = 0x1p14f;                              // makes a product of two factors of its own size

// Multipliers that move codes. They are in memory, since of constants ptxas would make shifts, for which there is the
// pipe that the masks take, too.
__constant__ unsigned MOVES[2] = {1u << 9, 1u << 1};

// The pair of codes at `Place`, 0 or 2, of a word that has none at 1, 3, 5 and 7. A code is moved to bits 12 to 9,
// where adding 7 * 2^12 carries its sign to bit 15; whatever lies elsewhere is cut off. Left to itself, the compiler
// takes three operations to move and to add.
template <int Place>
__device__ __forceinline__ unsigned pair_at(unsigned codes) {
  unsigned moved;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(moved) : "r"(codes), "r"(MOVES[Place / 2]), "n"(0x70007000));
  return moved & 0x8e008e00u;
}

__device__ __forceinline__ unsigned multiply_pairs(unsigned x, unsigned y) {
  unsigned product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

// A scale, a byte, as a pair. An e4m3's bits, 7 further up, are an fp16, 2^-8 of it.
__device__ __forceinline__ unsigned scale_pair(unsigned scale) {
  constexpr unsigned TWICE_2_15 = 0x78007800;
  return multiply_pairs(scale * 0x00800080u, TWICE_2_15);
}

// The four pairs of a word.
__device__ __forceinline__ void widen(unsigned (&pairs)[4], unsigned codes, unsigned scale) {
  const unsigned even = codes & 0x0f0f0f0fu, odd = codes >> 4 & 0x0f0f0f0fu;
  pairs[0] = multiply_pairs(pair_at<0>(even), scale);
  pairs[1] = multiply_pairs(pair_at<0>(odd), scale);
  pairs[2] = multiply_pairs(pair_at<2>(even), scale);
  pairs[3] = multiply_pairs(pair_at<2>(odd), scale);
}

// Where the scale of a row's block lies in its matrix, and those of the next step.
__device__ __forceinline__ long long scale_place(long long row, int block) {
  if (GEMM_TILED) return (row / 128 * (SCALES / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
  return row * SCALES + block;
}
constexpr int NEXT_SCALES = GEMM_TILED ? STEP_SCALES / 4 * 512 : STEP_SCALES;

}  // namespace gemm
