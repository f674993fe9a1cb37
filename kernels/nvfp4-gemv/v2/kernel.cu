// Products of bytes. A lane has AHEAD loads under way, and issues the next as soon as one is used.
#include "bytes.cuh"

using namespace gemv;

namespace {

constexpr int ROWS = AHEAD / HELD;                                   // whose loads are under way
constexpr int TOGETHER = ROWS % 4 == 0 ? 4 : ROWS % 2 == 0 ? 2 : 1;  // rows whose sums a warp adds up at once

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP * SPLIT * GROUPS) nvfp4_gemv_v2(GEMV_ARGUMENTS) {
  extern __shared__ float parts[];  // [rows of the block][SPLIT]
  const int lane = threadIdx.x % WARP;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);  // ptxas then sees that branches on it part no warp
  const int share = warp % SPLIT, group = warp / SPLIT;
  const long long matrix = blockIdx.y;
  // Each block of the matrix has as many rows, or one more, which its groups take in turn.
  const int each = M / gridDim.x, more = M % gridDim.x;
  const int first = blockIdx.x * each + min(blockIdx.x, more), count = each + (blockIdx.x < more);

  const int piece = share * HELD * WARP + lane;  // a lane's first; the others lie WARP pieces apart
  const size_t place = (matrix * M + first + group) * PIECES + piece;
  const uint4* codes = reinterpret_cast<const uint4*>(a) + place;
  const unsigned short* scales = reinterpret_cast<const unsigned short*>(sfa) + place;
  // The group's row of a number, unless that lies behind the `left` rows that the block still has: then the registers
  // keep what they hold, and its sum is not stored.
  const auto load = [&](Row& row, int number, int left) {
#pragma unroll
    for (int held = 0; held < HELD; ++held) {
      if (number * GROUPS >= left || (!IS_WHOLE && piece + held * WARP >= PIECES)) continue;
      row.codes[held] = codes[number * GROUPS * PIECES + held * WARP];
      row.scales[held] = scales[number * GROUPS * PIECES + held * WARP];
    }
  };

  Row of_vector = {}, rows[ROWS] = {};
  load_vector(of_vector, b, sfb, matrix, piece);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) load(rows[i], i, count - group);

  const Part part = part_of(of_vector, lane < packed ? LOW : 0);  // always LOW

  const int of_lane = lane / (WARP / TOGETHER);  // which of TOGETHER sums it has in the end
  const bool is_first = lane % (WARP / TOGETHER) == 0;
  float* own_parts = parts + (of_lane * GROUPS + group) * SPLIT + share;
  const auto sum_rows = [&] {
    for (int left = count - group;; left -= ROWS * GROUPS) {
#pragma unroll
      for (int begin = 0; begin < ROWS; begin += TOGETHER) {
        float sums[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
          sums[i] = dot(rows[begin + i], part);
          load(rows[begin + i], ROWS + begin + i, left);
        }
        const float sum = warp_sum(sums, lane);
        if (is_first && (begin + of_lane) * GROUPS < left) own_parts[begin * GROUPS * SPLIT] = sum;
        if ((begin + TOGETHER) * GROUPS >= left) return;
      }
      codes += ROWS * GROUPS * PIECES;
      scales += ROWS * GROUPS * PIECES;
      own_parts += ROWS * GROUPS * SPLIT;
    }
  };
  sum_rows();
  __syncthreads();

  add_shares(parts, c + matrix * M + first, count);
}
