// Reads each 16 bytes of a row of A once and writes them to the same row of C, as often as they fit into it.
#include "gemm.cuh"

constexpr unsigned THREADS = 32 * WARPS;
constexpr unsigned LOADS = GEMM_K / 16;       // of a row of A
constexpr unsigned STORES = 2 * GEMM_N / 16;  // of a row of C

extern "C" __global__ void __launch_bounds__(THREADS) fp8_gemm_pos_floor_copy(GEMM_ARGUMENTS) {
  const uint4* const from = reinterpret_cast<const uint4*>(A);
  uint4* const to = reinterpret_cast<uint4*>(C);
  const size_t loads = static_cast<size_t>(M) * LOADS;
  const size_t first = static_cast<size_t>(blockIdx.x) * THREADS * EACH + threadIdx.x;
  uint4 bits[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (first + i * THREADS < loads) bits[i] = from[first + i * THREADS];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const size_t at = first + i * THREADS;
    if (at >= loads) continue;
    for (unsigned column = at % LOADS; column < STORES; column += LOADS) to[at / LOADS * STORES + column] = bits[i];
  }
}
