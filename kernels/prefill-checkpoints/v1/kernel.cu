// prefill-v6 with a cut at each checkpoint: the state at the end of a segment is one. What each segment makes of any
// state is worked out first, all segments at once, then the states at their beginnings, then outputs and checkpoints.

// More than any sequence has; the declaration holds workloads to it.
constexpr int SEGMENTS = 1024, CUTS = 1;
constexpr int SILENT = 8;  // chunks before its segment that a block of outputs goes through at most

#include "../prefill/composed.cuh"

namespace {

constexpr int EVERY_CHUNKS = GDN_EVERY / gdn::CHUNK;

// So many chunks in a segment, whatever all sequences have.
__device__ __forceinline__ gdn::Cutting at_checkpoints() {
  return gdn::Cutting(static_cast<long long>(EVERY_CHUNKS) * SEGMENTS * CUTS);
}

}  // namespace

// Block (i, n, h): B, or M if i is 1, of cut n and value head h. Heads one after the other, for those that need the most
// often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_checkpoints_transitions(const __grid_constant__ gdn::TensorMap k, const __grid_constant__ gdn::TensorMap v,
                                const float* __restrict__ state, const float* __restrict__ A_log,
                                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens,
                                int* __restrict__ fates, gdn::Transition* __restrict__ transitions,
                                const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TransitionMemory*>(bytes);
  const gdn::Inputs inputs = {nullptr, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, static_cast<int>(sequences)};
  gdn::work_out_transition(memory, inputs, at_checkpoints(), blockIdx.y, blockIdx.z, blockIdx.x == 0, fates,
                           transitions, gdn::uniform(threadIdx.x / gdn::WARP), threadIdx.x % gdn::WARP);
}

// Block (i, h, n): rows i * 16 … of the states after the cuts of sequence n, of value head h.
extern "C" __global__ void __launch_bounds__(gdn::COMPOSE_THREADS, 1)
    gdn_checkpoints_compose(const long long* __restrict__ cu_seqlens, const int* fates,
                            const gdn::Transition* transitions, float* begun) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  gdn::compose_states(memory, cu_seqlens, at_checkpoints(), blockIdx.x, blockIdx.y, blockIdx.z, fates, transitions,
                      begun, gdn::uniform(threadIdx.x / gdn::WARP), threadIdx.x % gdn::WARP);
}

// Block (h, n): the outputs of value head h in the n-th segment from the end, and the state at its end.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_checkpoints(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                    const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state,
                    const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                    const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                    const long long* __restrict__ cu_seqlens, const long long* __restrict__ checkpoint_cu_starts,
                    const float scale, __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                    float* __restrict__ checkpoints, const float* begun, const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP), head = blockIdx.x;
  const gdn::Inputs inputs = {&q, &k, &v, state, A_log, dt_bias, a, b, cu_seqlens, static_cast<int>(sequences)};
  const gdn::Outputs own = gdn::find_outputs(memory, inputs, at_checkpoints(), gridDim.y - 1 - blockIdx.y, head, output,
                                             new_state, begun, warp, lane);
  if (warp < gdn::STATE_WARPS) {
    if (own.is_begun) gdn::wait_for_earlier();
    gdn::take_registers<160>();
    gdn::State s = {};
    gdn::bring_values(memory, own.at.v, 0, own.walk, warp, lane);
    gdn::begin_state(s, memory, own.at.state, warp, lane);
    gdn::carry_state(s, memory, own.at.v, own.walk, warp, lane);
    const size_t rows = static_cast<size_t>(warp * gdn::TILE) * GDN_K;
    const size_t checkpoint = static_cast<size_t>(checkpoint_cu_starts[own.sequence] + own.number) * GDN_HV + head;
    if (own.walk.tokens - own.walk.silent * gdn::CHUNK == GDN_EVERY)
      gdn::store_state(checkpoints + checkpoint * gdn::HEAD_STATE + rows, s, lane);
    if (own.at.new_state != nullptr) gdn::store_state(own.at.new_state + rows, s, lane);
  } else if (warp < gdn::STATE_WARPS + gdn::GROUP_WARPS) {
    gdn::give_registers<120>();
    gdn::write_outputs(memory, own.at, scale, own.walk, {0, 0}, warp - gdn::STATE_WARPS, lane);
  } else {
    gdn::give_registers<72>();
    gdn::prepare_chunks<1>(memory, own.at, own.walk, 0, 0, warp - gdn::STATE_WARPS - gdn::GROUP_WARPS, lane);
  }
  gdn::wait_for_earlier();  // what comes after this launch may begin at its end
}
