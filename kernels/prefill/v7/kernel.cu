// One launch, as in v4, for 64 rows of the state in a block; where there is more to do than SMs, blocks take turns. How
// the grid lies tells which: along x a block for each segment, along y blocks that take whole sequences.
#include "turns.cuh"

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS / (GDN_HV * gdn::PARTS) > 1 ? BLOCKS / (GDN_HV * gdn::PARTS) : 1;

// Turn ((n * HV) + h) * PARTS + i: rows i * ROWS … of the state of value head h, in segment or sequence n.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const long long sequences,
                const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::TurnMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const bool is_cut = gridDim.y == 1;
  const int first = is_cut ? blockIdx.x : blockIdx.y;
  float log_rate = A_log[first / gdn::PARTS % GDN_HV], bias = dt_bias[first / gdn::PARTS % GDN_HV];
  asm volatile("" : "+f"(log_rate), "+f"(bias));  // asked for before anything that has to be waited for
  if (threadIdx.x == gdn::WARP)
    for (const gdn::TensorMap* map : {&q, &k, &v}) gdn::prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  if (warp >= gdn::GROUP_WARPS && warp < gdn::GROUP_WARPS + gdn::TurnMemory::SOLVED_STAGES)
    gdn::clear_above(memory.solved[warp - gdn::GROUP_WARPS], lane);
  const int size = gdn::segment_chunks(static_cast<int>(chunks), SEGMENTS);
  gdn::Segment segment = {first / (GDN_HV * gdn::PARTS), 0, 0};
  if (is_cut) segment = gdn::find_segment(cu_seqlens, static_cast<int>(sequences), segment.sequence, size, lane);
  __syncthreads();
  int silent = 0;
  if (segment.first > 0) {
    const __nv_bfloat16* const own = a + cu_seqlens[segment.sequence] * GDN_HV + first / gdn::PARTS % GDN_HV;
    silent =
        gdn::uniform(gdn::chunks_that_matter(memory.decays, own, expf(log_rate), bias, segment.first, warp, lane));
  }
  if (threadIdx.x == 0) memory.start = {segment, silent};
  __syncthreads();

  const unsigned end = is_cut ? first + 1 : static_cast<int>(sequences) * GDN_HV * gdn::PARTS;
  const auto find_turn = [&](int number) {
    const int first_row = number % gdn::PARTS * gdn::ROWS, head = number / gdn::PARTS % GDN_HV;
    const int key_head = head / gdn::SHARE;
    gdn::Start start = {{number / (GDN_HV * gdn::PARTS), 0, 0}, 0};
    if (gridDim.y == 1) start = memory.start;
    const int sequence = gdn::uniform(start.segment.sequence), silent = gdn::uniform(start.silent);
    const int first = gdn::uniform(start.segment.first);
    const long long begin = cu_seqlens[sequence];
    const int left = static_cast<int>(cu_seqlens[sequence + 1] - begin) - first * gdn::CHUNK;
    const int tokens = gdn::uniform(gridDim.y == 1 ? min(left, size * gdn::CHUNK) : left);
    const int all = silent * gdn::CHUNK + tokens;
    const size_t rows = ((static_cast<size_t>(sequence) * GDN_HV + head) * GDN_V + first_row) * GDN_K;
    const float* const next = state + static_cast<size_t>(number + gridDim.y) * (gdn::ROWS * GDN_K);
    const long long shown = begin + static_cast<long long>(first) * gdn::CHUNK;
    const long long token = shown - silent * gdn::CHUNK;
    return gdn::Turn{
        {
            {&q, static_cast<int>(token), key_head, 0},
            {&k, static_cast<int>(token), key_head, 0},
            {&v, static_cast<int>(token), head, first_row},
            a + token * GDN_HV + head,
            b + token * GDN_HV + head,
            first == silent ? state + rows : nullptr,
            output + (shown * GDN_HV + head) * GDN_V + first_row,
            tokens == left ? new_state + rows : nullptr,
            expf(A_log[head]),
            dt_bias[head],
        },
        {gdn::chunks_of(0, all), silent, all},
        number + gridDim.y < end ? next : nullptr,
    };
  };
  gdn::take_turns(memory, {first, static_cast<int>(end), static_cast<int>(gridDim.y)}, find_turn, scale, warp, lane);
}
