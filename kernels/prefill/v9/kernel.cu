// v6 where heads that remember have cuts of their own: the first segment is taken beside the transitions, and only those
// between the first and the last one have any.

// Segments of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int FURTHER = BLOCKS / GDN_HV;
constexpr int SEGMENTS = FURTHER > 1 ? FURTHER : 1, CUTS = 1;  // places for fates

#include "../first_segments.cuh"

// Block (h, n): value head h of the first segment of sequence n. After these, B and M of all cuts of a head, one head
// after the other, for those that need the most often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill_first(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                      const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state,
                      const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                      const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                      const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                      int* __restrict__ fates, gdn::Transition* __restrict__ transitions, const long long sequences,
                      const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  gdn::let_next_begin();
  const int count = static_cast<int>(sequences);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const gdn::Inputs inputs = {&q, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, count};
  const gdn::BothCuttings cuttings(count, chunks);
  const int row = blockIdx.y, of_head = gridDim.y - count;
  if (row < count) {
    gdn::take_first_segment(reinterpret_cast<gdn::FusedMemory&>(bytes), inputs, cuttings, row, blockIdx.x, scale, output,
                            transitions, warp, lane);
  } else {
    if (threadIdx.x == 0)
      for (const gdn::TensorMap* map : {&k, &v}) gdn::prefetch(*map);
    const int number = (row - count) * GDN_HV + blockIdx.x, own = number % of_head;
    gdn::work_out_transition(reinterpret_cast<gdn::TransitionMemory&>(bytes), inputs, cuttings, own / 2,
                             number / of_head, own % 2 == 0, fates, transitions, warp, lane);
  }
}

// Block (i, h, n): the i-th rows of the states of value head h after the cuts of the n-th sequence that is cut.
extern "C" __global__ void __launch_bounds__(gdn::STEP_THREADS, 1)
    gdn_prefill_compose(const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                        const __nv_bfloat16* __restrict__ a, const long long* __restrict__ cu_seqlens, const int* fates,
                        const gdn::Transition* transitions, float* begun, const long long sequences,
                        const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  gdn::let_next_begin();
  auto& memory = *reinterpret_cast<gdn::StepMemory*>(bytes);
  const int count = static_cast<int>(sequences);
  const gdn::Inputs inputs = {nullptr, nullptr, nullptr, nullptr, A_log, dt_bias, a, nullptr, cu_seqlens, count};
  gdn::compose_states(memory, inputs, gdn::BothCuttings(count, chunks), blockIdx.x * gdn::STEP_TILES, blockIdx.y,
                      blockIdx.z, fates, transitions, begun, gdn::uniform(threadIdx.x / gdn::WARP),
                      threadIdx.x % gdn::WARP);
}

// Block (h, n): the outputs of value head h in the n-th segment from the end, of those that are left.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state,
                const float* __restrict__ A_log, const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const float* begun,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP), count = static_cast<int>(sequences);
  const gdn::Inputs inputs = {&q, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, count};
  const gdn::Outputs own = gdn::find_outputs(memory, inputs, gdn::BothCuttings(count, chunks),
                                             gridDim.y - 1 - blockIdx.y, blockIdx.x, output, new_state, begun, warp,
                                             lane);
  // The warps that carry the state need it; the others go ahead with what they do without.
  if (own.is_begun && warp < gdn::STATE_WARPS) gdn::wait_for_earlier();
  gdn::prefill(memory, own.at, own.walk, scale, warp, lane);
  gdn::wait_for_earlier();  // what comes after this launch may begin at its end
}
