// One launch. The two blocks of a cluster do all there is to do for a segment of a head, 32 tokens at a time: each prepares every second
// step, in the places where its tokens come to, and copies it into the other's shared memory. If the state before the segment is
// known, each carries half of its rows. If it is not, one carries what the segment leaves of zero and the other what it leaves of the
// unit matrix, and they add what the state before makes of it as it is there.
#include <gdnbench/phases.cuh>

#include "correct.cuh"
#include "cuts.cuh"
#include "prepare.cuh"

namespace kda {

static_assert(sizeof(FusedMemory) <= 227 * 1024);
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

// The launch's tensors beside those of tokens.
struct Origin {
  const float* state;
  float* new_state;
  __nv_bfloat16* output;
  const long long* cu_seqlens;
  int sequences;
  Scratch scratch;
};

// By a block: what its cluster does, or nothing. Items of a segment of all heads follow each other, the first segments first.
__device__ __forceinline__ bool find_work(FusedMemory& memory, const Tensors& in, const __nv_bfloat16* g,
                                          const Origin& from, int cluster, int rank) {
  const unsigned lane = threadIdx.x % WARP;
  const int head = cluster % GDN_H, row = cluster / GDN_H;
  const Plan plan(from.cu_seqlens, from.sequences, lane);
  Numbered own = {row, 0};
  if (row >= from.sequences) {
    own = find_numbered(from.cu_seqlens, from.sequences, row - from.sequences, lane, [&](int steps) { return plan.most_behind(steps); });
    ++own.number;
  }
  const int sequence = own.sequence, begin = static_cast<int>(from.cu_seqlens[sequence]);
  const int end = static_cast<int>(from.cu_seqlens[sequence + 1]), steps = steps_of(from.cu_seqlens, sequence);
  const int alike = plan.alike.count(steps), behind = plan.behind(steps);
  int2 warm = make_int2(0, 0);
  if (alike > 0) {
    const int cut = own.number <= alike ? plan.alike.begin(own.number) : 0;
    warm = find_warm_ups(*reinterpret_cast<Lost*>(memory.stages), g, in, head, {begin + steps / 2 * TOKENS, steps / 2},
                         {begin + cut * TOKENS, cut});
  }
  const bool forgets = alike > 0 && warm.x > 0;  // one place tells for all of the head
  const int count = forgets ? alike : behind;
  if (own.number > count) return false;
  const int first_place = behind > 0 ? count_before(from.cu_seqlens, sequence, lane, [&](int steps) { return plan.behind(steps); }) : 0;
  if (threadIdx.x != 0) return true;
  const Cuts cuts = forgets ? plan.alike : plan.known;
  const size_t of_head = (static_cast<size_t>(sequence) * GDN_H + head) * HEAD_STATE;
  const auto make = [&](Item& item, int number) {
    const int first = count > 0 ? cuts.begin(number) : 0, last = number < count ? cuts.begin(number + 1) : steps;
    const int silent = forgets ? (warm.y > 0 ? warm.y : first) : 0;
    const auto place = [&](int number) { return forgets || number == 0 || number > count ? -1 : (first_place + number - 1) * GDN_H + head; };
    const auto in_scratch = [&](int place) { return from.scratch.states + static_cast<size_t>(place) * HEAD_STATE; };
    item.place = place(number), item.next = place(number + 1);
    item.is_behind = item.place >= 0;
    item.state = item.is_behind ? in_scratch(item.place) : (first == silent ? from.state + of_head : nullptr);
    item.new_state = item.next >= 0 ? in_scratch(item.next) : (last == steps ? from.new_state + of_head : nullptr);
    item.output = item.is_behind && rank == 1 ? from.scratch.reads : from.output;
    item.head = head, item.begin = begin + (first - silent) * TOKENS, item.tokens = min(end, begin + last * TOKENS) - item.begin;
    item.silent = silent;
  };
  make(memory.work.own, own.number);
  memory.work.other.place = -1;
  if (!forgets && own.number == 0 && count > 0) make(memory.work.other, count);
  memory.work.is_helped = !forgets && own.number > 0 && own.number == count && meet(memory.work.own.place, BEGUN, rank);
  memory.initialise(rank);
  return true;
}

}  // namespace kda

