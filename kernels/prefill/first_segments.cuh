// Composed states (composed.cuh) where the first segment of each sequence is taken beside the transitions: the state
// that it begins with is known, so it has its outputs at once, and the state that it leaves is what the other segments
// are composed from. It may be longer than they are. So a sequence of two segments needs no transition at all.
#pragma once
#include "composed.cuh"
#include "composing.cuh"

namespace gdn {

// How sequences are cut, in chunks. All cuts are numbered through all sequences; after each another segment begins.
struct FirstCutting {
  static constexpr int PARTS = 4;  // of a segment, in which FIRST is
  int chunks;                      // of a segment that is neither its sequence's first nor its last
  int first;                       // of one that is the first of several

  // Of so many sequences, and chunks in all. With a first segment shorter than the others, several sequences could have
  // more cuts than FURTHER.
  __device__ __forceinline__ FirstCutting(int sequences, long long all) {
    const int parts = sequences == 1 ? FIRST : max(FIRST, PARTS);
    chunks = segment_chunks(PARTS * static_cast<int>(all), PARTS * FURTHER + parts);
    first = segment_chunks(parts * chunks, PARTS);
  }
  // Of a cut by its place in its sequence: where it is, and how many chunks the segment before it has.
  __device__ __forceinline__ int end(int place) const { return first + place * chunks; }
  __device__ __forceinline__ int size(int place) const { return place == 0 ? first : chunks; }
  // Cuts of a sequence of so many chunks.
  __device__ __forceinline__ int count(int of_sequence) const {
    return (max(of_sequence - first, 0) + chunks - 1) / chunks;
  }
  // Cuts of all sequences before a sequence, by a warp.
  __device__ __forceinline__ int count_before(const long long* cu_seqlens, int sequence, unsigned lane) const {
    int found = 0;
    for (int i = lane; i < sequence; i += WARP) found += count(chunks_of(cu_seqlens[i], cu_seqlens[i + 1]));
    return group_sum<WARP>(found);
  }
};

// Whose number it is, and which of its own, if a sequence of so many chunks has `count_of` that many. By a warp. What is
// not there has no sequence either.
template <class CountOf>
__device__ __forceinline__ CutPlace find_numbered(const long long* cu_seqlens, int sequences, int number, unsigned lane,
                                                  const CountOf& count_of) {
  for (int first = 0; first < sequences; first += WARP) {
    const int sequence = min(first + static_cast<int>(lane), sequences);
    const int own = count_of(chunks_of(cu_seqlens[sequence], cu_seqlens[min(sequence + 1, sequences)]));
    const int through = sum_to_here(own, lane);
    const unsigned beyond = __ballot_sync(ALL_LANES, through > number);
    if (beyond != 0) {
      const int found = __ffs(beyond) - 1;
      return {first + found, number - __shfl_sync(ALL_LANES, through - own, found)};
    }
    number -= __shfl_sync(ALL_LANES, through, WARP - 1);
  }
  return {-1, 0};
}

// What becomes of a head's state over the segment before a cut, by a block; `a` is of the sequence's first token.
template <int Warps>
__device__ __forceinline__ int find_fate(float (&decays)[Warps], const __nv_bfloat16* a, float rate, float dt_bias,
                                         const FirstCutting& cutting, int place, int warp, unsigned lane) {
  const int size = cutting.size(place);
  const long long from = static_cast<long long>(cutting.end(place) - size) * CHUNK * GDN_HV;
  const int matter = uniform(chunks_that_matter(decays, a + from, rate, dt_bias, size, warp, lane));
  return matter == size ? KEPT : matter;
}

// By a block of the first launch: the outputs of a sequence's first segment, and the state after it: the sequence's
// last one, or B of its first cut.
__device__ __forceinline__ void take_first_segment(FusedMemory& memory, const Inputs& inputs,
                                                   const FirstCutting& cutting, int sequence, int head, float scale,
                                                   __nv_bfloat16* output, float* new_state, Transition* transitions,
                                                   int warp, unsigned lane) {
  let_next_begin();
  if (threadIdx.x == WARP)
    for (const TensorMap* map : {inputs.q, inputs.k, inputs.v}) prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const long long begin = inputs.cu_seqlens[sequence];
  const int own = static_cast<int>(inputs.cu_seqlens[sequence + 1] - begin);
  const int tokens = uniform(min(own, cutting.first * CHUNK));
  const size_t of_state = (static_cast<size_t>(sequence) * GDN_HV + head) * HEAD_STATE;
  Place at = inputs.place(begin, head, expf(gates.log_rate), gates.dt_bias);
  at.state = inputs.state + of_state;
  at.output = output + (begin * GDN_HV + head) * GDN_V;
  const Walk walk = {chunks_of(0, tokens), 0, tokens};
  __syncthreads();
  if (warp < STATE_WARPS) {
    take_registers<160>();
    State s = {};
    bring_values(memory, at.v, 0, walk, warp, lane);
    begin_state(s, memory, at.state, warp, lane);
    carry_state(s, memory, at.v, walk, warp, lane);
    if (tokens == own) {
      store_state(new_state + of_state + static_cast<size_t>(warp * TILE) * GDN_K, s, lane);
    } else {
      const size_t cut = cutting.count_before(inputs.cu_seqlens, sequence, lane);
      store_added(transitions[cut * GDN_HV + head], s, warp, lane);
    }
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    give_registers<120>();
    write_outputs(memory, at, scale, walk, {0, 0}, warp - STATE_WARPS, lane);
  } else {
    give_registers<72>();
    prepare_chunks<1>(memory, at, walk, 0, 0, warp - STATE_WARPS - GROUP_WARPS, lane);
  }
}

// By a block of the first launch: B, or M, of a cut and value head, if a later segment needs it; and the head's fate
// there. Of a sequence's first cut there is its fate alone to find.
__device__ __forceinline__ void work_out_transition(TransitionMemory& memory, const Inputs& inputs,
                                                    const FirstCutting& cutting, int cut, int head, bool is_added,
                                                    int* fates, Transition* transitions, int warp, unsigned lane) {
  let_next_begin();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const CutPlace at = find_numbered(inputs.cu_seqlens, inputs.sequences, cut, lane,
                                    [&](int chunks) { return cutting.count(chunks); });
  if (at.sequence < 0 || (!is_added && at.place == 0)) return;
  const long long begin = inputs.cu_seqlens[at.sequence];
  const int count = cutting.count(chunks_of(begin, inputs.cu_seqlens[at.sequence + 1]));
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  const size_t entry = static_cast<size_t>(cut) * GDN_HV + head;
  // B is part of the state after the cut, and all of it, for the next cut's transition, if this one forgets. Both are
  // found by the same instructions: where there is nothing to do, most of the time goes into fetching them.
  int fate = KEPT;
  bool is_needed = false;
#pragma unroll 1
  for (int place = at.place; !is_needed; ++place) {
    const int found =
        find_fate(memory.decays, inputs.a + begin * GDN_HV + head, rate, bias, cutting, place, warp, lane);
    if (place > at.place) {
      if (found != KEPT) return;
      break;
    }
    fate = found;
    if (is_added && threadIdx.x == 0) fates[entry] = fate;
    if (place == 0) return;
    is_needed = is_added ? is_worked_out(fate) : fate == KEPT;
    if (!is_needed && (!is_added || place + 1 == count)) return;
  }
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();

  const int walked = fate == KEPT ? cutting.chunks : fate;
  const long long first = cutting.end(at.place) - walked;
  const Place from = inputs.place(begin + first * CHUNK, head, rate, bias);
  find_transition(memory, from, {walked, walked, walked * CHUNK}, is_added, transitions[entry], warp, lane);
}

// Whether a state may have to be composed after one of a sequence's cuts, by all warps of a block: whether its fate there
// may be one of those that is_worked_out names. Bits to spare cover sums in another order. `a` is of the sequence's first
// token and the head.
__device__ __forceinline__ bool may_be_composed(const FirstCutting& cutting, int count, const __nv_bfloat16* a,
                                                float rate, float dt_bias, int warp, unsigned lane) {
  constexpr int TO_SPARE = 1;
  bool is_needed = false;
  for (int place = warp; place < count; place += STEP_THREADS / WARP) {
    const int matter = min(cutting.size(place) - 1, SILENT), token = (cutting.end(place) - matter) * CHUNK;
    float sum = 0.f;
#pragma unroll 4
    for (int i = lane; i < matter * CHUNK; i += WARP)
      sum += softplus(__bfloat162float(a[static_cast<long long>(token + i) * GDN_HV]) + dt_bias);
    is_needed |= LOG2_E * rate * group_sum<WARP>(sum) < FORGOTTEN_BITS + TO_SPARE;
  }
  return __syncthreads_or(is_needed);
}

// By a block of the second launch: STEP_TILES tiles of rows, from `tile` on, of the states after the cuts of a sequence and value head, of the
// sequences that have any. Those that compose nothing do not keep an SM from others while first segments are taken, but
// for one, so that this launch's end is that of the one before, too.
__device__ __forceinline__ void compose_states(StepMemory& memory, const Inputs& inputs, const FirstCutting& cutting, int tile,
                                               int head, int number, const int* fates,
                                               const Transition* transitions, float* begun, int warp, unsigned lane) {
  let_next_begin();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const int sequence = find_numbered(inputs.cu_seqlens, inputs.sequences, number, lane, [&](int chunks) {
                         return min(cutting.count(chunks), 1);
                       }).sequence;
  const long long begin = inputs.cu_seqlens[max(sequence, 0)];
  const int own = chunks_of(begin, inputs.cu_seqlens[max(sequence, 0) + 1]);
  const int count = uniform(sequence < 0 ? 0 : cutting.count(own));
  const bool is_needed = may_be_composed(cutting, count, inputs.a + begin * GDN_HV + head, expf(gates.log_rate),
                                         gates.dt_bias, warp, lane);
  if (is_needed || (tile == 0 && head == 0 && number == 0)) wait_for_earlier();
  if (!is_needed) return;
  if (threadIdx.x == 0) memory.initialise();
  const size_t first =
      static_cast<size_t>(uniform(cutting.count_before(inputs.cu_seqlens, sequence, lane))) * GDN_HV + head;
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.fates[i] = fates[first + i * GDN_HV];
  __syncthreads();
  compose(memory, transitions + first, count, tile, begun + first * HEAD_STATE, warp, lane);
}

// By a block of the third launch, whose memory is initialised when this returns: the outputs of a value head in the
// segment after a cut. If sequences are not cut at all it has no chunks: to return early costs ptxas registers.
__device__ __forceinline__ Outputs find_outputs(FusedMemory& memory, const Inputs& inputs, const FirstCutting& cutting,
                                                int cut, int head, __nv_bfloat16* output, float* new_state,
                                                const float* begun, int warp, unsigned lane) {
  if (threadIdx.x == WARP)
    for (const TensorMap* map : {inputs.q, inputs.k, inputs.v}) prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const CutPlace found = find_numbered(inputs.cu_seqlens, inputs.sequences, cut, lane,
                                       [&](int chunks) { return cutting.count(chunks); });
  const int sequence = max(found.sequence, 0);
  const long long begin = inputs.cu_seqlens[sequence];
  const long long shown = begin + static_cast<long long>(cutting.end(found.place)) * CHUNK;
  const int left = static_cast<int>(inputs.cu_seqlens[sequence + 1] - shown);
  const int tokens = uniform(max(min(left, cutting.chunks * CHUNK), 0));
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  __syncthreads();
  int fate = KEPT;
  if (tokens > 0)
    fate = find_fate(memory.decays, inputs.a + begin * GDN_HV + head, rate, bias, cutting, found.place, warp, lane);
  const bool is_begun = tokens > 0 && is_worked_out(fate);
  const int silent = uniform(is_begun ? 0 : fate), all = silent * CHUNK + tokens;
  const size_t of_state = (static_cast<size_t>(sequence) * GDN_HV + head) * HEAD_STATE;
  Place at = inputs.place(shown - silent * CHUNK, head, rate, bias);
  at.state = is_begun ? begun + (static_cast<size_t>(cut) * GDN_HV + head) * HEAD_STATE : nullptr;
  at.output = output + (shown * GDN_HV + head) * GDN_V;
  at.new_state = tokens > 0 && tokens == left ? new_state + of_state : nullptr;
  return {at, {chunks_of(0, all), silent, all}, sequence, found.place + 1, is_begun};
}

}  // namespace gdn
