// prefill-v5 with a cut at each checkpoint: the state at the end of a segment is one. What each segment makes of any
// state is worked out first, all segments at once, then the states at their beginnings, then outputs and checkpoints.

// More than any sequence has; the declaration holds workloads to it.
constexpr int SEGMENTS = 1024, CUTS = 1;

#include "../prefill/transitions.cuh"

static_assert(GDN_V == gdn::ROWS && GDN_K == gdn::ROWS, "a block has all rows of the state, and of M");

namespace {

constexpr int EVERY_CHUNKS = GDN_EVERY / gdn::CHUNK;

// So many chunks in a segment, whatever all sequences have.
__device__ __forceinline__ gdn::Cutting at_checkpoints() {
  return gdn::Cutting(static_cast<long long>(EVERY_CHUNKS) * SEGMENTS * CUTS);
}

// Where the chunks of a head lie, from a token on.
__device__ __forceinline__ gdn::Place place_of(const gdn::TensorMap& q, const gdn::TensorMap& k,
                                               const gdn::TensorMap& v, const __nv_bfloat16* a, const __nv_bfloat16* b,
                                               long long token, int head, float rate, float bias) {
  const int first = static_cast<int>(token), key_head = head / gdn::SHARE;
  const long long gate = token * GDN_HV + head;
  return {{&q, first, key_head, 0}, {&k, first, key_head, 0}, {&v, first, head, 0}, a + gate, b + gate,
          nullptr, nullptr, nullptr, rate, bias};
}

}  // namespace

// Block (i, n, h): B, or M if i is 1, of cut n and value head h, if a later segment needs it; and the head's fate
// there.
// Heads one after the other, for those that need the most often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_checkpoints_transitions(const __grid_constant__ gdn::TensorMap k, const __grid_constant__ gdn::TensorMap v,
                                const float* __restrict__ state, const float* __restrict__ A_log,
                                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens,
                                int* __restrict__ fates, gdn::Transition* __restrict__ transitions,
                                const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TransitionMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const bool is_added = blockIdx.x == 0;
  const int cut = blockIdx.y, head = blockIdx.z;
  const gdn::Cutting cutting = at_checkpoints();
  const gdn::CutPlace at = gdn::find_cut(cu_seqlens, static_cast<int>(sequences), cutting, cut, lane);
  if (at.sequence < 0) return;
  if (threadIdx.x == 0) memory.initialise();
  const long long begin = cu_seqlens[at.sequence];
  const int own = gdn::chunks_of(begin, cu_seqlens[at.sequence + 1]);
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  const auto fate_of = [&](int place) {
    const __nv_bfloat16* const from = a + (begin + static_cast<long long>(place) * GDN_EVERY) * GDN_HV + head;
    return gdn::uniform(gdn::find_fate(memory.decays, from, rate, bias, cutting, warp, lane));
  };
  const int fate = fate_of(at.place);
  const size_t entry = static_cast<size_t>(cut) * GDN_HV + head;
  if (is_added && threadIdx.x == 0) fates[entry] = fate;
  if (!cutting.composes(own)) return;
  if (!is_added && (fate != gdn::KEPT || at.place == 0)) return;  // of the first one, the state before is known
  // B is part of the state after the cut, and all of it, for the next cut's transition, if this one forgets.
  if (!gdn::is_worked_out(fate) && (at.place + 1 == cutting.count(own) || fate_of(at.place + 1) != gdn::KEPT)) return;
  __syncthreads();

  const int walked = fate == gdn::KEPT ? EVERY_CHUNKS : fate;
  const int first = (at.place + 1) * EVERY_CHUNKS - walked;
  gdn::Place from = place_of(k, k, v, a, b, begin + static_cast<long long>(first) * gdn::CHUNK, head, rate, bias);
  if (first == 0) from.state = state + (static_cast<size_t>(at.sequence) * GDN_HV + head) * (GDN_V * GDN_K);
  gdn::find_transition(memory, from, {walked, walked, walked * gdn::CHUNK}, is_added, transitions[entry], warp, lane);
}

