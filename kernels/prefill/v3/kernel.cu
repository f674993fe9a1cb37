// v1 with its scan on Hopper's warpgroups: 64 rows of the state read each right operand from shared memory once, where
// in v1 four warps did so, and the outputs are taken out of the chain from chunk to chunk. Long sequences are cut into
// segments, so that one sequence of few heads fills the GPU.
#include "group_scan.cuh"
#include "segments.cuh"

extern "C" __global__ void __launch_bounds__(gdn::PREPARE_THREADS, 4)
    gdn_prefill_prepare(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                        const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                        const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                        const long long* __restrict__ cu_seqlens, const float scale, gdn::Prepared* prepared,
                        gdn::Loaded* loaded, const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  gdn::prepare(*reinterpret_cast<gdn::PrepareMemory*>(bytes), q, k, A_log, dt_bias, a, b, cu_seqlens, scale, prepared,
               loaded, static_cast<int>(sequences));
}

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) > 1 ? BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) : 1;

// Block (i, h, n): rows i * ROWS … of the state of value head h, in segment n.
extern "C" __global__ void __launch_bounds__(gdn::SCAN_THREADS, 1)
    gdn_prefill_scan(const __nv_bfloat16* __restrict__ v, const float* __restrict__ state,
                     const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                     float* __restrict__ new_state, const gdn::Prepared* __restrict__ prepared,
                     const gdn::Loaded* __restrict__ loaded, const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::ScanMemory<STAGES>*>(bytes);
  if (threadIdx.x == 0) memory.initialise();
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int first_row = blockIdx.x * gdn::ROWS, head = blockIdx.y;
  const int size = gdn::segment_chunks(static_cast<int>(chunks), SEGMENTS);
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.z), size, lane);
  const long long begin = cu_seqlens[segment.sequence];
  const int left = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const gdn::Prepared* of_sequence = prepared + static_cast<size_t>(segment.chunks_before) * GDN_HV + head;
  const int tokens = gdn::uniform(min(left, size * gdn::CHUNK));
  const int silent = gdn::uniform(gdn::chunks_that_matter(of_sequence, segment.first, lane));
  __syncthreads();

  const int first = segment.first - silent;
  const size_t rows = ((static_cast<size_t>(segment.sequence) * GDN_HV + head) * GDN_V + first_row) * GDN_K;
  const long long token = begin + static_cast<long long>(first) * gdn::CHUNK, shown = token + silent * gdn::CHUNK;
  const auto value = [&](long long token) { return (token * GDN_HV + head) * GDN_V + first_row; };
  const gdn::Place at = {
      loaded + static_cast<size_t>(segment.chunks_before + first) * GDN_HQ + head / gdn::SHARE,
      of_sequence + static_cast<size_t>(first) * GDN_HV,
      v + value(token),
      first == 0 ? state + rows : nullptr,
      output + value(shown),
      tokens == left ? new_state + rows : nullptr,
  };
  const int all = silent * gdn::CHUNK + tokens;
  gdn::scan(memory, at, {gdn::chunks_of(0, all), silent, all}, scale);
}
