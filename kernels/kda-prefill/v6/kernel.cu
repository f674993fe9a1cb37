// One launch whose blocks do all there is to do for a segment of a head, 32 tokens at a time: what of them needs no state is
// prepared by two warpgroups beside the two that carry it, in the places where tokens come to, and nothing is exchanged through
// global memory.
#include <gdnbench/phases.cuh>

#include "work.cuh"

namespace kda {

constexpr int MOST_SEGMENTS = BLOCKS / GDN_H > 1 ? BLOCKS / GDN_H : 1;  // of all of a head's tokens
constexpr int MOST_WARM = 4;                                            // steps before a segment
constexpr int SEARCHED = FUSED_THREADS / PAIRS;                         // tokens that threads take at once

// By a block: the steps before a token after which all channels of a head have forgotten what was before them, or none.
__device__ __forceinline__ int warm_up(float2 (&lost)[SEARCHED][PAIRS], const __nv_bfloat16* g, const Tensors& in, int head,
                                       int begin, int most) {
  const int thread = threadIdx.x, pair = thread % PAIRS, row = thread / PAIRS;
  const Channels channels(in, head, pair);
  float2 all = make_float2(0.f, 0.f);
  for (int steps = 1; steps <= most; ++steps) {
    float2 own = make_float2(0.f, 0.f);
#pragma unroll
    for (int i = 0; i < TOKENS; i += SEARCHED) {
      const long long token = begin - steps * TOKENS + i + row;
      own = plus(own, channels.log_decays(reinterpret_cast<const unsigned*>(g + (token * GDN_H + head) * GDN_K)[pair]));
    }
    lost[row][pair] = own;
    __syncthreads();
    if (thread < PAIRS)
      for (int i = 0; i < SEARCHED; ++i) all = plus(all, lost[i][pair]);
    if (__syncthreads_and(thread >= PAIRS || fmaxf(all.x, all.y) <= -24.f)) return steps;
  }
  return 0;
}

// By a block: an item by its number, of which those of a segment's heads follow each other. Most heads that forget do so within a
// step: tokens of the first two steps are asked for as if this one did, while its gates are looked at.
__device__ __forceinline__ void find_item(Item& item, FusedMemory& memory, const Tensors& in, const __nv_bfloat16* g,
                                          const float* state, float* new_state, __nv_bfloat16* output, const TensorMap& outputs,
                                          const long long* cu_seqlens, int sequences, int size, int number) {
  const unsigned lane = threadIdx.x % WARP;
  const int head = number % GDN_H, warp = uniform(static_cast<int>(threadIdx.x) / WARP);
  const Segment segment = find_segment(cu_seqlens, sequences, number / GDN_H, size, lane);
  const int first = static_cast<int>(cu_seqlens[segment.sequence]), end = static_cast<int>(cu_seqlens[segment.sequence + 1]);
  const int begin = first + segment.first * CHUNK, last = min(begin + size * CHUNK, end), before = segment.first * STEPS;
  const size_t at = (static_cast<size_t>(segment.sequence) * GDN_H + head) * (GDN_V * GDN_K);
  const auto begin_item = [&](int warm) {  // or with the sequence, if it is none
    if (threadIdx.x == 0) {
      item.state = warm > 0 ? nullptr : state + at;
      item.new_state = last == end ? new_state + at : nullptr;
      item.output = output, item.outputs = &outputs;
      item.head = head;
      item.silent = warm > 0 ? warm : before;
      item.begin = begin - item.silent * TOKENS;
      item.tokens = last - item.begin;
    }
    __syncthreads();
  };
  const int guess = min(before, 1);
  begin_item(guess);
  if (warp < CARRIERS) ask_for_first(Bringer(in, item, warp), memory, lane);
  if (before == 0) return;
  const int warm = warm_up(*reinterpret_cast<float2(*)[SEARCHED][PAIRS]>(&memory.stages[STAGES - 1]), g, in, head, begin,
                           min(before, MOST_WARM));
  fence_async_proxy();  // of what lay in a stage's place
  __syncthreads();
  if (warm == guess) return;
  forget_first(memory, warp < CARRIERS, lane);
  begin_item(warm);
  if (warp < CARRIERS) ask_for_first(Bringer(in, item, warp), memory, lane);
}

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::FUSED_THREADS, 1)
    kda_prefill(const __grid_constant__ gdn::TensorMap queries, const __grid_constant__ gdn::TensorMap keys,
                const __grid_constant__ gdn::TensorMap gates, const __grid_constant__ gdn::TensorMap values,
                const __nv_bfloat16* __restrict__ g, const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state, const long long* __restrict__ cu_seqlens,
                const float scale, const float lower_bound, __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                const __grid_constant__ gdn::TensorMap outputs, const long long sequences, const long long chunks) {
  using namespace kda;
  extern __shared__ __align__(1024) char bytes[];
  FusedMemory& memory = *reinterpret_cast<FusedMemory*>(bytes);
  const Tensors in = {&queries, &keys, &values, &gates, b, A_log, dt_bias, scale, lower_bound};
  if (threadIdx.x == 0) prefetch(queries), prefetch(keys), prefetch(gates), prefetch(values), prefetch(outputs), memory.initialise();
  __shared__ Item item;
  find_item(item, memory, in, g, state, new_state, output, outputs, cu_seqlens, static_cast<int>(sequences),
            segment_chunks(static_cast<int>(chunks), MOST_SEGMENTS), blockIdx.x);
  const auto leave = [&](const State& s, int warp, unsigned lane) {
    if (item.new_state != nullptr) store_state(item.new_state + warp * TILE * GDN_K, s, lane);
  };
  work(memory, in, item, leave);
}
