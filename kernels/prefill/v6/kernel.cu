// v4 for heads that remember, too: what each segment makes of any state is worked out first, all segments at once, and
// from that the states at their beginnings. Where a head forgets soon, its outputs wait for neither.

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS / GDN_HV > 1 ? BLOCKS / GDN_HV : 1;

#include "composed.cuh"

// Block (i, n, h): B, or M if i is 1, of cut n and value head h. Heads one after the other, for those that need the most
// often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill_transitions(const __grid_constant__ gdn::TensorMap k, const __grid_constant__ gdn::TensorMap v,
                            const float* __restrict__ state, const float* __restrict__ A_log,
                            const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                            const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens,
                            int* __restrict__ fates, gdn::Transition* __restrict__ transitions,
                            const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TransitionMemory*>(bytes);
  if (threadIdx.x == 0)
    for (const gdn::TensorMap* map : {&k, &v}) gdn::prefetch(*map);
  const gdn::Inputs inputs = {nullptr, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, static_cast<int>(sequences)};
  gdn::work_out_transition(memory, inputs, gdn::Cutting(chunks), blockIdx.y, blockIdx.z, blockIdx.x == 0, fates,
                           transitions, gdn::uniform(threadIdx.x / gdn::WARP), threadIdx.x % gdn::WARP);
}

// Block (i, h, n): rows i * 16 … of the states of value head h after the cuts of sequence n.
extern "C" __global__ void __launch_bounds__(gdn::COMPOSE_THREADS, 1)
    gdn_prefill_compose(const long long* __restrict__ cu_seqlens, const int* fates, const gdn::Transition* transitions,
                        float* begun, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  gdn::compose_states(memory, cu_seqlens, gdn::Cutting(chunks), blockIdx.x, blockIdx.y, blockIdx.z, fates, transitions,
                      begun, gdn::uniform(threadIdx.x / gdn::WARP), threadIdx.x % gdn::WARP);
}

// Block (h, n): the outputs of value head h in the n-th segment from the end.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const float* begun,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const gdn::Inputs inputs = {&q, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, static_cast<int>(sequences)};
  const gdn::Outputs own = gdn::find_outputs(memory, inputs, gdn::Cutting(chunks), gridDim.y - 1 - blockIdx.y,
                                             blockIdx.x, output, new_state, begun, warp, lane);
  // The warps that carry the state need it; the others go ahead with what they do without.
  if (own.is_begun && warp < gdn::STATE_WARPS) gdn::wait_for_earlier();
  gdn::prefill(memory, own.at, own.walk, scale, warp, lane);
  gdn::wait_for_earlier();  // what comes after this launch may begin at its end
}
