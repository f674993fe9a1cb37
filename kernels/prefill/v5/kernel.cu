// v4 for heads that remember, too: what each segment makes of any state is worked out first, all segments at once.

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS / GDN_HV > 1 ? BLOCKS / GDN_HV : 1;

#include "transitions.cuh"

static_assert(GDN_V == gdn::ROWS && GDN_K == gdn::ROWS, "a block has all rows of the state, and of M");

namespace {

// Where a block's segment, or transition, of `size` chunks lies.
struct Span : gdn::Segment {
  long long begin;  // the sequence's first token
  int left;         // tokens from the segment's beginning to the sequence's end
  bool is_composed;
  int first_slot;  // of the sequence's transitions

  __device__ __forceinline__ Span(const long long* cu_seqlens, long long sequences, const gdn::Cut& cut, int size,
                                  unsigned lane) {
    static_cast<gdn::Segment&>(*this) =
        gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.z), size, lane);
    begin = cu_seqlens[sequence];
    const long long end = cu_seqlens[sequence + 1];
    left = static_cast<int>(end - begin) - first * gdn::CHUNK;
    is_composed = cut.composes(gdn::chunks_of(begin, end));
    first_slot = cut.first_slot(chunks_before);
  }
};

}  // namespace

// Block (i, h, n): B, or M if i is 1, of value head h and transition n, if a later segment needs it. With B it keeps
// what is known of each chunk. Of a sequence's last segment that alone is needed.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill_transitions(const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v,
                            const float* __restrict__ state, const float* __restrict__ A_log,
                            const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                            const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens,
                            gdn::Transition* __restrict__ transitions, float* __restrict__ decays,
                            gdn::KnownChunk* __restrict__ known, const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TransitionMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const bool is_added = blockIdx.x == 0;
  const int head = blockIdx.y, key_head = head / gdn::SHARE;
  const gdn::Cut cut(chunks);
  const Span span(cu_seqlens, sequences, cut, cut.chunks, lane);
  const int tokens = cut.chunks * gdn::CHUNK;
  const bool is_last = span.left <= tokens;
  if (!span.is_composed || (is_last && !(is_added && KEEPS))) return;
  if (threadIdx.x == 0) memory.initialise();
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  const size_t slot = static_cast<size_t>(span.first_slot + span.first / cut.chunks) * GDN_HV + head;
  const __nv_bfloat16* const of_sequence = a + span.begin * GDN_HV + head;
  const int judged = span.first - (is_last ? cut.chunks : 0);  // the last segment by the one before
  float kept[2];
  gdn::sum_segments(kept, memory, of_sequence + static_cast<long long>(judged) * (gdn::CHUNK * GDN_HV), rate, bias,
                    cut.chunks, span.left > 2 * tokens, warp, lane);
  const bool is_kept = gdn::is_kept(kept[0]);
  int all = is_last ? span.left : tokens, skipped = 0;
  if (!is_kept) {
    if (!is_added || is_last) return;
    const int end = span.first + cut.chunks;
    const int walked = gdn::chunks_that_matter(memory.decays[0], of_sequence, rate, bias, end, warp, lane);
    kept[0] = walked > gdn::WALKED ? gdn::WORKED_OUT : gdn::FORGOTTEN_SOON;
    skipped = gdn::uniform(max(cut.chunks - walked, 0));
    all -= skipped * gdn::CHUNK;
  }
  if (is_added && !is_last && threadIdx.x == 0) decays[slot] = kept[0];
  // B is part of the state after the segment, and all of it, for the next segment's transition, if this one forgets.
  const bool is_first = span.first == 0 && skipped == 0;
  const bool is_needed = is_added ? gdn::is_worked_out(kept[0]) || gdn::is_kept(kept[1]) : !is_first;
  if (!is_needed) return;

  const int first = span.first + skipped;
  const long long token = span.begin + static_cast<long long>(first) * gdn::CHUNK;
  const gdn::Place from = {
      nullptr,
      k + (token * GDN_HQ + key_head) * GDN_K,
      v + (token * GDN_HV + head) * GDN_V,
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      is_first ? state + (static_cast<size_t>(span.sequence) * GDN_HV + head) * (GDN_V * GDN_K) : nullptr,
      nullptr,
      nullptr,
      rate,
      bias,
  };
  const int walked = gdn::uniform(gdn::chunks_of(0, all));
  gdn::KnownChunk* const first_known = known + static_cast<size_t>(span.chunks_before + first) * GDN_HV + head;
  gdn::find_transition(memory, from, {walked, walked, all}, is_added, is_last ? nullptr : &transitions[slot],
                       KEEPS && is_added && is_kept ? first_known : nullptr, warp, lane);
}

