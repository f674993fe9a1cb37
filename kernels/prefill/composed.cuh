// Outputs from composed states (composition.cuh), in three launches that overlap (programmatic dependent launch; PTX
// ISA, "griddepcontrol"): each begins as soon as all blocks of the one in front of it have begun, and waits for its end
// only where it takes what that has written. A block of the outputs finds out by itself, from the gates, whether its
// state comes from there.
#pragma once
#include "transitions.cuh"

static_assert(GDN_V == gdn::ROWS && GDN_K == gdn::ROWS, "a block has all rows of the state, and of M");

namespace gdn {

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote. That is read by pointers without
// `__restrict__`: what a kernel can only read by one with it may be asked for before this.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// What a head's gates take beside the inputs of each token: asked for before anything that has to be waited for.
struct HeadGates {
  float log_rate, dt_bias;

  __device__ __forceinline__ HeadGates(const float* A_log, const float* dt_bias, int head)
      : log_rate(A_log[head]), dt_bias(dt_bias[head]) {
    asm volatile("" : "+f"(log_rate), "+f"(this->dt_bias));
  }
};

// What all sequences and heads begin from; transitions take no queries.
struct Inputs {
  const TensorMap *q, *k, *v;
  const float *state, *A_log, *dt_bias;
  const __nv_bfloat16 *a, *b;
  const long long* cu_seqlens;
  int sequences;

