// As prefill-v4, for many sequences: a block takes one whole, and those with the longest begin first.
#include "fused.cuh"
#include "longest_first.cuh"

static_assert(gdn::ROWS == GDN_V, "a block has a head's whole state");

// Block (h, n): value head h, in the sequence that is n-th by length.
extern "C" __global__ void __launch_bounds__(gdn::FUSED_THREADS, 1)
    gdn_prefill(const __grid_constant__ gdn::TensorMap q, const __grid_constant__ gdn::TensorMap k,
                const __grid_constant__ gdn::TensorMap v, const float* __restrict__ state, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const __nv_bfloat16* __restrict__ a,
                const __nv_bfloat16* __restrict__ b, const long long* __restrict__ cu_seqlens, const float scale,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<gdn::FusedMemory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP;
  const int warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int head = blockIdx.x, key_head = head / gdn::SHARE;
  const float rate = expf(A_log[head]), bias = dt_bias[head];
  if (threadIdx.x == gdn::WARP)
    for (const gdn::TensorMap* map : {&q, &k, &v}) gdn::prefetch(*map);
  if (threadIdx.x == 0) memory.initialise();
  auto& keys = *reinterpret_cast<gdn::SequenceKeys*>(memory.triangles);  // which no chunk has needed yet
  static_assert(sizeof(keys) <= sizeof(memory.triangles), "they fit");
  const int sequence = gdn::uniform(
      keys.find(cu_seqlens, static_cast<int>(sequences), blockIdx.y, threadIdx.x, gdn::FUSED_THREADS));
  __syncthreads();  // all have read it, and barriers are initialised

  const long long token = cu_seqlens[sequence];
  const int tokens = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - token));
  const size_t rows = (static_cast<size_t>(sequence) * GDN_HV + head) * (GDN_V * GDN_K);
  const gdn::Place at = {
      {&q, static_cast<int>(token), key_head, 0},
      {&k, static_cast<int>(token), key_head, 0},
      {&v, static_cast<int>(token), head, 0},
      a + token * GDN_HV + head,
      b + token * GDN_HV + head,
      state + rows,
      output + (token * GDN_HV + head) * GDN_V,
      new_state + rows,
      rate,
      bias,
  };
  gdn::prefill(memory, at, {gdn::chunks_of(0, tokens), 0, tokens}, scale, warp, lane);
}
