// Products of groups transposed, B A^T: a warpgroup widens rows of a group's B in registers, which are wgmma's left
// operand. The right one is A, which the first launch has widened, for all blocks. A group's rows of A are tiles of as
// many each, up to 128, with 256 of its B, and products have 32, 64, 96 or 128 columns for them. Blocks have shares of
// the steps of all groups' tiles that cost the same.
#include "gemm.cuh"

#include "../nvfp4-gemm/plain.cuh"

namespace gemm {

constexpr int COLUMN_TILES = (GEMM_N + TILE - 1) / TILE;
constexpr int NARROWEST = 32;  // products

// Rows of A of a group, and how they are tiles.
struct Group {
  int number = -1, first = 0, end = 0;
  int scales = 0;  // where its scales begin, in rows

  __device__ __forceinline__ void go_to_next(const int* ends) {
    scales += GEMM_TILED ? (end - first + 127) / 128 * 128 : end - first;
    first = end;
    end = ends[++number + 1];
  }

  __device__ __forceinline__ int row_tiles() const { return (end - first + COLUMNS - 1) / COLUMNS; }
  __device__ __forceinline__ int rows() const { return (end - first + row_tiles() - 1) / max(row_tiles(), 1); }
  __device__ __forceinline__ int tiles() const { return row_tiles() * COLUMN_TILES; }

  // Of columns of a product, in units of the narrowest one's.
  __device__ __forceinline__ int columns() const { return (rows() + NARROWEST - 1) / NARROWEST; }

  // Of a step: what it takes beside its products is about half of the narrowest ones.
  __device__ __forceinline__ int cost() const { return 2 * columns() + 1; }
};

struct Work : PlainWork {
  static constexpr int DEAREST = (2 * COLUMNS / NARROWEST + 1) * GRAIN;
  static constexpr bool OF_WHOLE = false;

  const int* ends;
  int groups;

  __device__ __forceinline__ int all() const {
    int number;
    return find(-1, -1, number).before;
  }

  __device__ __forceinline__ Tile at(int cost, int& number) const { return find(-1, cost, number); }
  __device__ __forceinline__ Tile tile(int number) const { return find(number, -1, number); }

  template <typename Call>
  __device__ __forceinline__ void with_columns(const Tile& tile, Call call) const {
    switch (tile.columns / NARROWEST) {
      case 1: return call(Columns<32>());
      case 2: return call(Columns<64>());
      case 3: return call(Columns<96>());
      default: return call(Columns<128>());
    }
  }

 private:
  // A tile by its number, or by one of its costs among all, or, if there is neither, what is behind all tiles. Tiles of
  // a group with the same rows of B follow each other.
  __device__ __forceinline__ Tile find(int wanted, int cost, int& number) const {
    int tiles = 0, before = 0;
    Group group;
    while (group.number + 1 < groups) {
      group.go_to_next(ends);
      const int each = group.cost() * STEPS, behind = before + group.tiles() * each;
      if (wanted >= 0 ? wanted < tiles + group.tiles() : cost >= 0 && cost < behind) {
        const int of_group = wanted >= 0 ? wanted - tiles : (cost - before) / each, of_rows = group.row_tiles();
        const int row = group.first + of_group % of_rows * group.rows();
        number = tiles + of_group;
        return {group.number, of_group / of_rows * TILE, row, min(group.end - row, group.rows()),
                group.columns() * NARROWEST, before + of_group * each, group.cost()};
      }
      tiles += group.tiles();
      before = behind;
    }
    number = tiles;
    return {0, 0, 0, 0, 0, before, 1};
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
  const int of_group = row - group.first, first = group.first + of_group / group.rows() * group.rows();
  widen_words(left_tile(widened, first, min(group.end - first, group.rows())), row - first,
              A + static_cast<size_t>(row) * (GEMM_K / 2),
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
  const Work work = {{B, scales, rows_sfb, widened, C}, ends, static_cast<int>(G)};
  multiply_share(*reinterpret_cast<Memory*>(bytes), work, {parts, arrived}, uniform(threadIdx.x / WARP),
                 static_cast<int>(threadIdx.x) % WARP);
}
