// v5 whose launches overlap (programmatic dependent launch; PTX ISA, "griddepcontrol"): each begins as soon as all
// blocks of the one in front of it have begun, and waits for its end only where it takes what that has written. A block
// of the outputs finds out by itself, from the gates, whether its state comes from there.

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS / GDN_HV > 1 ? BLOCKS / GDN_HV : 1;

#include "transitions.cuh"

static_assert(GDN_V == gdn::ROWS && GDN_K == gdn::ROWS, "a block has all rows of the state, and of M");

namespace gdn {

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote. That is read by pointers without
// `__restrict__`: what a kernel can only read by one with it may be asked for before this.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Whether outputs begin as many chunks early as matter, in place of a state that is worked out before.
__device__ __forceinline__ bool is_walked(int fate) { return fate != KEPT && fate <= SILENT; }

// A fate as composing takes it, for which WALKED is the limit.
__device__ __forceinline__ int for_composing(int fate) {
  return is_walked(fate) ? 1 : fate == KEPT ? KEPT : max(fate, WALKED + 1);
}

// What a head's gates take beside the inputs of each token: asked for before anything that has to be waited for.
struct HeadGates {
  float log_rate, dt_bias;

  __device__ __forceinline__ HeadGates(const float* A_log, const float* dt_bias, int head)
      : log_rate(A_log[head]), dt_bias(dt_bias[head]) {
    asm volatile("" : "+f"(log_rate), "+f"(this->dt_bias));
  }
};

}  // namespace gdn

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
  gdn::let_next_begin();
  if (threadIdx.x == 0)
    for (const gdn::TensorMap* map : {&k, &v}) gdn::prefetch(*map);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const bool is_added = blockIdx.x == 0;
  const int cut = blockIdx.y, head = blockIdx.z, key_head = head / gdn::SHARE;
  const gdn::HeadGates gates(A_log, dt_bias, head);
  const gdn::Cutting cutting(chunks);
  const gdn::CutPlace at = gdn::find_cut(cu_seqlens, static_cast<int>(sequences), cutting, cut, lane);
  // Of a sequence's first cut, the state before is known.
  if (at.sequence < 0 || (!is_added && at.place == 0)) return;
  const long long begin = cu_seqlens[at.sequence];
  const int own = gdn::chunks_of(begin, cu_seqlens[at.sequence + 1]), size = cutting.chunks * gdn::CHUNK;
  if (!cutting.composes(own)) return;
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  const size_t entry = static_cast<size_t>(cut) * GDN_HV + head;
  // B is part of the state after the cut, and all of it, for the next cut's transition, if this one forgets. Both are
  // found by the same instructions: where there is nothing to do, most of the time goes into fetching them.
  int fate = gdn::KEPT;
  bool is_needed = false;
#pragma unroll 1
  for (int place = at.place; !is_needed; ++place) {
    const __nv_bfloat16* const from = a + (begin + static_cast<long long>(place) * size) * GDN_HV + head;
    const int found = gdn::uniform(gdn::find_fate(memory.decays, from, rate, bias, cutting, warp, lane));
    if (place > at.place) {
      if (found != gdn::KEPT) return;
      break;
    }
    fate = found;
    if (is_added && threadIdx.x == 0) fates[entry] = gdn::for_composing(fate);
    is_needed = is_added ? !gdn::is_walked(fate) : fate == gdn::KEPT;
    if (!is_needed && (!is_added || place + 1 == cutting.count(own))) return;
  }
  if (threadIdx.x == 0) memory.initialise();
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
    gdn_prefill_compose(const long long* __restrict__ cu_seqlens, const int* fates, const gdn::Transition* transitions,
                        float* begun, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  gdn::let_next_begin();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int tile = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const gdn::Cutting cutting(chunks);
  const int own = gdn::chunks_of(cu_seqlens[sequence], cu_seqlens[sequence + 1]);
  const int count = cutting.count(own);
  const size_t first =
      static_cast<size_t>(gdn::uniform(cutting.count_before(cu_seqlens, sequence, lane))) * GDN_HV + head;
  if (threadIdx.x == 0) memory.initialise();
  gdn::wait_for_earlier();  // every block does, so that this launch's end is that of the one before, too
  if (!cutting.composes(own)) return;
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.fates[i] = fates[first + i * GDN_HV];
  __syncthreads();
  gdn::compose(memory, transitions + first, count, tile, begun + first * (GDN_V * GDN_K), warp, lane);
}

// Block (h, n): the outputs of value head h in segment n, or, if LAST_FIRST, the n-th from the end.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const float* begun,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  if (threadIdx.x == gdn::WARP)
    for (const gdn::TensorMap* map : {&q, &k, &v}) gdn::prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int head = blockIdx.x, key_head = head / gdn::SHARE;
  const gdn::HeadGates gates(A_log, dt_bias, head);
  const gdn::Cutting cutting(chunks);
  const int size = cutting.of_outputs();
  const unsigned number = LAST_FIRST ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(number), size, lane);
  const long long begin = cu_seqlens[segment.sequence];
  const int left = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const int tokens = gdn::uniform(min(left, size * gdn::CHUNK));
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  __syncthreads();
  // The state before comes from the segment's last cut, if there is one.
  const int place = segment.first / cutting.chunks - 1;
  const size_t before =
      (static_cast<size_t>(cutting.count_before(cu_seqlens, segment.sequence, lane)) + max(place, 0)) * GDN_HV + head;
  int fate = 1;
  if (segment.first > 0) {
    const long long from = begin + static_cast<long long>(place) * (cutting.chunks * gdn::CHUNK);
    fate = gdn::uniform(gdn::find_fate(memory.decays, a + from * GDN_HV + head, rate, bias, cutting, warp, lane));
  }
  const bool is_composed = cutting.composes(segment.first + gdn::chunks_of(0, left));
  const bool is_begun = segment.first > 0 && is_composed && !gdn::is_walked(fate);
  const int silent = gdn::uniform(is_begun ? 0 : min(fate == gdn::KEPT ? segment.first : fate, segment.first));

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
      rate,
      bias,
  };
  const int all = silent * gdn::CHUNK + tokens;
  // The warps that carry the state need it; the others go ahead with what they do without.
  if (is_begun && warp < gdn::STATE_WARPS) gdn::wait_for_earlier();
  gdn::prefill(memory, at, {gdn::chunks_of(0, all), silent, all}, scale, warp, lane);
  gdn::wait_for_earlier();  // what comes after this launch may begin at its end
}
