// Products of numbers in nvfp4 as integers. Twice the magnitude of an e2m1 number is 0, 1, 2, 3, 4, 6, 8 or 12: a byte
// of a table in two registers, where one PRMT looks up four codes. Bit 3 of a selector, here the sign of a code, makes
// PRMT repeat the byte's highest bit instead, which is 0. So codes find the positive numbers of four, and codes with
// their signs turned over the negative ones; a DP4A multiplies four of either by the vector's, which a lane keeps as
// signed bytes in registers for all rows of its block. Both sums begin at 1.5 * 2^23 as an fp32, whose last bit counts
// 1: they are floats as they are, and their difference is exact.
#pragma once
#include "gemv.cuh"

namespace gemv {

constexpr int WARP = 32;
constexpr int NUMBERS = 32;  // in 16 bytes: two scales
constexpr int PIECES = GEMV_K / NUMBERS;
constexpr int SPLIT = (PIECES + WARP * HELD - 1) / (WARP * HELD);  // warps that share a row
constexpr int GROUPS = WARPS < SPLIT ? 1 : WARPS / SPLIT;          // rows that a block works on side by side
constexpr bool IS_WHOLE = SPLIT * WARP * HELD == PIECES;
constexpr unsigned LOW = 0x03020100, HIGH = 0x0c080604;  // twice the magnitudes of codes 0 to 3 and 4 to 7
constexpr unsigned SIGNS = 0x88888888;
constexpr int BEGIN = 0x4b400000;   // 1.5 * 2^23 as an fp32
constexpr float UNDONE = 0x1p118f;  // a row's scales are 2^120 times smaller, and products 4 times larger

// A lane's pieces of a row, WARP pieces apart.
struct Row {
  uint4 codes[HELD];
  unsigned scales[HELD];
};

// The vector's part of a lane, in the order in which a row's codes come.
struct Part {
  unsigned low;  // LOW
  int numbers[HELD][NUMBERS / 4];
  float scales[HELD][2];
};

// Twice the numbers of the four lower codes that are positive, and 0 for the others.
__device__ __forceinline__ unsigned positive(unsigned low, unsigned codes) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(HIGH), "r"(codes));
  return bytes;
}

// Twice the numbers of the four lower codes, as signed bytes. No byte of the difference borrows from the next.
__device__ __forceinline__ int signed_bytes(unsigned low, unsigned codes) {
  const unsigned negative = (0x80808080u - positive(low, codes ^ SIGNS)) ^ 0x80808080u;
  return static_cast<int>(positive(low, codes) | negative);
}

// The first or the second of two e4m3 that are not negative, 2^120 times smaller: its bits are those of an fp32, 20
// places further down.
__device__ __forceinline__ float scale_of(unsigned two, int which) {
  return __uint_as_float((which == 0 ? two << 20 : two << 12) & 0x07f00000u);
}

__device__ __forceinline__ int add_products(int sum, unsigned low, unsigned codes, const int* numbers) {
  sum = __dp4a(static_cast<int>(positive(low, codes)), numbers[0], sum);
  return __dp4a(static_cast<int>(positive(low, codes >> 16)), numbers[1], sum);
}

// 4 times the sum over 16 numbers without their scales.
__device__ __forceinline__ float block_sum(unsigned low, unsigned first, unsigned second, const int* numbers) {
  int of_positive = add_products(BEGIN, low, first, numbers);
  int of_negative = add_products(BEGIN, low, first ^ SIGNS, numbers);
  of_positive = add_products(of_positive, low, second, numbers + 2);
  of_negative = add_products(of_negative, low, second ^ SIGNS, numbers + 2);
  return __int_as_float(of_positive) - __int_as_float(of_negative);
}

__device__ __forceinline__ float dot(const Row& row, const Part& part) {
  float sum = 0.f;
#pragma unroll
  for (int held = 0; held < HELD; ++held) {
    const uint4 codes = row.codes[held];
    const int* numbers = part.numbers[held];
    const float scales[2] = {scale_of(row.scales[held], 0) * part.scales[held][0],
                             scale_of(row.scales[held], 1) * part.scales[held][1]};
    sum = fmaf(scales[0], block_sum(part.low, codes.x, codes.y, numbers), sum);
    sum = fmaf(scales[1], block_sum(part.low, codes.z, codes.w, numbers + 4), sum);
  }
  return sum;
}

// The vector's part of a lane whose first piece has this number.
__device__ __forceinline__ void load_vector(Row& row, const unsigned char* b, const __nv_fp8_e4m3* sfb,
                                            long long matrix, int piece) {
#pragma unroll
  for (int held = 0; held < HELD; ++held) {
    if (!IS_WHOLE && piece + held * WARP >= PIECES) continue;
    row.codes[held] = reinterpret_cast<const uint4*>(b)[matrix * PIECES + piece + held * WARP];
    row.scales[held] = reinterpret_cast<const unsigned short*>(sfb)[matrix * PIECES + piece + held * WARP];
  }
}

// `low` is LOW, unknown to ptxas, which would move a constant to a register before each look-up.
__device__ __forceinline__ Part part_of(const Row& vector, unsigned low) {
  Part part;
  part.low = low;
#pragma unroll
  for (int held = 0; held < HELD; ++held) {
    const uint4 four = vector.codes[held];
    const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < NUMBERS / 4; ++i) part.numbers[held][i] = signed_bytes(low, words[i / 2] >> (i % 2 * 16));
#pragma unroll
    for (int i = 0; i < 2; ++i) part.scales[held][i] = scale_of(vector.scales[held], i) * 0x1p120f * UNDONE;
  }
  return part;
}

// Of sums over a warp that of number lane / (WARP / Count): lanes hand each other the half of the sums that they do not
// keep, as long as there is more than one.
template <int Count>
__device__ __forceinline__ float warp_sum(float (&sums)[Count], int lane) {
  int apart = WARP / 2;
#pragma unroll
  for (int kept = Count / 2; kept > 0; kept /= 2, apart /= 2) {
    const bool is_upper = lane & apart;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const float handed = is_upper ? sums[i] : sums[i + kept];
      sums[i] = (is_upper ? sums[i + kept] : sums[i]) + __shfl_xor_sync(0xffffffffu, handed, apart);
    }
  }
#pragma unroll
  for (; apart > 0; apart /= 2) sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], apart);
  return sums[0];
}

// By all threads of a block: rows of c, from the sums [rows of the block][SPLIT] of the warps that share each.
__device__ __forceinline__ void add_shares(const float* parts, __half* c, int rows) {
  for (int row = threadIdx.x; row < rows; row += blockDim.x) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < SPLIT; ++i) sum += parts[row * SPLIT + i];
    c[row] = __float2half(sum);
  }
}

}  // namespace gemv
