// v1 with its scan on Hopper's warpgroups: 64 rows of the state read each right operand from shared memory once, where
// in v1 four warps did so, and the outputs are taken out of the chain from chunk to chunk.
#include "group_scan.cuh"

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

// Block (i, h, n): rows i * ROWS … of the state of value head h and sequence n.
extern "C" __global__ void __launch_bounds__(gdn::SCAN_THREADS, 1)
    gdn_prefill_scan(const __nv_bfloat16* __restrict__ v, const float* __restrict__ state,
                     const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                     float* __restrict__ new_state, const gdn::Prepared* __restrict__ prepared,
                     const gdn::Loaded* __restrict__ loaded) {
  extern __shared__ __align__(1024) char memory[];
  auto& hall = *reinterpret_cast<gdn::Hall<STAGES>*>(memory);
  if (threadIdx.x == 0) hall.initialise();
  const int first_row = blockIdx.x * gdn::ROWS, head = blockIdx.y, sequence = blockIdx.z;
  const long long begin = cu_seqlens[sequence];
  const int length = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - begin));
  const size_t before = gdn::chunks_before(cu_seqlens, sequence, threadIdx.x % gdn::WARP);
  __syncthreads();

  const size_t rows = ((static_cast<size_t>(sequence) * GDN_HV + head) * GDN_V + first_row) * GDN_K;
  const long long values = (begin * GDN_HV + head) * GDN_V + first_row;
  const gdn::Place at = {loaded + before * GDN_HQ + head / gdn::SHARE, prepared + before * GDN_HV + head,
                         v + values, state + rows, output + values, new_state + rows};
  gdn::scan(hall, at, {gdn::chunks_of(0, length), 0, length}, scale);
}
