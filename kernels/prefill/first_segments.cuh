// Composed states (composed.cuh) where each head has its own cuts, by whether it remembers all of a sequence's first
// segment. If it does, that segment is taken beside the transitions: the state that it begins with is known, so it has
// its outputs at once, and the state that it leaves is what the other segments are composed from. There is a segment
// more for as many blocks of outputs, and it need not be as long as the others. If it does not, segments are alike, and
// all outputs are worked out in the last launch, as most wait for nothing.
#pragma once
#include "composed.cuh"
#include "composing.cuh"

namespace gdn {

// How a sequence is cut for a head, in chunks. After each cut another segment begins.
struct HeadCutting {
  int first, chunks;  // of the first segment, and of all others but the last one

  // Of a cut by its place in its sequence: where it is, and how many chunks the segment before it has.
  __device__ __forceinline__ int end(int place) const { return first + place * chunks; }
  __device__ __forceinline__ int size(int place) const { return place == 0 ? first : chunks; }
  // Cuts of a sequence of so many chunks.
  __device__ __forceinline__ int count(int of_sequence) const {
    return (max(of_sequence - first, 0) + chunks - 1) / chunks;
  }
};

// Both ways to cut a sequence. Cuts are numbered through all sequences, with numbers for those of either way; and so are
// rows of blocks that write outputs in the last launch.
struct BothCuttings {
  static constexpr int PARTS = 4;  // of a segment, in which FIRST is
  HeadCutting known, alike;        // with the first segment beside the transitions, and with segments alike