// Block (i, h, n): rows i * 16 … of the states after the cuts of sequence n, of value head h.
extern "C" __global__ void __launch_bounds__(gdn::COMPOSE_THREADS, 1)
    gdn_checkpoints_compose(const long long* __restrict__ cu_seqlens, const int* __restrict__ fates,
                            const gdn::Transition* __restrict__ transitions, float* __restrict__ begun) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int tile = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const gdn::Cutting cutting = at_checkpoints();
  const int own = gdn::chunks_of(cu_seqlens[sequence], cu_seqlens[sequence + 1]);
  if (!cutting.composes(own)) return;
  const int count = cutting.count(own);
  const size_t first =
      static_cast<size_t>(gdn::uniform(cutting.count_before(cu_seqlens, sequence, lane))) * GDN_HV + head;
  if (threadIdx.x == 0) memory.initialise();
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.fates[i] = fates[first + i * GDN_HV];
  __syncthreads();
  gdn::compose(memory, transitions + first, count, tile, begun + first * (GDN_V * GDN_K), warp, lane);
}

// Block (h, n): the outputs of value head h in segment n, and the state at its end.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_checkpoints(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                    const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state,
                    const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                    const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                    const long long* __restrict__ cu_seqlens, const long long* __restrict__ checkpoint_cu_starts,
                    const float scale, __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                    float* __restrict__ checkpoints, const int* __restrict__ fates, const float* __restrict__ begun,
                    const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP), head = blockIdx.x;
  const gdn::Cutting cutting = at_checkpoints();
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.y), EVERY_CHUNKS, lane);
  const int number = segment.first / EVERY_CHUNKS;  // of the segment in its sequence
  const long long begin = cu_seqlens[segment.sequence];
  const int left = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const int tokens = gdn::uniform(min(left, GDN_EVERY));
  // The state before comes from the segment's cut, if there is one.
  const int cut = cutting.count_before(cu_seqlens, segment.sequence, lane) + number - 1;
  const size_t before = static_cast<size_t>(max(cut, 0)) * GDN_HV + head;
  const int fate = number == 0 ? 1 : fates[before];
  const bool is_composed = cutting.composes(segment.first + gdn::chunks_of(0, left));
  const bool is_begun = number > 0 && is_composed && gdn::is_worked_out(fate);
  const int silent = gdn::uniform(is_begun ? 0 : min(fate == gdn::KEPT ? segment.first : fate, segment.first));
  __syncthreads();

  constexpr size_t HEAD = GDN_V * GDN_K;  // of a head's state
  const int first = segment.first - silent, all = silent * gdn::CHUNK + tokens;
  const gdn::Walk walk = {gdn::chunks_of(0, all), silent, all};
  const size_t of_state = (static_cast<size_t>(segment.sequence) * GDN_HV + head) * HEAD;
  const long long shown = begin + static_cast<long long>(segment.first) * gdn::CHUNK;
  gdn::Place at = place_of(q, k, v, a, b, shown - silent * gdn::CHUNK, head, expf(A_log[head]), dt_bias[head]);
  at.output = output + (shown * GDN_HV + head) * GDN_V;
  at.state = is_begun ? begun + before * HEAD : (first == 0 ? state + of_state : nullptr);
  if (warp < gdn::STATE_WARPS) {
    gdn::take_registers<160>();
    gdn::State s = {};
    gdn::bring_values(memory, at.v, 0, walk, warp, lane);
    gdn::begin_state(s, memory, at.state, warp, lane);
    gdn::carry_state(s, memory, at.v, walk, warp, lane);
    const size_t rows = static_cast<size_t>(warp * gdn::TILE) * GDN_K;
    if (tokens == GDN_EVERY)
      gdn::store_state(
          checkpoints + (static_cast<size_t>(checkpoint_cu_starts[segment.sequence] + number) * GDN_HV + head) * HEAD +
              rows,
          s, lane);
    if (tokens == left) gdn::store_state(new_state + of_state + rows, s, lane);
  } else if (warp < gdn::STATE_WARPS + gdn::GROUP_WARPS) {
    gdn::give_registers<120>();
    gdn::write_outputs(memory, at, scale, walk, warp - gdn::STATE_WARPS, lane);
  } else {
    gdn::give_registers<72>();
    gdn::prepare_chunks<1>(memory, at, walk, 0, warp - gdn::STATE_WARPS - gdn::GROUP_WARPS, lane);
  }
}
