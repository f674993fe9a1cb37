// v1's products in equal shares: 256 rows of B and up to 128 of A are a tile, and a block has as many steps as any
// other, wherever they begin and end. A is widened by a launch of its own, as in v1, and the parts of tiles are added up
// by another, but each begins while the one in front of it runs.
#include "gemm.cuh"
#include "shares.cuh"

namespace gemm {

constexpr int COLUMN_TILES = (GEMM_N + TILE - 1) / TILE;
constexpr int ADDING = 256;  // threads of the last launch, four sums each
static_assert(FOURS % ADDING == 0);

// Up to 128 rows of A and 256 of B, by its number: those with the same rows of B follow each other.
struct Tile {
  int first_row, first_column;
  long long matrix;

  __device__ __forceinline__ Tile(int number, int row_tiles) {
    first_row = number % row_tiles * COLUMNS;
    first_column = number / row_tiles % COLUMN_TILES * TILE;
    matrix = number / row_tiles / COLUMN_TILES;
  }
};

__device__ __forceinline__ int row_tiles(int M) { return (M + COLUMNS - 1) / COLUMNS; }

// Which of a tile's sums a thread has: of 64 rows of B, four in two rows of C and two columns.
__device__ __forceinline__ int row_of(int four, int lane) { return four * 8 + lane % 4 * 2; }
__device__ __forceinline__ int column_of(int each, int warp, int lane) { return (each * WARPS + warp) * 16 + lane / 4 * 2; }

// By a thread: to C, what there is of it.
__device__ __forceinline__ void store_four(__half* C, int row, int column, int M, float4 sums) {
  if (column >= GEMM_N) return;
  auto* const to = reinterpret_cast<unsigned*>(C + static_cast<size_t>(row) * GEMM_N + column);
  if (row < M) to[0] = rounded(sums.x * FROM_BOTH, sums.z * FROM_BOTH);
  if (row + 1 < M) to[GEMM_N / 2] = rounded(sums.y * FROM_BOTH, sums.w * FROM_BOTH);
}

struct Work {
  static constexpr int TAIL_STEPS = 0;

  const unsigned char *B, *scales;
  char* widened;
  __half* C;
  int M;
  long long rows_sfb;
  int tiles;

  __device__ __forceinline__ LeftTile left(int number) const {
    const Tile tile(number, row_tiles(M));
    return left_tile(widened, tile.matrix * M + tile.first_row, M - tile.first_row);
  }

  // Behind the last column there is nothing to multiply; such a warp repeats the last 16.
  __device__ __forceinline__ void right(RightSource (&sources)[EACH], int number, int step, int warp, int lane) const {
    const Tile tile(number, row_tiles(M));
    const int piece = lane % 4;
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      const int row = min(tile.first_column + column_of(each, warp, 0), GEMM_N - 16) + lane / 4 * 2;
      sources[each] = {B + (tile.matrix * GEMM_N + row) * (GEMM_K / 2) + step * STEP_BYTES + piece * 16,
                       scales + tile.matrix * rows_sfb * SCALES +
                           scale_place(row + piece / 2, step * STEP_SCALES + piece % 2 * 4)};
    }
  }

  __device__ __forceinline__ float gate(float sum) const { return sum; }  // there is none

  __device__ __forceinline__ void finish(const Sums& sums, int number, int warp, int lane) const {
    const Tile tile(number, row_tiles(M));
    __half* const to = C + tile.matrix * M * GEMM_N;
#pragma unroll
    for (int each = 0; each < EACH; ++each)
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        if (i % 16 == 0) __syncwarp();  // no more predicates at once than there are registers for
        const float* const four = sums[each] + i;
        store_four(to, tile.first_row + row_of(i / 4, lane), tile.first_column + column_of(each, warp, lane), M,
                   {four[0], four[1], four[2], four[3]});
      }
  }
};

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_gemm_v3_widen(const unsigned char* __restrict__ A, const __nv_fp8_e4m3* __restrict__ sfa, char* widened,
                        const int M, const int L, const long long rows_sfa) {
  using namespace gemm;
  let_next_begin();
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int number = static_cast<int>(thread / WIDENING), matrix = number / M, row = number % M;
  if (matrix >= L) return;
  const int first = row / COLUMNS * COLUMNS;
  widen_words(left_tile(widened, static_cast<long long>(matrix) * M + first, M - first), row - first,
              A + static_cast<size_t>(number) * (GEMM_K / 2),
              reinterpret_cast<const unsigned char*>(sfa) + matrix * rows_sfa * SCALES, row,
              static_cast<int>(thread % WIDENING));
}

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1)
    nvfp4_gemm_v3_multiply(const unsigned char* __restrict__ B, const __nv_fp8_e4m3* __restrict__ sfb, char* widened,
                           float4* parts, __half* __restrict__ C, const int M, const int L, const long long rows_sfb) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  let_next_begin();
  const auto* const scales = reinterpret_cast<const unsigned char*>(sfb);
  const Work work = {B, scales, widened, C, M, rows_sfb, row_tiles(M) * COLUMN_TILES * L};
  multiply_share(*reinterpret_cast<Memory*>(bytes), work, {parts, nullptr}, uniform(threadIdx.x / WARP),
                 static_cast<int>(threadIdx.x) % WARP);
}

// A thread adds up four sums of a tile that several blocks have parts of.
extern "C" __global__ void __launch_bounds__(gemm::ADDING)
    nvfp4_gemm_v3_add(const float4* parts, __half* __restrict__ C, const int M, const int L) {
  using namespace gemm;
  constexpr int EACH_TILE = FOURS / ADDING;  // blocks
  const int tiles = row_tiles(M) * COLUMN_TILES * L, number = blockIdx.x / EACH_TILE;
  const int first = Share::first_of(tiles, number), last = Share::last_of(tiles, number);
  const int four = blockIdx.x % EACH_TILE * ADDING + threadIdx.x, thread = four % THREADS, of_thread = four / THREADS;
  const Tile tile(number, row_tiles(M));
  wait_for_earlier();
  if (first == last) return;
  const float4* from = parts + static_cast<size_t>(2 * first + 1) * FOURS + four;
  float4 sum = __ldcg(from);
  for (int block = first + 1; block <= last; ++block) {
    const float4 more = __ldcg(parts + static_cast<size_t>(2 * block) * FOURS + four);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  const int each = of_thread / (SUMS / 4), lane = thread % WARP;
  store_four(C + tile.matrix * M * GEMM_N, tile.first_row + row_of(of_thread % (SUMS / 4), lane),
             tile.first_column + column_of(each, thread / WARP, lane), M, sum);
}
