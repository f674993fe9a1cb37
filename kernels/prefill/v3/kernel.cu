// v2 with long sequences in segments, so that one sequence of few heads fills the GPU.
#include "group_scan.cuh"
#include "segments.cuh"

extern "C" __global__ void __launch_bounds__(gdn::PREPARE_THREADS, 4)
    gdn_prefill_prepare(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                        const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                        const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                        const long long* __restrict__ cu_seqlens, const float scale, gdn::Prepared* prepared,
                        gdn::Loaded* loaded, const long long sequences) {
  extern __shared__ __align__(1024) char memory[];
  gdn::prepare(*reinterpret_cast<gdn::Workbench*>(memory), q, k, A_log, dt_bias, a, b, cu_seqlens, scale, prepared,
               loaded, static_cast<int>(sequences));
}

// Of all sequences, not counting the last of each; the declaration counts them, too.
constexpr int SEGMENTS = BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) > 1 ? BLOCKS * gdn::ROWS / (GDN_HV * GDN_V) : 1;

// Block (i, h, n): rows 64 i … of the state of value head h, in segment n.
extern "C" __global__ void __launch_bounds__(gdn::SCAN_THREADS, 1)
    gdn_prefill_scan(const __nv_bfloat16* __restrict__ v, const float* __restrict__ state,
                     const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                     float* __restrict__ new_state, const gdn::Prepared* __restrict__ prepared,
                     const gdn::Loaded* __restrict__ loaded, const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char memory[];
  auto& ring = *reinterpret_cast<gdn::Ring<STAGES>*>(memory);
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP) % gdn::GROUP_WARPS;
  const unsigned group = gdn::uniform(threadIdx.x / gdn::GROUP);
  const int first_row = blockIdx.x * gdn::ROWS, head = blockIdx.y;
  if (threadIdx.x == 0) gdn::initialise(ring);

  const int size = gdn::segment_chunks(static_cast<int>(chunks), SEGMENTS);
  const gdn::Segment segment =
      gdn::find_segment(cu_seqlens, static_cast<int>(sequences), static_cast<int>(blockIdx.z), size, lane);
  const long long begin = cu_seqlens[segment.sequence];
  const int length = static_cast<int>(cu_seqlens[segment.sequence + 1] - begin) - segment.first * gdn::CHUNK;
  const gdn::Prepared* of_sequence = prepared + static_cast<size_t>(segment.chunks_before) * GDN_HV + head;
  const int tokens = gdn::uniform(min(length, size * gdn::CHUNK));
  const int silent = gdn::uniform(gdn::chunks_that_matter(of_sequence, segment.first, lane));
  const gdn::Walk walk = {silent + gdn::chunks_of(0, tokens), silent, tokens};
  const int first = segment.first - silent;
  __syncthreads();

  const long long token = begin + static_cast<long long>(first) * gdn::CHUNK;
  const __nv_bfloat16* values = v + (token * GDN_HV + head) * GDN_V + first_row;
  if (group == 0) {
    const size_t row =
        (static_cast<size_t>(segment.sequence) * GDN_HV + head) * GDN_V + first_row + warp * gdn::TILE;
    gdn::State s = {};
    if (first == 0) gdn::load_state(s, state + row * GDN_K, lane);
    gdn::carry_state(s, ring, walk, warp, lane);
    if (tokens == length) gdn::store_state(new_state + row * GDN_K, s, lane);
  } else if (group == 1) {
    const long long shown = token + static_cast<long long>(silent) * gdn::CHUNK;
    gdn::write_outputs(ring, output + (shown * GDN_HV + head) * GDN_V + first_row, scale, walk, warp, lane);
  } else {
    const size_t before = segment.chunks_before + first;
    const gdn::GroupSource from = {loaded + before * GDN_HQ + head / gdn::SHARE, of_sequence + first * GDN_HV, values};
    gdn::bring_chunks(ring, from, walk, lane);
  }
}
