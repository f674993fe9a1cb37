// Both products transposed, B1 A^T and B2 A^T: a warpgroup widens 64 rows of B1, and then the same of B2, in registers,
// which are wgmma's left operand. The right one is A, which the first launch has widened, for all blocks. So a thread
// has both sums of an element of C, and gates one by the other in registers. Blocks have equal shares of all steps.
#include "gemm.cuh"

#include "../nvfp4-gemm/shares.cuh"

namespace gemm {

static_assert(EACH == 2, "rows of B1, and of B2");

enum class Activation { exp, tanh };
enum class Tail { together, decoupled };

__device__ constexpr int least(int x, int y) { return x < y ? x : y; }

// x / (1 + exp(-x)), which is x / 2 (1 + tanh(x / 2)).
__device__ __forceinline__ float silu(float x) {
  if (Activation::ACTIVATION == Activation::exp) return __fdividef(x, 1 + __expf(-x));
  float tanh_half;
  asm("tanh.approx.f32 %0, %1;" : "=f"(tanh_half) : "f"(x / 2));
  return fmaf(x / 2, tanh_half, x / 2);
}

// A tile has 128 rows of either.
struct Work : EqualTiles<TILE / 2, Tail::TAIL == Tail::decoupled> {
  static constexpr int TAIL_STEPS = OF_WHOLE ? least(least(STAGES, AHEAD), STEPS) - 1 : 0;  // that memory has at once

  const unsigned char *B[EACH], *scales[EACH];
  char* widened;
  __half* C;

  template <typename Call>
  __device__ __forceinline__ void with_columns(const Tile&, Call call) const {
    call(Columns<COLUMNS>());
  }

  // Behind the last column there is nothing to multiply; such a warp repeats the last 16.
  __device__ __forceinline__ void right(RightSource (&sources)[EACH], const Tile& tile, int step, int warp,
                                        int lane) const {
    const long long row = min(tile.first_column + column_of(0, warp, 0), GEMM_N - 16) + lane / 4 * 2;
    const int piece = lane % 4;
#pragma unroll
    for (int each = 0; each < EACH; ++each)
      sources[each] = {B[each] + row * (GEMM_K / 2) + step * STEP_BYTES + piece * 16,
                       scales[each] + scale_place(row + piece / 2, step * STEP_SCALES + piece % 2 * 4)};
  }

  __device__ __forceinline__ float gate(float sum) const { return silu(sum * FROM_BOTH) * FROM_BOTH; }

  __device__ __forceinline__ void finish(const Sums<COLUMNS>& sums, const Tile& tile, int warp, int lane) const {
    store_tile<COLUMNS / 2>(C, tile, 1, warp, lane, [&](int, int i) { return sums[0][i] * sums[1][i]; });
  }
};

}  // namespace gemm

extern "C" __global__ void __launch_bounds__(256)
    nvfp4_dual_gemm_v1_widen(const unsigned char* __restrict__ A, const __nv_fp8_e4m3* __restrict__ sfa, char* widened,
                             unsigned* arrived, const int M) {
  using namespace gemm;
  let_next_begin();
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread / WIDENING, first = row / COLUMNS * COLUMNS;
  if (thread < BLOCKS) arrived[thread] = 0;
  if (row < M)
    widen_words(left_tile(widened, first, M - first), row - first, A + static_cast<size_t>(row) * (GEMM_K / 2),
                reinterpret_cast<const unsigned char*>(sfa), row, thread % WIDENING);
}

extern "C" __global__ void __launch_bounds__(gemm::THREADS, 1)
    nvfp4_dual_gemm_v1_multiply(const unsigned char* __restrict__ B1, const __nv_fp8_e4m3* __restrict__ sfb1,
                                const unsigned char* __restrict__ B2, const __nv_fp8_e4m3* __restrict__ sfb2,
                                char* widened, float4* parts, unsigned* arrived, __half* __restrict__ C, const int M) {
  using namespace gemm;
  extern __shared__ __align__(1024) char bytes[];
  const Work work = {
      {M, 1},
      {B1, B2},
      {reinterpret_cast<const unsigned char*>(sfb1), reinterpret_cast<const unsigned char*>(sfb2)},
      widened,
      C,
  };
  multiply_share(*reinterpret_cast<Memory*>(bytes), work, {parts, arrived}, uniform(threadIdx.x / WARP),
                 static_cast<int>(threadIdx.x) % WARP);
}
