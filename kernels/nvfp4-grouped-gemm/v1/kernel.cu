// Products of groups transposed, B A^T: a warpgroup widens rows of a group's B in registers, which are wgmma's left
// operand. The right one is A, which the first launch has widened, for all blocks. Up to 128 of a group's rows of A are a
// tile with 256 of its B, and blocks have equal shares of the steps of all groups' tiles.
#include "gemm.cuh"

#include "../nvfp4-gemm/shares.cuh"

namespace gemm {

constexpr int COLUMN_TILES = (GEMM_N + TILE - 1) / TILE;

__device__ __forceinline__ int row_tiles(int rows) { return (rows + COLUMNS - 1) / COLUMNS; }

// Rows of A of a group, and where its scales begin.
struct Group {
  int number = 0, first = 0, end = 0, scales = 0;

  __device__ __forceinline__ void go_to_next(const int* ends) {
    scales += GEMM_TILED ? row_tiles(end - first) * 128 : end - first;
    first = end;
    end = ends[++number];
  }
};

// Up to 128 rows of a group and 256 rows of its B, by its number: a group's tiles follow each other, first those with
// the same rows of B.
struct Tile {
  Group group;
  int first_row, first_column;

  __device__ __forceinline__ Tile(const int* ends, int number) {
    int tiles = 0;
    do {
      number -= tiles;
      group.go_to_next(ends);
      tiles = row_tiles(group.end - group.first) * COLUMN_TILES;
    } while (number >= tiles);
    const int of_rows = row_tiles(group.end - group.first);
    first_row = group.first + number % of_rows * COLUMNS;
    first_column = number / of_rows * TILE;
  }
};

struct Work {
  static constexpr int TAIL_STEPS = 0;

  const unsigned char *B, *scales;
  const int* ends;
  char* widened;
  __half* C;
  long long rows_sfb;
  int tiles;

  static __device__ __forceinline__ int count(const int* ends, int groups) {
    int tiles = 0;
    for (int group = 0; group < groups; ++group) tiles += row_tiles(ends[group + 1] - ends[group]) * COLUMN_TILES;
    return tiles;
  }

  __device__ __forceinline__ LeftTile left(int number) const {
    const Tile tile(ends, number);
    return left_tile(widened, tile.first_row, tile.group.end - tile.first_row);
  }

  static __device__ __forceinline__ int column(const Tile& tile, int each, int warp) {
    return tile.first_column + (each * WARPS + warp) * 16;
  }

  // Behind the last column there is nothing to multiply; such a warp repeats the last 16.
  __device__ __forceinline__ void right(RightSource (&sources)[EACH], int number, int step, int warp, int lane) const {
    const Tile tile(ends, number);
    const long long group = tile.group.number - 1;
    const int piece = lane % 4;
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      const int row = min(column(tile, each, warp), GEMM_N - 16) + lane / 4 * 2;
      sources[each] = {B + (group * GEMM_N + row) * (GEMM_K / 2) + step * STEP_BYTES + piece * 16,
                       scales + group * rows_sfb * SCALES +
                           scale_place(row + piece / 2, step * STEP_SCALES + piece % 2 * 4)};
    }
  }

  __device__ __forceinline__ float gate(float sum) const { return sum; }  // there is none

  // A lane's two neighbours in each of 32 rows, for each 64 of a warpgroup's.
  __device__ __forceinline__ void finish(const Sums& sums, int number, int warp, int lane) const {
    const Tile tile(ends, number);
    const int rows = min(tile.group.end - tile.first_row, COLUMNS);
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      const int at_column = column(tile, each, warp) + lane / 4 * 2;
      if (at_column >= GEMM_N) break;
#pragma unroll
      for (int i = 0; i < COLUMNS / 4; ++i) {
        if (i % 8 == 0) __syncwarp();  // no more predicates at once than there are registers for
        const int row = i / 2 * 8 + lane % 4 * 2 + i % 2, at = i / 2 * 4 + i % 2;
        if (row < rows)
          *reinterpret_cast<unsigned*>(C + static_cast<size_t>(tile.first_row + row) * GEMM_N + at_column) =
              rounded(sums[each][at] * FROM_BOTH, sums[each][at + 2] * FROM_BOTH);
      }
    }
  }
};

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_grouped_gemm_v1_widen(const unsigned char* __restrict__ A, const __nv_fp8_e4m3* __restrict__ sfa,
                                const int* __restrict__ ends, char* widened, unsigned* arrived, const long long T) {
  using namespace gemm;
  let_next_begin();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread / WIDENING;
  if (thread < BLOCKS) arrived[thread] = 0;
  if (row >= T) return;
  Group group;
  while (row >= group.end) group.go_to_next(ends);
  const int of_group = row - group.first, first = group.first + of_group / COLUMNS * COLUMNS;
  widen_words(left_tile(widened, first, group.end - first), row - first, A + static_cast<size_t>(row) * (GEMM_K / 2),
              reinterpret_cast<const unsigned char*>(sfa) + static_cast<long long>(group.scales) * SCALES, of_group,
              thread % WIDENING);
}

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1)
    nvfp4_grouped_gemm_v1_multiply(const unsigned char* __restrict__ B, const __nv_fp8_e4m3* __restrict__ sfb,
                                   const int* __restrict__ ends, char* widened, float4* parts, unsigned* arrived,
                                   __half* __restrict__ C, const long long G, const long long rows_sfb) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  const auto* const scales = reinterpret_cast<const unsigned char*>(sfb);
  const Work work = {B, scales, ends, widened, C, rows_sfb, Work::count(ends, static_cast<int>(G))};
  multiply_share(*reinterpret_cast<Memory*>(bytes), work, {parts, arrived}, uniform(threadIdx.x / WARP),
                 static_cast<int>(threadIdx.x) % WARP);
}