extern "C" __global__ void __cluster_dims__(kda::PAIR) __launch_bounds__(kda::FUSED_THREADS, 1)
    kda_prefill(const __grid_constant__ gdn::TensorMap queries, const __grid_constant__ gdn::TensorMap keys,
                const __grid_constant__ gdn::TensorMap gates, const __grid_constant__ gdn::TensorMap values,
                const __grid_constant__ gdn::TensorMap reads, const __grid_constant__ gdn::TensorMap outputs,
                const __nv_bfloat16* __restrict__ g, const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state, const long long* __restrict__ cu_seqlens,
                const float scale, const float lower_bound, __nv_bfloat16* output, float* new_state, __nv_bfloat16* scratch_reads,
                float* states, const long long sequences) {
  using namespace kda;
  extern __shared__ __align__(1024) char bytes[];
  FusedMemory& memory = *reinterpret_cast<FusedMemory*>(bytes);
  const Tensors in = {&queries, &keys, &values, &gates, b, A_log, dt_bias, scale, lower_bound};
  const Scratch scratch = {states, scratch_reads};
  const int rank = blockIdx.x % PAIR;
  if (threadIdx.x == 0) prefetch(queries), prefetch(keys), prefetch(gates), prefetch(values);
  const Item &item = memory.work.own, &other = memory.work.other;
  if (!find_work(memory, in, g, {state, new_state, output, cu_seqlens, static_cast<int>(sequences), scratch}, blockIdx.x / PAIR, rank))
    return;
  fence_async_proxy();  // of what lay in the places of tokens
  __syncthreads();
  arrive_at_cluster();
  wait_for_cluster();
  const unsigned lane = threadIdx.x % WARP;
  const int warp = uniform(static_cast<int>(threadIdx.x) / WARP);
  if (warp >= CARRIERS) {
    give_registers<80>();
    prepare(memory, in, item, rank, (warp - CARRIERS) / GROUP_WARPS, warp % GROUP_WARPS, lane);
    arrive_at_cluster();  // nothing comes from the other block any more
    wait_for_cluster();
    return;
  }
  take_registers<176>();
  const Share share(item, rank);
  State s;
  if (warp < share.carriers) {
    const Bringer bringer(in, item, share, warp);
    if (item.is_behind) bringer.bring_first(memory, lane);
    begin_state(s, item, share, warp, lane);
    if (item.tokens > 0) carry(s, memory, bringer, item, share, warp, lane);
    if (!item.is_behind && item.new_state != nullptr)
      leave_state(item.new_state + (share.first_tile + warp) * TILE * GDN_K, s, item.next, lane);
  } else {
    const Bringer bringer(in, item, share, warp - share.carriers);
    bringer.bring_first(memory, lane);
    for (int step = 0; step + 1 < bringer.steps; ++step) bringer.go_on(memory, step, lane);
  }
  const bool is_last = item.is_behind && item.next < 0;
  if (is_last) {
    __syncwarp();
    if (lane == 0) add_released(meetings[item.place].carried);
  }
  meet_in_cluster();
  CorrectMemory& places = reinterpret_cast<CorrectMemory&>(memory.stages);
  const bool leads = threadIdx.x == 0;
  if (item.is_behind) {
    compose(s, memory, item, rank, warp, lane);
    const int shares = memory.work.is_helped ? 2 * PAIR : PAIR;
    correct(memory, places, {reads, outputs, output, item.head, item.begin, item.tokens, rank, shares}, item.state, warp, lane);
    meet_in_cluster();
    if (leads) leave(item.place, is_last ? 2 * PAIR : PAIR);
  } else if (other.place >= 0) {
    if (leads) {
      memory.work.is_helped = meet(other.place, HELPS, rank);
      if (memory.work.is_helped) {
        wait_for_count(meetings[other.place].carried, PAIR * CARRIERS);
        wait_for_count(meetings[other.place].composed, CARRIERS);
      }
    }
    synchronise_carriers();
    if (memory.work.is_helped)
      correct(memory, places, {reads, outputs, output, other.head, other.begin, other.tokens, PAIR + rank, 2 * PAIR}, other.state, warp, lane);
    if (leads) leave(other.place, 2 * PAIR);
  }
}
