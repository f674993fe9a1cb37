// Parts of a tile's sums that blocks leave for each other, where their shares end within it, and sums as C.
#pragma once
#include <cuda_fp16.h>

#include "tiles.cuh"

namespace gemm {

constexpr int EACH = 4 / WARPGROUPS;  // times 64 rows of B that a warpgroup has, one after the other
constexpr int WARPS = 4 * WARPGROUPS, THREADS = WARPS * WARP;
constexpr int FOURS = TILE * COLUMNS / 4;  // of a tile's sums

// A thread's, of a tile with so many columns.
template <int Columns>
using Sums = float[EACH][Columns / 2];

// A tile's first part is the last thing that its block does, and the others are the first: two places of each block.
struct Parts {
  float4* sums;
  unsigned* arrived;  // parts of the tile whose first one a block has; none if another launch adds

  __device__ __forceinline__ float4* place(int block, bool is_first) const {
    return sums + static_cast<size_t>(2 * block + is_first) * FOURS + threadIdx.x;
  }
};

// By all threads: leaves a part of a tile.
template <int Number>
__device__ __forceinline__ void leave_part(const float (&sums)[EACH][Number], float4* to) {
#pragma unroll
  for (int each = 0; each < EACH; ++each)
#pragma unroll
    for (int i = 0; i < Number; i += 4)
      __stcg(to + (each * Number + i) / 4 * THREADS,
             make_float4(sums[each][i], sums[each][i + 1], sums[each][i + 2], sums[each][i + 3]));
}

// By all threads: leaves a part of a tile, and, where it is the last of `first` to `last` to come, which one thread
// tells the others by `is_last`, finds the tile's sums.
template <int Number>
__device__ __forceinline__ bool add_parts(float (&sums)[EACH][Number], int& is_last, const Parts& parts, int first,
                                          int last) {
  const int own = blockIdx.x;
  leave_part(sums, parts.place(own, own == first));
  if (parts.arrived == nullptr) return false;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(parts.arrived + first, 1u) == static_cast<unsigned>(last - first);
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return false;
  const bool are_two = last == first + 1;  // whose order is all the same
  if (!are_two)
#pragma unroll
    for (int each = 0; each < EACH; ++each)
#pragma unroll
      for (int i = 0; i < Number; ++i) sums[each][i] = 0;
#pragma unroll 1
  for (int block = first; block <= last; ++block) {
    if (are_two && block == own) continue;
    const float4* const from = parts.place(block, block == first);
#pragma unroll
    for (int each = 0; each < EACH; ++each)
#pragma unroll
      for (int i = 0; i < Number; i += 4) {
        if (i % 32 == 0) __syncwarp();  // no more loads at once than there are registers for
        const float4 more = __ldcg(from + (each * Number + i) / 4 * THREADS);
        sums[each][i] += more.x, sums[each][i + 1] += more.y, sums[each][i + 2] += more.z, sums[each][i + 3] += more.w;
      }
  }
  return true;
}

// Two numbers of C.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Which sums of a tile a thread has: of each 64 rows of B, fours in two rows of C and two of its columns.
__device__ __forceinline__ int row_of(int four, int lane) { return four * 8 + lane % 4 * 2; }
__device__ __forceinline__ int column_of(int each, int warp, int lane) {
  return (each * WARPS + warp) * 16 + lane / 4 * 2;
}

// By a thread: two numbers in each of two rows of C, where the tile has them.
__device__ __forceinline__ void store_four(__half* C, const Tile& tile, int row, int column, float4 four) {
  if (tile.first_column + column >= GEMM_N) return;
  const size_t at = static_cast<size_t>(tile.first_row + row) * GEMM_N + tile.first_column + column;
  auto* const to = reinterpret_cast<unsigned*>(C + at);
  if (row < tile.rows) to[0] = rounded(four.x, four.z);
  if (row + 1 < tile.rows) to[GEMM_N / 2] = rounded(four.y, four.w);
}

// By all threads: sums of a tile, `take(each, i)` of each.
template <int Number, typename Call>
__device__ __forceinline__ void store_tile(__half* C, const Tile& tile, int times, int warp, int lane, Call take) {
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    if (each >= times) break;
#pragma unroll
    for (int i = 0; i < Number; i += 4) {
      if (i % 16 == 0) __syncwarp();  // no more predicates at once than there are registers for
      store_four(C, tile, row_of(i / 4, lane), column_of(each, warp, lane),
                 {take(each, i), take(each, i + 1), take(each, i + 2), take(each, i + 3)});
    }
  }
}

}  // namespace gemm
