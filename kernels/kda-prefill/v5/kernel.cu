// Blocks that carry states, and blocks that prepare chunks for them as far as needs neither the state nor values: one that carries
// multiplies what it has subtracted from values with the triangle's inverse itself, so that little passes the L2.
#include <gdnbench/phases.cuh>

#include "carry.cuh"
#include "prepare.cuh"

constexpr size_t BLOCK_BYTES = 231424;
static_assert(sizeof(kda::CarryMemory) <= BLOCK_BYTES && kda::TEAMS * sizeof(kda::TeamMemory) == BLOCK_BYTES, "as is asked for");

// Blocks that carry a head come first, and are alone on their SMs: they and any other one can finish. All others prepare.
extern "C" __global__ void __launch_bounds__(kda::THREADS, 1)
    kda_prefill(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ b,
                const __grid_constant__ gdn::TensorMap gates, const __grid_constant__ gdn::TensorMap values,
                const float* __restrict__ A_log, const float* __restrict__ dt_bias, const float* __restrict__ state,
                const long long* __restrict__ cu_seqlens, const float scale, const float lower_bound,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, kda::Prepared* ready,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  __shared__ kda::Task next[kda::TEAMS];
  const int block = static_cast<int>(blockIdx.x) - kda::HEADS, preparing = static_cast<int>(gridDim.x) - kda::HEADS;
  if (block < 0) {
    kda::carry_all(*reinterpret_cast<kda::CarryMemory*>(bytes), values, state, new_state, output, cu_seqlens, ready,
                   static_cast<int>(sequences), static_cast<int>(chunks), static_cast<int>(blockIdx.x));
    return;
  }
  const int team = gdn::uniform(static_cast<int>(threadIdx.x) / kda::TEAM);
  kda::prepare_all(reinterpret_cast<kda::TeamMemory*>(bytes)[team], next[team],
                   {q, k, nullptr, nullptr, b, A_log, dt_bias, scale, lower_bound}, gates,
                   {cu_seqlens, static_cast<int>(chunks)}, ready, team, team * preparing + block, kda::TEAMS * preparing);
}
