// v1's products in equal shares: 256 rows of B and up to 128 of A are a tile, and a block has as many steps as any
// other, wherever they begin and end. As in v1 a launch of its own widens A and another adds the parts of tiles up, but
// each begins while the one in front of it runs.
#include "gemm.cuh"
#include "plain.cuh"

namespace gemm {

constexpr int ADDING = 256;  // threads of the last launch, four sums each
static_assert(FOURS % ADDING == 0);

using Tiles = EqualTiles<TILE, false>;

struct Work : Tiles, PlainWork {
  template <typename Call>
  __device__ __forceinline__ void with_columns(const Tile&, Call call) const {
    call(Columns<COLUMNS>());
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
  const Work work = {{M, L}, {B, scales, rows_sfb, widened, C}};
  multiply_share(*reinterpret_cast<Memory*>(bytes), work, {parts, nullptr}, uniform(threadIdx.x / WARP),
                 static_cast<int>(threadIdx.x) % WARP);
}

// A thread adds up four sums of a tile that several blocks have parts of.
extern "C" __global__ void __launch_bounds__(gemm::ADDING)
    nvfp4_gemm_v3_add(const float4* parts, __half* __restrict__ C, const int M, const int L) {
  using namespace gemm;
  constexpr int EACH_TILE = FOURS / ADDING;  // blocks
  const Tiles tiles = {M, L};
  const Tile tile = tiles.tile(blockIdx.x / EACH_TILE);
  const Share share(tiles, 0);
  const int first = share.first_of(tile), last = share.last_of(tile);
  const int four = blockIdx.x % EACH_TILE * ADDING + threadIdx.x, thread = four % THREADS, of_thread = four / THREADS;
  wait_for_earlier();
  if (first == last) return;
  float4 sum = __ldcg(parts + static_cast<size_t>(2 * first + 1) * FOURS + four);
  for (int block = first + 1; block <= last; ++block) {
    const float4 more = __ldcg(parts + static_cast<size_t>(2 * block) * FOURS + four);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  const int each = of_thread / (COLUMNS / 8), lane = thread % WARP;
  store_four(C, tile, row_of(of_thread % (COLUMNS / 8), lane), column_of(each, thread / WARP, lane),
             {sum.x * FROM_BOTH, sum.y * FROM_BOTH, sum.z * FROM_BOTH, sum.w * FROM_BOTH});
}
