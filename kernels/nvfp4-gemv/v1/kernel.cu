// A lane's part of the vector stays in registers as fp16 for all rows of its block, whose warps share each row. A code's
// bits, moved, are those of an fp16 2^14 times smaller, so that two numbers take four operations and a product of each
// with its number of the vector one. Products of 16 numbers with one scale are summed in fp16 without an error, 8 in each
// half: they are whole multiples of 1/8 and at most 144. The next rows are asked for before these are worked on.
#include "gemv.cuh"

namespace {

constexpr int WARP = 32;
constexpr int NUMBERS = 32;  // in 16 bytes: two scales
constexpr int PIECES = GEMV_K / NUMBERS;
constexpr int SPLIT = (PIECES + WARP * HELD - 1) / (WARP * HELD);  // warps that share a row
constexpr int GROUPS = WARPS < SPLIT ? 1 : WARPS / SPLIT;          // rows that a block works on side by side
constexpr bool IS_WHOLE = SPLIT * WARP * HELD == PIECES;
constexpr int GROUP_ROWS = EACH * STEPS;
// Codes are 2^14 times smaller, the vector's numbers 2^13 times larger, and both scales 2^8 times smaller.
constexpr float UNDONE = 131072.f;

struct Rows {
  uint4 codes[EACH][HELD];
  unsigned short scales[EACH][HELD];
};

// Codes i and i + 4 of eight as fp16, 2^14 times smaller: the sign to bits 15 and 31, the rest to 9 to 11 and 25 to 27.
template <int I>
__device__ __forceinline__ __half2 pair_of(unsigned codes) {
  const unsigned signs = I < 3 ? codes << (12 - 4 * I) : codes;
  const unsigned rest = I < 3 ? codes << (I < 3 ? 9 - 4 * I : 0) : codes >> 3;
  const unsigned bits = (signs & 0x80008000u) | (rest & 0x0e000e00u);
  return *reinterpret_cast<const __half2*>(&bits);
}

// Two e4m3 that are not negative, 2^8 times smaller: their bits are those of an fp16, 7 places further down.
__device__ __forceinline__ float2 scales_of(unsigned two) {
  const unsigned bits = (two & 0x7fu) << 7 | (two & 0x7f00u) << 15;
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

// The vector's part of a lane, in the order in which a row's codes come.
struct Part {
  __half2 numbers[HELD][NUMBERS / 2];
  float scales[HELD][2];
};

__device__ __forceinline__ void widen(__half2 (&numbers)[NUMBERS / 2], uint4 codes) {
  const __half2 up = __float2half2_rn(16384.f), further = __float2half2_rn(8192.f);
  const unsigned words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const __half2 four[4] = {pair_of<0>(words[word]), pair_of<1>(words[word]), pair_of<2>(words[word]),
                             pair_of<3>(words[word])};
#pragma unroll
    for (int i = 0; i < 4; ++i) numbers[word * 4 + i] = __hmul2(__hmul2(four[i], up), further);
  }
}

// The sum over 16 numbers without their scales, times 2^-1.
__device__ __forceinline__ float block_sum(unsigned low, unsigned high, const __half2* numbers) {
  __half2 sum = __hmul2(pair_of<0>(low), numbers[0]);
  sum = __hfma2(pair_of<1>(low), numbers[1], sum);
  sum = __hfma2(pair_of<2>(low), numbers[2], sum);
  sum = __hfma2(pair_of<3>(low), numbers[3], sum);
  sum = __hfma2(pair_of<0>(high), numbers[4], sum);
  sum = __hfma2(pair_of<1>(high), numbers[5], sum);
  sum = __hfma2(pair_of<2>(high), numbers[6], sum);
  sum = __hfma2(pair_of<3>(high), numbers[7], sum);
  const float2 halves = __half22float2(sum);
  return halves.x + halves.y;
}

__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int apart = WARP / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP * SPLIT * GROUPS) nvfp4_gemv_v1(GEMV_ARGUMENTS) {
  __shared__ float parts[GROUPS * GROUP_ROWS][SPLIT];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int share = warp % SPLIT, group = warp / SPLIT;
  const int first = (blockIdx.x * GROUPS + group) * GROUP_ROWS;
  const long long matrix = blockIdx.y;
  const int piece = share * HELD * WARP + lane;  // a lane's first; the others lie WARP pieces apart

  const auto load = [&](Rows& rows, int step) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int row = min(first + step * EACH + i, M - 1);  // past the last row: loaded again, and not stored
      const size_t place = (matrix * M + row) * PIECES + piece;
#pragma unroll
      for (int held = 0; held < HELD; ++held) {
        if (!IS_WHOLE && piece + held * WARP >= PIECES) continue;
        rows.codes[i][held] = reinterpret_cast<const uint4*>(a)[place + held * WARP];
        rows.scales[i][held] = reinterpret_cast<const unsigned short*>(sfa)[place + held * WARP];
      }
    }
  };

  Rows now = {}, next = {};
  load(now, 0);
  Part part = {};
#pragma unroll
  for (int held = 0; held < HELD; ++held) {
    if (!IS_WHOLE && piece + held * WARP >= PIECES) continue;
    const size_t place = matrix * PIECES + piece + held * WARP;
    widen(part.numbers[held], reinterpret_cast<const uint4*>(b)[place]);
    const float2 both = scales_of(reinterpret_cast<const unsigned short*>(sfb)[place]);
    part.scales[held][0] = UNDONE * both.x;
    part.scales[held][1] = UNDONE * both.y;
  }

#pragma unroll 2  // the rows change places without a copy
  for (int step = 0; step < STEPS; ++step) {
    if (step + 1 < STEPS) load(next, step + 1);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      float sum = 0.f;
#pragma unroll
      for (int held = 0; held < HELD; ++held) {
        const uint4 codes = now.codes[i][held];
        const float2 scales = scales_of(now.scales[i][held]);
        sum = fmaf(scales.x * part.scales[held][0], block_sum(codes.x, codes.y, part.numbers[held]), sum);
        sum = fmaf(scales.y * part.scales[held][1], block_sum(codes.z, codes.w, part.numbers[held] + 8), sum);
      }
      sum = group_sum(sum);
      if (lane == 0) parts[group * GROUP_ROWS + step * EACH + i][share] = sum;
    }
    now = next;
  }
  __syncthreads();

  for (int row = threadIdx.x; row < GROUPS * GROUP_ROWS; row += blockDim.x) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < SPLIT; ++i) sum += parts[row][i];
    const int place = blockIdx.x * GROUPS * GROUP_ROWS + row;
    if (place < M) c[matrix * M + place] = __float2half(sum);
  }
}