// Block (i, h, n): rows i * 16 … of the states of value head h after the transitions of sequence n.
extern "C" __global__ void __launch_bounds__(gdn::COMPOSE_WARPS * gdn::WARP, 1)
    gdn_prefill_compose(const long long* __restrict__ cu_seqlens, const gdn::Transition* __restrict__ transitions,
                        const float* __restrict__ decays, float* __restrict__ begun, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ComposeMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int tile = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const gdn::Cut cut(chunks);
  const int own = gdn::chunks_of(cu_seqlens[sequence], cu_seqlens[sequence + 1]);
  if (!cut.composes(own)) return;
  const int count = (own - 1) / cut.chunks;  // all but the last
  const int first = cut.first_slot(gdn::uniform(gdn::chunks_before(cu_seqlens, sequence, lane)));
  const size_t slot = static_cast<size_t>(first) * GDN_HV + head;
  if (threadIdx.x == 0) memory.initialise();
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.decays[i] = decays[slot + i * GDN_HV];
  __syncthreads();
  gdn::compose(memory, transitions + slot, count, tile, begun + slot * (GDN_V * GDN_K), warp, lane);
}

// Block (h, n): the outputs of value head h in segment n.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                const __nv_bfloat16* __restrict__ v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                const float* __restrict__ begun, const float* __restrict__ decays,
                const gdn::KnownChunk* __restrict__ known, const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int head = blockIdx.y, key_head = head / gdn::SHARE;
  const gdn::Cut cut(chunks);
  const Span span(cu_seqlens, sequences, cut, cut.of_outputs(), lane);
  const int tokens = gdn::uniform(min(span.left, cut.of_outputs() * gdn::CHUNK));
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  const size_t slot = static_cast<size_t>(span.first_slot + span.first / cut.chunks) * GDN_HV + head;
  const size_t before = slot - GDN_HV;
  const bool is_begun = span.is_composed && span.first > 0 && gdn::is_worked_out(decays[before]);
  bool is_known = KEEPS && span.is_composed && (span.first == 0 || is_begun);
  for (int i = 0; i < CUTS && i * cut.chunks * gdn::CHUNK < span.left; ++i) {
    const bool is_last = (i + 1) * cut.chunks * gdn::CHUNK >= span.left;
    is_known = is_known && gdn::is_kept(decays[slot + (is_last ? i - 1 : i) * GDN_HV]);
  }
  __syncthreads();
  const int silent = is_begun ? 0
                              : gdn::uniform(gdn::chunks_that_matter(memory.decays, a + span.begin * GDN_HV + head,
                                                                     rate, bias, span.first, warp, lane));

  const int first = span.first - silent;
  const size_t of_state = (static_cast<size_t>(span.sequence) * GDN_HV + head) * (GDN_V * GDN_K);
  const long long token = span.begin + static_cast<long long>(first) * gdn::CHUNK, shown = token + silent * gdn::CHUNK;
  const gdn::Place at = {
      q + (token * GDN_HQ + key_head) * GDN_K,
      k + (token * GDN_HQ + key_head) * GDN_K,
      v + (token * GDN_HV + head) * GDN_V,
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      is_begun ? begun + before * (GDN_V * GDN_K) : (first == 0 ? state + of_state : nullptr),
      output + (shown * GDN_HV + head) * GDN_V,
      tokens == span.left ? new_state + of_state : nullptr,
      rate,
      bias,
  };
  const int all = silent * gdn::CHUNK + tokens;
  const gdn::Walk walk = {gdn::chunks_of(0, all), silent, all};
  const gdn::KnownChunk* const first_known =
      known + static_cast<size_t>(span.chunks_before + span.first) * GDN_HV + head;
  gdn::prefill(memory, at, walk, scale, warp, lane, [&](int of_group) {
    if (is_known)
      gdn::bring_chunks(memory, at, walk, first_known, of_group, lane);
    else
      gdn::prepare_chunks<1>(memory, at, walk, 0, of_group, lane);
  });
}
