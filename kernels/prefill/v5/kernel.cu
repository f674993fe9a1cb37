// v4 for heads that remember, too: what each segment makes of any state is worked out first, all segments at once.

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS / GDN_HV > 1 ? BLOCKS / GDN_HV : 1;

#include "transitions.cuh"

static_assert(GDN_V == gdn::ROWS && GDN_K == gdn::ROWS, "a block has all rows of the state, and of M");

// Block (i, n, h): B, or M if i is 1, of cut n and value head h, if a later segment needs it; and the head's fate there.
// Heads one after the other, for those that need the most often stand side by side.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill_transitions(const __grid_constant__ gdn::TensorMap k, const __grid_constant__ gdn::TensorMap v,
                            const float* __restrict__ state, const float* __restrict__ A_log,
                            const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                            const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens,
                            int* __restrict__ fates, gdn::Transition* __restrict__ transitions,
                            const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TransitionMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const bool is_added = blockIdx.x == 0;
  const int cut = blockIdx.y, head = blockIdx.z, key_head = head / gdn::SHARE;
  const gdn::Cutting cutting(chunks);
  const gdn::CutPlace at = gdn::find_cut(cu_seqlens, static_cast<int>(sequences), cutting, cut, lane);
  if (at.sequence < 0) return;
  if (threadIdx.x == 0) memory.initialise();
  const long long begin = cu_seqlens[at.sequence];
  const int own = gdn::chunks_of(begin, cu_seqlens[at.sequence + 1]), size = cutting.chunks * gdn::CHUNK;
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  const auto fate_of = [&](int place) {
    const __nv_bfloat16* const from = a + (begin + static_cast<long long>(place) * size) * GDN_HV + head;
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

  const int walked = fate == gdn::KEPT ? cutting.chunks : fate;
  const int first = (at.place + 1) * cutting.chunks - walked;
  const long long token = begin + static_cast<long long>(first) * gdn::CHUNK;
  const gdn::Place from = {
      {},
      {&k, static_cast<int>(token), key_head, 0},
      {&v, static_cast<int>(token), head, 0},
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      first == 0 ? state + (static_cast<size_t>(at.sequence) * GDN_HV + head) * (GDN_V * GDN_K) : nullptr,
      nullptr,
      nullptr,
      rate,
      bias,
  };
  gdn::find_transition(memory, from, {walked, walked, walked * gdn::CHUNK}, is_added, transitions[entry], warp, lane);
}

// Block (i, h, n): rows i * 16 … of the states of value head h after the cuts of sequence n.
extern "C" __global__ void __launch_bounds__(gdn::COMPOSE_THREADS, 1)
    gdn_prefill_compose(const long long* __restrict__ cu_seqlens, const int* __restrict__ fates,
                        const gdn::Transition* __restrict__ transitions, float* __restrict__ begun,
                        const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int tile = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const gdn::Cutting cutting(chunks);
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

// Block (h, n): the outputs of value head h in segment n.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const int* __restrict__ fates,
                const float* __restrict__ begun, const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int head = blockIdx.x, key_head = head / gdn::SHARE;
  const gdn::Cutting cutting(chunks);
  const int size = cutting.of_outputs();
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.y), size, lane);
  const long long begin = cu_seqlens[segment.sequence];
  const int left = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const int tokens = gdn::uniform(min(left, size * gdn::CHUNK));
  // The state before comes from the segment's last cut, if there is one.
  const int cut = cutting.count_before(cu_seqlens, segment.sequence, lane) + segment.first / cutting.chunks - 1;
  const size_t before = static_cast<size_t>(max(cut, 0)) * GDN_HV + head;
  const int fate = segment.first == 0 ? 1 : fates[before];
  const bool is_composed = cutting.composes(segment.first + gdn::chunks_of(0, left));
  const bool is_begun = segment.first > 0 && is_composed && gdn::is_worked_out(fate);
  const int silent = gdn::uniform(is_begun ? 0 : min(fate == gdn::KEPT ? segment.first : fate, segment.first));
  __syncthreads();

  const int first = segment.first - silent;
  const size_t of_state = (static_cast<size_t>(segment.sequence) * GDN_HV + head) * (GDN_V * GDN_K);
  const long long token = begin + static_cast<long long>(first) * gdn::CHUNK, shown = token + silent * gdn::CHUNK;
  const gdn::Place at = {
      {&q, static_cast<int>(token), key_head, 0},
      {&k, static_cast<int>(token), key_head, 0},
      {&v, static_cast<int>(token), head, 0},
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      is_begun ? begun + before * (GDN_V * GDN_K) : (first == 0 ? state + of_state : nullptr),
      output + (shown * GDN_HV + head) * GDN_V,
      tokens == left ? new_state + of_state : nullptr,
      expf(A_log[head]),
      dt_bias[head],
  };
  const int all = silent * gdn::CHUNK + tokens;
  gdn::prefill(memory, at, {gdn::chunks_of(0, all), silent, all}, scale, warp, lane);
}
