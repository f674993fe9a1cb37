// A, widened by a launch of its own for all blocks, as stages of shared memory have it. Up to 128 rows are a tile: band
// after band, 64 numbers of each of its rows.
#pragma once
#include "products.cuh"
#include "widen.cuh"

namespace gemm {

constexpr int WORDS = 4;                    // of a row of codes, 16 bytes apart, that a thread widens
constexpr int WIDENING = GEMM_K / 8 / WORDS;  // threads of a row

struct LeftTile {
  char* bands;
  int rows;
};

// Of rows from `first` on, of which `all` are left.
__device__ __forceinline__ LeftTile left_tile(char* widened, long long first, int all) {
  return {widened + first * GEMM_K * static_cast<int>(sizeof(__half)), min(all, COLUMNS)};
}

// By the n-th thread of a row: words of a step, one of each lane of four, whose first pairs are a piece of a band, and
// so on. `scales` are those of the row's matrix, in which it has number `scale_row`.
__device__ __forceinline__ void widen_words(const LeftTile& to, int row, const unsigned char* row_codes,
                                            const unsigned char* scales, long long scale_row, int n) {
  const int step = n / WORDS, word = n % WORDS;
  const unsigned* const codes = reinterpret_cast<const unsigned*>(row_codes + step * STEP_BYTES) + word;
  unsigned pairs[WORDS][4];
#pragma unroll
  for (int t = 0; t < WORDS; ++t) {
    const unsigned char scale = scales[scale_place(scale_row, step * STEP_SCALES + 2 * t + word / 2)];
    widen(pairs[t], codes[WORDS * t], scale_pair(scale));
  }
  char* const band = to.bands + static_cast<size_t>(2 * step + word / 2) * to.rows * BAND;
#pragma unroll
  for (int i = 0; i < WORDS; ++i)
    *reinterpret_cast<uint4*>(band + swizzled(row, word % 2 * 4 + i)) = {pairs[0][i], pairs[1][i], pairs[2][i],
                                                                       pairs[3][i]};
}

}  // namespace gemm
