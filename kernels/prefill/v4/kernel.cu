// One launch, in which a block does for its segment and value head all that there is to do.
#include "fused.cuh"

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) > 1 ? BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) : 1;

// Block (i, h, n): rows i * ROWS … of the state of value head h, in segment n.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const long long sequences,
                const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int first_row = blockIdx.x * gdn::ROWS, head = blockIdx.y, key_head = head / gdn::SHARE;
  const int size = gdn::segment_chunks(static_cast<int>(chunks), SEGMENTS);
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.z), size, lane);
  const long long begin = cu_seqlens[segment.sequence];
  const int left = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const int tokens = gdn::uniform(min(left, size * gdn::CHUNK));
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  __syncthreads();
  const int silent = gdn::uniform(
      gdn::chunks_that_matter(memory.decays, a + begin * GDN_HV + head, rate, bias, segment.first, warp, lane));

  const int first = segment.first - silent;
  const size_t rows = ((static_cast<size_t>(segment.sequence) * GDN_HV + head) * GDN_V + first_row) * GDN_K;
  const long long token = begin + static_cast<long long>(first) * gdn::CHUNK, shown = token + silent * gdn::CHUNK;
  const gdn::Place at = {
      {&q, static_cast<int>(token), key_head, 0},
      {&k, static_cast<int>(token), key_head, 0},
      {&v, static_cast<int>(token), head, first_row},
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      first == 0 ? state + rows : nullptr,
      output + (shown * GDN_HV + head) * GDN_V + first_row,
      tokens == left ? new_state + rows : nullptr,
      rate,
      bias,
  };
  const int all = silent * gdn::CHUNK + tokens;
  const gdn::Walk walk = {gdn::chunks_of(0, all), silent, all};
  gdn::prefill(memory, at, walk, scale, warp, lane);
}
