// As prefill-v7 where blocks take whole sequences in turns, but by a schedule: the longest first, so that no block is
// left with a long one when the others are done.
#include "turns.cuh"
#include "schedule.cuh"

struct ScheduledMemory : gdn::TurnMemory {
  gdn::Schedule schedule;
};

constexpr int TEAM = GDN_HV * gdn::PARTS;  // blocks that share a sequence

// Block (t * HV + h) * PARTS + i: rows i * ROWS … of the state of value head h, in the sequences of team t.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<ScheduledMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP), place = blockIdx.x % TEAM;
  const int first_row = place % gdn::PARTS * gdn::ROWS, head = place / gdn::PARTS, key_head = head / gdn::SHARE;
  float log_rate = A_log[head], bias = dt_bias[head];
  asm volatile("" : "+f"(log_rate), "+f"(bias));  // asked for before anything that has to be waited for
  if (threadIdx.x == gdn::WARP)
    for (const gdn::TensorMap* map : {&q, &k, &v}) gdn::prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  if (warp >= gdn::GROUP_WARPS && warp < gdn::GROUP_WARPS + gdn::TurnMemory::SOLVED_STAGES)
    gdn::clear_above(memory.solved[warp - gdn::GROUP_WARPS], lane);
  const gdn::Schedule& schedule = memory.schedule;
  memory.schedule.plan(cu_seqlens, static_cast<int>(sequences), blockIdx.x / TEAM, gridDim.x / TEAM, threadIdx.x,
                       gdn::FUSED_THREADS);

  const int count = gdn::uniform(schedule.count);
  const auto rows_of = [&](int number) {
    const size_t sequence = schedule.sequence(number, static_cast<int>(sequences));
    return ((sequence * GDN_HV + head) * GDN_V + first_row) * GDN_K;
  };
  const auto find_turn = [&](int number) {
    const int sequence = gdn::uniform(schedule.sequence(number, static_cast<int>(sequences)));
    const long long token = cu_seqlens[sequence];
    const int tokens = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - token));
    return gdn::Turn{
        {
            {&q, static_cast<int>(token), key_head, 0},
            {&k, static_cast<int>(token), key_head, 0},
            {&v, static_cast<int>(token), head, first_row},
            a + token * GDN_HV + head,
            b + token * GDN_HV + head,
            state + rows_of(number),
            output + (token * GDN_HV + head) * GDN_V + first_row,
            new_state + rows_of(number),
            expf(log_rate),
            bias,
        },
        {gdn::chunks_of(0, tokens), 0, tokens},
        number + 1 < count ? state + rows_of(number + 1) : nullptr,
    };
  };
  gdn::take_turns(memory, {0, count, 1}, find_turn, scale, warp, lane);
}
