// Products of one B a matrix, or a group, that become C as they are. Of what tiles, others say.
#pragma once
#include "shares.cuh"

namespace gemm {

struct PlainWork {
  static constexpr int TAIL_STEPS = 0;

  const unsigned char *B, *scales;
  long long rows_sfb;
  char* widened;
  __half* C;

  // Behind the last column there is nothing to multiply; such a warp repeats the last 16.
  __device__ __forceinline__ void right(RightSource (&sources)[EACH], const Tile& tile, int step, int warp,
                                        int lane) const {
    const int piece = lane % 4;
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      const int row = min(tile.first_column + column_of(each, warp, 0), GEMM_N - 16) + lane / 4 * 2;
      const long long matrix = tile.matrix;
      sources[each] = {B + (matrix * GEMM_N + row) * (GEMM_K / 2) + step * STEP_BYTES + piece * 16,
                       scales + matrix * rows_sfb * SCALES +
                           scale_place(row + piece / 2, step * STEP_SCALES + piece % 2 * 4)};
    }
  }

  __device__ __forceinline__ float gate(float sum) const { return sum; }  // there is none

  template <int Number>
  __device__ __forceinline__ void finish(const float (&sums)[EACH][Number], const Tile& tile, int warp,
                                         int lane) const {
    store_tile<Number>(C, tile, EACH, warp, lane, [&](int each, int i) { return sums[each][i] * FROM_BOTH; });
  }
};

}  // namespace gemm