  // Of so many sequences, and chunks in all. With a first segment shorter than the others, several sequences could have
  // more cuts than FURTHER.
  __device__ __forceinline__ BothCuttings(int sequences, long long all) {
    const int chunks = static_cast<int>(all), parts = sequences == 1 ? FIRST : max(FIRST, PARTS);
    known.chunks = segment_chunks(PARTS * chunks, PARTS * FURTHER + parts);
    known.first = segment_chunks(parts * known.chunks, PARTS);
    alike.first = alike.chunks = segment_chunks(chunks, max(FURTHER, 1));
  }
  // By numbers: a reference to either would have them in memory.
  __device__ __forceinline__ HeadCutting of(bool is_known) const {
    return {is_known ? known.first : alike.first, is_known ? known.chunks : alike.chunks};
  }
  // Of a sequence of so many chunks; one that is no longer than its first segment is not cut.
  __device__ __forceinline__ int cuts(int of_sequence) const {
    return of_sequence > known.first ? max(known.count(of_sequence), alike.count(of_sequence)) : 0;
  }
  __device__ __forceinline__ int rows(int of_sequence) const {
    return of_sequence > known.first ? max(known.count(of_sequence), alike.count(of_sequence) + 1) : 1;
  }
  // Cuts of all sequences before a sequence, by a warp.
  __device__ __forceinline__ int cuts_before(const long long* cu_seqlens, int sequence, unsigned lane) const {
    int found = 0;
    for (int i = lane; i < sequence; i += WARP) found += cuts(chunks_of(cu_seqlens[i], cu_seqlens[i + 1]));
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
    const int own = sequence < sequences ? count_of(chunks_of(cu_seqlens[sequence], cu_seqlens[sequence + 1])) : 0;
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

// Decays of a head in chunks of a sequence; `a` is of the sequence's first token.
struct HeadDecays {
  const __nv_bfloat16* a;
  float rate, dt_bias;

  // Of so many chunks before a chunk, each chunk's by a warp, added up in one order whatever block asks: blocks of all
  // launches have to find the same. In bits.
  template <int Warps, int Most>
  __device__ __forceinline__ float sum_before(float (&sums)[Most], int end, int chunks, int warp, unsigned lane) const {
    constexpr int OWN = (Most + Warps - 1) / Warps;
    float own[OWN];
#pragma unroll
    for (int n = 0; n < OWN; ++n) {
      const int chunk = n * Warps + warp;
      own[n] = 0.f;
      if (chunk < chunks) {
#pragma unroll
        for (int i = 0; i < CHUNK / WARP; ++i) {
          const long long token = static_cast<long long>(end - 1 - chunk) * CHUNK + i * WARP + lane;
          own[n] += softplus(__bfloat162float(a[token * GDN_HV]) + dt_bias);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < OWN; ++n) {
      const float sum = group_sum<WARP>(own[n]);
      if (lane == 0 && n * Warps + warp < Most) sums[n * Warps + warp] = sum;
    }
    __syncthreads();
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < Most; ++i) all += sums[i];
    return LOG2_E * rate * all;
  }
  // How the sequence is cut: whether the last chunks of the first segment, as many as there are numbers for, let a state
  // be forgotten.
  template <int Warps, int Most>
  __device__ __forceinline__ bool remembers(float (&sums)[Most], const HeadCutting& known, int warp,
                                            unsigned lane) const {
    return sum_before<Warps>(sums, known.first, min(known.first, Most), warp, lane) < FORGOTTEN_BITS;
  }
  // What becomes of a state over the segment before a cut, by a block.
  template <int Warps>
  __device__ __forceinline__ int find_fate(float (&decays)[Warps], const HeadCutting& cutting, int place, int warp,
                                           unsigned lane) const {
    const int size = cutting.size(place);
    const __nv_bfloat16* from = a + static_cast<long long>(cutting.end(place) - size) * CHUNK * GDN_HV;
    const int matter = uniform(chunks_that_matter(decays, from, rate, dt_bias, size, warp, lane));
    return matter == size ? KEPT : matter;
  }
  // Whether a state after one of a sequence's cuts may be one that is_worked_out. Bits to spare cover sums in another
  // order.
  template <int Warps>
  __device__ __forceinline__ bool may_be_composed(const HeadCutting& cutting, int count, int warp,
                                                  unsigned lane) const {
    constexpr int TO_SPARE = 1;
    bool is_needed = false;
    for (int place = warp; place < count; place += Warps) {
      const int matter = min(cutting.size(place) - 1, SILENT), token = (cutting.end(place) - matter) * CHUNK;
      float sum = 0.f;
#pragma unroll 4
      for (int i = lane; i < matter * CHUNK; i += WARP)
        sum += softplus(__bfloat162float(a[static_cast<long long>(token + i) * GDN_HV]) + dt_bias);
      is_needed |= LOG2_E * rate * group_sum<WARP>(sum) < FORGOTTEN_BITS + TO_SPARE;
    }
    return __syncthreads_or(is_needed);
  }
};

constexpr int FUSED_WARPS = FUSED_THREADS / WARP;

// By a block of the first launch: the outputs of a sequence's first segment, and the state after it as B of its cut, if it
// is one of several and the head remembers. If not, it has no chunks: to return early costs ptxas registers.
__device__ __forceinline__ void take_first_segment(FusedMemory& memory, const Inputs& inputs,
                                                   const BothCuttings& cuttings, int sequence, int head, float scale,
                                                   __nv_bfloat16* output, Transition* transitions, int warp,
                                                   unsigned lane) {
  if (threadIdx.x == WARP)
    for (const TensorMap* map : {inputs.q, inputs.k, inputs.v}) prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const long long begin = inputs.cu_seqlens[sequence];
  const HeadDecays decays = {inputs.a + begin * GDN_HV + head, expf(gates.log_rate), gates.dt_bias};
  bool is_known = chunks_of(begin, inputs.cu_seqlens[sequence + 1]) > cuttings.known.first;
  if (is_known) is_known = decays.remembers<FUSED_WARPS>(memory.decays, cuttings.known, warp, lane);
  const int chunks = uniform(is_known ? cuttings.known.first : 0);
  Place at = inputs.place(begin, head, decays.rate, decays.dt_bias);
  if (is_known) at.state = inputs.state + (static_cast<size_t>(sequence) * GDN_HV + head) * HEAD_STATE;
  at.output = output + (begin * GDN_HV + head) * GDN_V;
  const Walk walk = {chunks, 0, chunks * CHUNK};
  __syncthreads();
  if (warp < STATE_WARPS) {
    take_registers<160>();
    State s = {};
    bring_values(memory, at.v, 0, walk, warp, lane);
    begin_state(s, memory, at.state, warp, lane);
    carry_state(s, memory, at.v, walk, warp, lane);
    if (!is_known) return;
    const size_t cut = cuttings.cuts_before(inputs.cu_seqlens, sequence, lane);
    store_added(transitions[cut * GDN_HV + head], s, warp, lane);
  } else if (warp < STATE_WARPS + GROUP_WARPS) {
    give_registers<120>();
    write_outputs(memory, at, scale, walk, {0, 0}, warp - STATE_WARPS, lane);
  } else {
    give_registers<72>();
    prepare_chunks<1>(memory, at, walk, 0, 0, warp - STATE_WARPS - GROUP_WARPS, lane);
  }
}

// By a block of the first launch: B, or M, of a cut and value head, if a later segment needs it; and the head's fate
// there. Where the first segment is taken beside, the first cut's fate is all there is to find of it.
__device__ __forceinline__ void work_out_transition(TransitionMemory& memory, const Inputs& inputs,
                                                    const BothCuttings& cuttings, int cut, int head, bool is_added,
                                                    int* fates, Transition* transitions, int warp, unsigned lane) {
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const CutPlace at = find_numbered(inputs.cu_seqlens, inputs.sequences, cut, lane,
                                    [&](int chunks) { return cuttings.cuts(chunks); });
  // Of a sequence's first cut, the state before is known.
  if (!is_added && at.place == 0) return;
  const long long begin = inputs.cu_seqlens[at.sequence];
  const HeadDecays decays = {inputs.a + begin * GDN_HV + head, expf(gates.log_rate), gates.dt_bias};
  const bool is_known = decays.remembers<FUSED_WARPS>(memory.decays, cuttings.known, warp, lane);
  const HeadCutting cutting = cuttings.of(is_known);
  const int count = cutting.count(chunks_of(begin, inputs.cu_seqlens[at.sequence + 1]));
  if (at.place >= count) return;
  const size_t entry = static_cast<size_t>(cut) * GDN_HV + head;
  // B is part of the state after the cut, and all of it, for the next cut's transition, if this one forgets. Both are
  // found by the same instructions: where there is nothing to do, most of the time goes into fetching them.
  int fate = KEPT;
  bool is_needed = false;
#pragma unroll 1
  for (int place = at.place; !is_needed; ++place) {
    const int found = decays.find_fate(memory.decays, cutting, place, warp, lane);
    if (place > at.place) {
      if (found != KEPT) return;
      break;
    }
    fate = found;
    if (is_added && threadIdx.x == 0) fates[entry] = fate;
    if (is_known && place == 0) return;
    is_needed = is_added ? is_worked_out(fate) : fate == KEPT;
    if (!is_needed && (!is_added || place + 1 == count)) return;
  }
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();

  const int walked = fate == KEPT ? cutting.size(at.place) : fate;
  const int first = cutting.end(at.place) - walked;
  Place from = inputs.place(begin + static_cast<long long>(first) * CHUNK, head, decays.rate, decays.dt_bias);
  if (first == 0) from.state = inputs.state + (static_cast<size_t>(at.sequence) * GDN_HV + head) * HEAD_STATE;
  find_transition(memory, from, {walked, walked, walked * CHUNK}, is_added, transitions[entry], warp, lane);
}

// By a block of the second launch: STEP_TILES tiles of rows, from `tile` on, of the states after the cuts of a sequence
// and value head; `number` is among the sequences that are cut. Blocks that compose nothing do not keep an SM from
// others, but for one that waits, so that this launch's end is that of the one before, too.
__device__ __forceinline__ void compose_states(StepMemory& memory, const Inputs& inputs, const BothCuttings& cuttings,
                                               int tile, int head, int number, const int* fates,
                                               const Transition* transitions, float* begun, int warp, unsigned lane) {
  constexpr int WARPS = STEP_THREADS / WARP;
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const int sequence = find_numbered(inputs.cu_seqlens, inputs.sequences, number, lane, [&](int chunks) {
                         return min(cuttings.cuts(chunks), 1);
                       }).sequence;
  bool is_needed = false;
  int count = 0;
  if (sequence >= 0) {
    const long long begin = inputs.cu_seqlens[sequence];
    const int own = chunks_of(begin, inputs.cu_seqlens[sequence + 1]);
    const HeadDecays decays = {inputs.a + begin * GDN_HV + head, expf(gates.log_rate), gates.dt_bias};
    is_needed = decays.remembers<WARPS>(memory.decays, cuttings.known, warp, lane);
    count = uniform(cuttings.of(is_needed).count(own));
    if (!is_needed) is_needed = decays.may_be_composed<WARPS>(cuttings.alike, count, warp, lane);
  }
  if (is_needed || (tile == 0 && head == 0 && number == 0)) wait_for_earlier();
  if (!is_needed) return;
  if (threadIdx.x == 0) memory.initialise();
  const size_t first =
      static_cast<size_t>(uniform(cuttings.cuts_before(inputs.cu_seqlens, sequence, lane))) * GDN_HV + head;
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.fates[i] = fates[first + i * GDN_HV];
  __syncthreads();
  compose(memory, transitions + first, count, tile, begun + first * HEAD_STATE, warp, lane);
}

// By a block of the third launch, whose memory is initialised when this returns: the outputs of a value head in a
// segment by its row. One that is not there has no chunks: to return early costs ptxas registers.
__device__ __forceinline__ Outputs find_outputs(FusedMemory& memory, const Inputs& inputs, const BothCuttings& cuttings,
                                                int row, int head, __nv_bfloat16* output, float* new_state,
                                                const float* begun, int warp, unsigned lane) {
  if (threadIdx.x == WARP)
    for (const TensorMap* map : {inputs.q, inputs.k, inputs.v}) prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const CutPlace found = find_numbered(inputs.cu_seqlens, inputs.sequences, row, lane,
                                       [&](int chunks) { return cuttings.rows(chunks); });
  const int sequence = uniform(found.sequence);
  const long long begin = inputs.cu_seqlens[sequence];
  const int length = static_cast<int>(inputs.cu_seqlens[sequence + 1] - begin);
  const bool is_cut = uniform(chunks_of(0, length)) > cuttings.known.first;
  const HeadDecays decays = {inputs.a + begin * GDN_HV + head, expf(gates.log_rate), gates.dt_bias};
  bool is_known = false;
  __syncthreads();
  if (is_cut) is_known = decays.remembers<FUSED_WARPS>(memory.decays, cuttings.known, warp, lane);
  const HeadCutting cutting = cuttings.of(is_known);
  const int place = uniform(found.place - (is_known ? 0 : 1));  // of the cut before; a sequence's first segment has none
  const int begins = place < 0 ? 0 : cutting.end(place), left = uniform(length - begins * CHUNK);
  const int tokens = uniform(is_cut ? max(min(left, cutting.size(place + 1) * CHUNK), 0) : length);
  int fate = KEPT;
  if (place >= 0 && tokens > 0) fate = decays.find_fate(memory.decays, cutting, place, warp, lane);
  const bool is_begun = place >= 0 && tokens > 0 && is_worked_out(fate);
  const int silent = uniform(is_begun || place < 0 ? 0 : fate), all = silent * CHUNK + tokens;
  const size_t cut = cuttings.cuts_before(inputs.cu_seqlens, sequence, lane) + max(place, 0);
  const size_t of_state = (static_cast<size_t>(sequence) * GDN_HV + head) * HEAD_STATE;
  const long long shown = begin + static_cast<long long>(begins) * CHUNK;
  Place at = inputs.place(shown - silent * CHUNK, head, decays.rate, decays.dt_bias);
  if (begins == silent) at.state = inputs.state + of_state;
  if (is_begun) at.state = begun + (cut * GDN_HV + head) * HEAD_STATE;
  at.output = output + (shown * GDN_HV + head) * GDN_V;
  at.new_state = tokens == left ? new_state + of_state : nullptr;
  return {at, {chunks_of(0, all), silent, all}, sequence, place + 1, is_begun};
}

}  // namespace gdn
