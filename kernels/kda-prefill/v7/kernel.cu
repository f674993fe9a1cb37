// Two launches. The first one's blocks do all there is to do for a segment of a head, 32 tokens at a time: what of them needs no
// state is prepared by two warpgroups beside the two that carry it, in the places where tokens come to, and nothing is exchanged
// through global memory. Where a head remembers, the second one adds what segments' outputs are without of the state before them.
#include <gdnbench/phases.cuh>

#include "correct.cuh"
#include "../v6/work.cuh"

namespace kda {

constexpr int MOST_WARM = 4;                     // steps before a segment
constexpr int SEARCHED = FUSED_THREADS / PAIRS;  // tokens that threads take at once

// Where a head's gates are looked at: a token of it, of which so many steps before it are the sequence's, or there is none.
struct Cut {
  int begin, steps;
};

// What channels lose in tokens of steps before cuts, and how many steps a warp's pairs of channels need.
struct Lost {
  float2 logs[2][MOST_WARM][SEARCHED][PAIRS];
  int steps[2][PAIRS / WARP];
};

// By a block: of two cuts the steps before them after which all channels of a head have forgotten what was before, or none.
__device__ __forceinline__ int2 find_warm_ups(Lost& lost, const __nv_bfloat16* g, const Tensors& in, int head, const Cut& first,
                                              const Cut& second) {
  const int thread = threadIdx.x, pair = thread % PAIRS, row = thread / PAIRS;
  const Channels channels(in, head, pair);
  constexpr int OWN = TOKENS / SEARCHED;
  unsigned raw[2][MOST_WARM][OWN];
#pragma unroll
  for (int n = 0; n < 2 * MOST_WARM * OWN; ++n) {
    const Cut& cut = n < MOST_WARM * OWN ? first : second;
    const int step = n / OWN % MOST_WARM;
    const long long token = cut.begin - (min(step, cut.steps - 1) + 1) * TOKENS + n % OWN * SEARCHED + row;
    raw[n / (MOST_WARM * OWN)][step][n % OWN] =
        cut.steps > 0 ? reinterpret_cast<const unsigned*>(g + (token * GDN_H + head) * GDN_K)[pair] : 0;
  }
#pragma unroll
  for (int n = 0; n < 2 * MOST_WARM; ++n) {
    float2 own = make_float2(0.f, 0.f);
#pragma unroll
    for (int i = 0; i < OWN; ++i) own = plus(own, channels.log_decays(raw[n / MOST_WARM][n % MOST_WARM][i]));
    lost.logs[n / MOST_WARM][n % MOST_WARM][row][pair] = own;
  }
  __syncthreads();
  if (thread < 2 * PAIRS) {
    const auto& logs = lost.logs[thread / PAIRS];
    float2 all = make_float2(0.f, 0.f);
    int needed = 1;
#pragma unroll
    for (int step = 0; step < MOST_WARM; ++step) {
#pragma unroll
      for (int i = 0; i < SEARCHED; ++i) all = plus(all, logs[step][i][pair]);
      if (fmaxf(all.x, all.y) > -24.f) needed = step + 2;
    }
    needed = __reduce_max_sync(ALL_LANES, needed);
    if (thread % WARP == 0) lost.steps[thread / PAIRS][pair / WARP] = needed;
  }
  __syncthreads();
  const int2 needed = make_int2(max(lost.steps[0][0], lost.steps[0][1]), max(lost.steps[1][0], lost.steps[1][1]));
  __syncthreads();
  return make_int2(needed.x <= min(first.steps, MOST_WARM) ? needed.x : 0, needed.y <= min(second.steps, MOST_WARM) ? needed.y : 0);
}

// A launch's tensors beside those of tokens.
struct Origin {
  const float* state;
  float* new_state;
  __nv_bfloat16 *output, *reads;
  const TensorMap *outputs, *reads_boxes;
  const long long* cu_seqlens;
  int sequences;
  Scratch scratch;
};

// By a block: what it has to do, by its number. Items of a sequence's segment of all heads follow each other, the longest first.
// Of heads that remember they are a first segment, then with values and without them each of the others.
__device__ __forceinline__ bool find_item(Item& item, FusedMemory& memory, const Tensors& in, const __nv_bfloat16* g,
                                          const Origin& from) {
  const unsigned lane = threadIdx.x % WARP;
  const int head = blockIdx.x % GDN_H, row = blockIdx.x / GDN_H;
  const Plan plan(from.cu_seqlens, from.sequences, lane);
  Numbered own = {row, 0};
  if (row >= from.sequences) {
    own = find_numbered(from.cu_seqlens, from.sequences, row - from.sequences, lane,
                        [&](int steps) { return plan.items(steps) - 1; });
    ++own.number;
  }
  const int sequence = own.sequence, begin = static_cast<int>(from.cu_seqlens[sequence]);
  const int end = static_cast<int>(from.cu_seqlens[sequence + 1]), steps = steps_of(from.cu_seqlens, sequence);
  const int alike = plan.alike.count(steps), behind = plan.behind(steps);
  const size_t of_head = (static_cast<size_t>(sequence) * GDN_H + head) * HEAD_STATE;
  const int own_cut = own.number < alike ? own.number * plan.alike.size : 0;
  int2 warm = make_int2(0, 0);
  if (alike > 0)
    warm = find_warm_ups(*reinterpret_cast<Lost*>(memory.stages), g, in, head, {begin + steps / 2 * TOKENS, steps / 2},
                         {begin + own_cut * TOKENS, own_cut});
  const bool remembers = warm.x == 0;  // one place tells for all of the head
  int first = 0, last = steps, silent = 0, place = -1;
  bool is_transition = false;
  if (alike > 0 && !remembers) {
    if (own.number >= alike) return false;
    first = own.number * plan.alike.size, last = min(first + plan.alike.size, steps);
    silent = warm.y > 0 ? warm.y : first;
    first -= silent;
  } else if (behind > 0) {
    const int segment = (own.number + 1) / 2;
    if (segment > behind) return false;
    is_transition = own.number > 0 && own.number % 2 == 0;
    if (segment > 0) first = plan.known.begin(segment);
    last = segment == 0 ? plan.known.begin(1) : min(first + plan.known.size, steps);
    place = segment;
  } else if (own.number > 0) {
    return false;
  }
  const int first_of_head = behind > 0 ? first_place(plan, from.cu_seqlens, sequence, head, lane) : 0;
  if (threadIdx.x != 0) return true;
  if (own.number == 0) from.scratch.remembers[sequence * GDN_H + head] = behind > 0 && remembers;
  const int at = first_of_head + max(place, 0) * GDN_H;
  item.state = first == 0 ? from.state + of_head : nullptr;
  item.new_state = last == steps ? from.new_state + of_head : nullptr;
  if (place >= 0 && !is_transition) from.scratch.composed[at] = 0;
  if (place >= 0) item.new_state = from.scratch.states + static_cast<size_t>(at) * HEAD_STATE;
  if (is_transition) item.new_state = reinterpret_cast<float*>(from.scratch.transitions + at);
  item.output = is_transition ? from.reads : from.output, item.outputs = is_transition ? from.reads_boxes : from.outputs;
  item.head = head, item.begin = begin + first * TOKENS, item.tokens = min(end - begin, last * TOKENS) - first * TOKENS;
  item.silent = silent;
  item.is_transition = is_transition;
  return true;
}

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote, to bulk copies, too.
__device__ __forceinline__ void wait_for_earlier() {
  asm volatile("griddepcontrol.wait;\n fence.proxy.async.global;" ::: "memory");
}

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::FUSED_THREADS, 1)
    kda_prefill(const __grid_constant__ gdn::TensorMap queries, const __grid_constant__ gdn::TensorMap keys,
                const __grid_constant__ gdn::TensorMap gates, const __grid_constant__ gdn::TensorMap values,
                const __nv_bfloat16* __restrict__ g, const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state, const long long* __restrict__ cu_seqlens,
                const float scale, const float lower_bound, __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                const __grid_constant__ gdn::TensorMap outputs, const __grid_constant__ gdn::TensorMap reads_boxes,
                __nv_bfloat16* __restrict__ reads, float* __restrict__ states, kda::Transition* __restrict__ transitions,
                int* __restrict__ remembers, int* __restrict__ composed, const long long sequences) {
  using namespace kda;
  extern __shared__ __align__(1024) char bytes[];
  FusedMemory& memory = *reinterpret_cast<FusedMemory*>(bytes);
  let_next_begin();
  const Tensors in = {&queries, &keys, &values, &gates, b, A_log, dt_bias, scale, lower_bound};
  if (threadIdx.x == 0) prefetch(queries), prefetch(keys), prefetch(gates), prefetch(values), memory.initialise();
  __shared__ Item item;
  if (!find_item(item, memory, in, g,
                 {state, new_state, output, reads, &outputs, &reads_boxes, cu_seqlens, static_cast<int>(sequences), {states, transitions, remembers, composed}}))
    return;
  fence_async_proxy();  // of what lay in the places of tokens
  __syncthreads();
  work(memory, in, item, [&](const State& s, int warp, unsigned lane) {
    if (item.is_transition)
      store_transition(*reinterpret_cast<Transition*>(item.new_state), s, warp, lane);
    else if (item.new_state != nullptr)
      store_state(item.new_state + warp * TILE * GDN_K, s, lane);
  });
}