  // Where the chunks of a head lie, from a token on, without state and outputs.
  __device__ __forceinline__ Place place(long long token, int head, float rate, float bias) const {
    const int first = static_cast<int>(token), key_head = head / SHARE;
    const long long gate = token * GDN_HV + head;
    return {{q, first, key_head, 0}, {k, first, key_head, 0}, {v, first, head, 0}, a + gate, b + gate,
            nullptr, nullptr, nullptr, rate, bias};
  }
};

constexpr size_t HEAD_STATE = GDN_V * GDN_K;  // numbers of a head's state

// By a block of the first launch: B, or M, of a cut and value head, if a later segment needs it; and the head's fate
// there.
__device__ __forceinline__ void work_out_transition(TransitionMemory& memory, const Inputs& inputs,
                                                    const Cutting& cutting, int cut, int head, bool is_added,
                                                    int* fates, Transition* transitions, int warp, unsigned lane) {
  let_next_begin();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const CutPlace at = find_cut(inputs.cu_seqlens, inputs.sequences, cutting, cut, lane);
  // Of a sequence's first cut, the state before is known.
  if (at.sequence < 0 || (!is_added && at.place == 0)) return;
  const long long begin = inputs.cu_seqlens[at.sequence];
  const int own = chunks_of(begin, inputs.cu_seqlens[at.sequence + 1]), size = cutting.chunks * CHUNK;
  if (!cutting.composes(own)) return;
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  const size_t entry = static_cast<size_t>(cut) * GDN_HV + head;
  // B is part of the state after the cut, and all of it, for the next cut's transition, if this one forgets. Both are
  // found by the same instructions: where there is nothing to do, most of the time goes into fetching them.
  int fate = KEPT;
  bool is_needed = false;
#pragma unroll 1
  for (int place = at.place; !is_needed; ++place) {
    const __nv_bfloat16* const from = inputs.a + (begin + static_cast<long long>(place) * size) * GDN_HV + head;
    const int found = uniform(find_fate(memory.decays, from, rate, bias, cutting, warp, lane));
    if (place > at.place) {
      if (found != KEPT) return;
      break;
    }
    fate = found;
    if (is_added && threadIdx.x == 0) fates[entry] = fate;
    is_needed = is_added ? is_worked_out(fate) : fate == KEPT;
    if (!is_needed && (!is_added || place + 1 == cutting.count(own))) return;
  }
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();

  const int walked = fate == KEPT ? cutting.chunks : fate;
  const int first = (at.place + 1) * cutting.chunks - walked;
  Place from = inputs.place(begin + static_cast<long long>(first) * CHUNK, head, rate, bias);
  if (first == 0) from.state = inputs.state + (static_cast<size_t>(at.sequence) * GDN_HV + head) * HEAD_STATE;
  find_transition(memory, from, {walked, walked, walked * CHUNK}, is_added, transitions[entry], warp, lane);
}

// By a block of the second launch: a tile of rows of the states after the cuts of a sequence and value head.
__device__ __forceinline__ void compose_states(ComposeMemory& memory, const long long* cu_seqlens,
                                               const Cutting& cutting, int tile, int head, int sequence,
                                               const int* fates, const Transition* transitions, float* begun, int warp,
                                               unsigned lane) {
  let_next_begin();
  const int own = chunks_of(cu_seqlens[sequence], cu_seqlens[sequence + 1]);
  const int count = cutting.count(own);
  const size_t first = static_cast<size_t>(uniform(cutting.count_before(cu_seqlens, sequence, lane))) * GDN_HV + head;
  if (threadIdx.x == 0) memory.initialise();
  wait_for_earlier();  // every block does, so that this launch's end is that of the one before, too
  if (!cutting.composes(own)) return;
  for (int i = threadIdx.x; i < count; i += blockDim.x) memory.fates[i] = fates[first + i * GDN_HV];
  __syncthreads();
  compose(memory, transitions + first, count, tile, begun + first * HEAD_STATE, warp, lane);
}

// What a block of the third launch does: the outputs of a value head in a segment.
struct Outputs {
  Place at;
  Walk walk;
  int sequence;
  int number;     // of the segment in its sequence
  bool is_begun;  // with a composed state, which is waited for
};

// By a block, whose memory is initialised when this returns.
__device__ __forceinline__ Outputs find_outputs(FusedMemory& memory, const Inputs& inputs, const Cutting& cutting,
                                                int number, int head, __nv_bfloat16* output, float* new_state,
                                                const float* begun, int warp, unsigned lane) {
  if (threadIdx.x == WARP)
    for (const TensorMap* map : {inputs.q, inputs.k, inputs.v}) prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  const HeadGates gates(inputs.A_log, inputs.dt_bias, head);
  const int size = cutting.of_outputs();
  const Segment segment = find_segment(inputs.cu_seqlens, inputs.sequences, number, size, lane);
  const long long begin = inputs.cu_seqlens[segment.sequence];
  const int left = static_cast<int>(inputs.cu_seqlens[segment.sequence + 1] - begin) - segment.first * CHUNK;
  const int tokens = uniform(min(left, size * CHUNK));
  const float rate = expf(gates.log_rate), bias = gates.dt_bias;
  __syncthreads();
  // The state before comes from the segment's last cut, if there is one.
  const int place = segment.first / cutting.chunks - 1;
  const size_t before =
      (static_cast<size_t>(cutting.count_before(inputs.cu_seqlens, segment.sequence, lane)) + max(place, 0)) * GDN_HV +
      head;
  int fate = 1;
  if (segment.first > 0) {
    const long long from = begin + static_cast<long long>(place) * (cutting.chunks * CHUNK);
    fate = uniform(find_fate(memory.decays, inputs.a + from * GDN_HV + head, rate, bias, cutting, warp, lane));
  }
  const bool is_composed = cutting.composes(segment.first + chunks_of(0, left));
  const bool is_begun = segment.first > 0 && is_composed && is_worked_out(fate);
  const int silent = uniform(is_begun ? 0 : min(fate == KEPT ? segment.first : fate, segment.first));

  const int first = segment.first - silent, all = silent * CHUNK + tokens;
  const size_t of_state = (static_cast<size_t>(segment.sequence) * GDN_HV + head) * HEAD_STATE;
  const long long token = begin + static_cast<long long>(first) * CHUNK, shown = token + silent * CHUNK;
  Place at = inputs.place(token, head, rate, bias);
  at.state = is_begun ? begun + before * HEAD_STATE : (first == 0 ? inputs.state + of_state : nullptr);
  at.output = output + (shown * GDN_HV + head) * GDN_V;
  at.new_state = tokens == left ? new_state + of_state : nullptr;
  return {at, {chunks_of(0, all), silent, all}, segment.sequence, segment.first / size, is_begun};
}

}  // namespace gdn
