// Reads each state element once and writes it once: 16 bytes a lane, through registers, or all rows of a block by the
// bulk copy engine, through shared memory.
#include "gdn.cuh"

constexpr int BLOCK_ROWS = WARPS * ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "no row is left over");

#if BULK

constexpr unsigned BYTES = BLOCK_ROWS * GDN_K * sizeof(float);

extern "C" __global__ void __launch_bounds__(gdn::WARP) gdn_decode_floor_copy(GDN_DECODE_ARGUMENTS) {
  const size_t place = static_cast<size_t>(blockIdx.x) * BLOCK_ROWS * GDN_K;
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(128) float rows[BLOCK_ROWS * GDN_K];
  __shared__ __align__(8) unsigned long long arrived;
  if (threadIdx.x != 0) return;
  const unsigned buffer = static_cast<unsigned>(__cvta_generic_to_shared(rows));
  const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
  asm volatile(
      "{ .reg .pred done;\n"
      "  mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "  fence.mbarrier_init.release.cluster;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %4;\n"
      "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], %4, [%0];\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "  @!done bra again;\n"
      "  cp.async.bulk.global.shared::cta.bulk_group [%3], [%1], %4;\n"
      "  cp.async.bulk.commit_group;\n"
      "  cp.async.bulk.wait_group 0; }" ::"r"(barrier),
      "r"(buffer), "l"(state + place), "l"(new_state + place), "r"(BYTES)
      : "memory");
#else  // no bulk copies before Hopper: the warp copies row by row
  for (int row = 0; row < BLOCK_ROWS; ++row) {
    const size_t at = place + row * GDN_K + threadIdx.x * gdn::PER_LANE;
    *reinterpret_cast<float4*>(new_state + at) = *reinterpret_cast<const float4*>(state + at);
  }
#endif
}

#else

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_floor_copy(GDN_DECODE_ARGUMENTS) {
  const size_t first = static_cast<size_t>(blockIdx.x) * BLOCK_ROWS + threadIdx.x / gdn::WARP;
  const size_t place = first * GDN_K + threadIdx.x % gdn::WARP * gdn::PER_LANE;
  float4 row[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) row[i] = *reinterpret_cast<const float4*>(state + place + i * WARPS * GDN_K);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) *reinterpret_cast<float4*>(new_state + place + i * WARPS * GDN_K) = row[i];
}

#endif