// Block (head, n): of a sequence that is cut its states, and then parts of its segments behind the first one.
extern "C" __global__ void __launch_bounds__(kda::CORRECT_THREADS, 2)
    kda_prefill_correct(const __grid_constant__ gdn::TensorMap reads, const __grid_constant__ gdn::TensorMap outputs,
                        const long long* __restrict__ cu_seqlens, __nv_bfloat16* output, float* __restrict__ new_state,
                        float* states, kda::Transition* transitions, int* remembers, int* composed, const long long sequences) {
  using namespace kda;
  extern __shared__ __align__(1024) char bytes[];
  CorrectMemory& memory = *reinterpret_cast<CorrectMemory*>(bytes);
  const unsigned lane = threadIdx.x % WARP;
  const int warp = uniform(static_cast<int>(threadIdx.x) / WARP);
  const Scratch scratch = {states, transitions, remembers, composed};
  if (threadIdx.x == 0) {
    prefetch(reads), prefetch(outputs);
    for (int i = 0; i < CORRECT_STAGES; ++i) initialise(memory.come[i], 1);
    fence_async_proxy();
  }
  wait_for_earlier();
  if (warp == 0) {
    Corrected found = {};
    bool any = false;
    for (int i = lane; i < sequences; i += WARP) any |= remembers[i * GDN_H + blockIdx.x] != 0;
    if (__any_sync(ALL_LANES, any)) found = find_corrected(cu_seqlens, static_cast<int>(sequences), blockIdx.x, blockIdx.y, lane);
    if (lane == 0) memory.corrected = found;
  }
  __syncthreads();
  const Corrected own = memory.corrected;
  if (own.segment == 0 || !remembers[own.sequence * GDN_H + own.head]) return;
  if (own.tokens > 0)
    correct(memory, scratch, reads, outputs, output, own, warp, lane);
  else
    compose(memory, scratch, own.place, own.segment, new_state + (static_cast<size_t>(own.sequence) * GDN_H + own.head) * HEAD_STATE,
            warp, lane);
}
