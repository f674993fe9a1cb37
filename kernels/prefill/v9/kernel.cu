// v6 where the first segment of each sequence is taken beside the transitions: no segment's transition is worked out but
// of those between the first and the last one.

// Of all sequences, not counting the first of each; the declaration counts them, too.
constexpr int FURTHER = BLOCKS / GDN_HV;
constexpr int SEGMENTS = FURTHER > 1 ? FURTHER : 1, CUTS = 1;  // places for fates

#include "../first_segments.cuh"

// Block (h, n): value head h of sequence n's first segment. After these, B and M of all cuts of a head, one head after
// the other, for those that need the most often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill_first(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                      const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state,
                      const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                      const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                      const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                      float* __restrict__ new_state, int* __restrict__ fates, gdn::Transition* __restrict__ transitions,
                      const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  const int count = static_cast<int>(sequences), row = blockIdx.y;
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const gdn::Inputs inputs = {&q, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, count};
  const gdn::FirstCutting cutting(count, chunks);
  if (row < count) {
    gdn::take_first_segment(reinterpret_cast<gdn::FusedMemory&>(bytes), inputs, cutting, row, blockIdx.x, scale, output,
                            new_state, transitions, warp, lane);
  } else {
    if (threadIdx.x == 0)
      for (const gdn::TensorMap* map : {&k, &v}) gdn::prefetch(*map);
    const int of_head = gridDim.y - count, number = (row - count) * GDN_HV + blockIdx.x, own = number % of_head;
    gdn::work_out_transition(reinterpret_cast<gdn::TransitionMemory&>(bytes), inputs, cutting, own / 2,
                             number / of_head, own % 2 == 0, fates, transitions, warp, lane);
  }
}

// Block (i, h, n): the i-th rows of the states of value head h after the cuts of the n-th sequence that has any.
extern "C" __global__ void __launch_bounds__(gdn::STEP_THREADS, 1)
    gdn_prefill_compose(const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                        const __nv_bfloat16* __restrict__ a, const long long* __restrict__ cu_seqlens, const int* fates,
                        const gdn::Transition* transitions, float* begun, const long long sequences,
                        const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::StepMemory*>(bytes);
  const int count = static_cast<int>(sequences);
  const gdn::Inputs inputs = {nullptr, nullptr, nullptr, nullptr, A_log, dt_bias, a, nullptr, cu_seqlens, count};
  gdn::compose_states(memory, inputs, gdn::FirstCutting(count, chunks), blockIdx.x * gdn::STEP_TILES, blockIdx.y,
                      blockIdx.z, fates, transitions, begun, gdn::uniform(threadIdx.x / gdn::WARP), threadIdx.x % gdn::WARP);
}

// Block (h, n): the outputs of value head h in the segment after cut n, if sequences are cut at all.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const float* begun,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP), count = static_cast<int>(sequences);
  const gdn::Inputs inputs = {&q, &k, &v, nullptr, A_log, dt_bias, a, b, cu_seqlens, count};
  const gdn::Outputs own = gdn::find_outputs(memory, inputs, gdn::FirstCutting(count, chunks), blockIdx.y, blockIdx.x,
                                             output, new_state, begun, warp, lane);
  // The warps that carry the state need it; the others go ahead with what they do without.
  if (own.is_begun && warp < gdn::STATE_WARPS) gdn::wait_for_earlier();
  gdn::prefill(memory, own.at, own.walk, scale, warp, lane);
  gdn::wait_for_earlier();  // what comes after this launch may begin at its end
}
