// Two launches: what each chunk tells without the state, all chunks at once; then the states, chunk after chunk, in the
// registers of the warps that own their rows, on tensor cores.
#include "scan.cuh"

namespace {

constexpr int ROWS = WARPS * gdn::TILE;  // of the state in a block
static_assert(GDN_V % ROWS == 0, "a block works on one head");

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::PREPARE_THREADS, 4)
    gdn_prefill_prepare(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                        const float* __restrict__ A_log, const float* __restrict__ dt_bias,
                        const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                        const long long* __restrict__ cu_seqlens, const float scale, gdn::Prepared* prepared,
                        const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  gdn::prepare(*reinterpret_cast<gdn::PrepareMemory*>(bytes), q, k, A_log, dt_bias, a, b, cu_seqlens, scale, prepared,
               nullptr, static_cast<int>(sequences));
}

// Block (i, h, n): rows i * ROWS … of the state of value head h and sequence n.
extern "C" __global__ void __launch_bounds__((WARPS + 1) * gdn::WARP, 1)
    gdn_prefill_scan(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                     const __nv_bfloat16* __restrict__ v, const float* __restrict__ state,
                     const long long* __restrict__ cu_seqlens, const float scale, __nv_bfloat16* __restrict__ output,
                     float* __restrict__ new_state, const gdn::Prepared* __restrict__ prepared) {
  extern __shared__ __align__(128) char bytes[];
  auto* stages = reinterpret_cast<gdn::Stage<ROWS>*>(bytes);
  __shared__ gdn::Barrier full[STAGES], empty[STAGES];
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int first_row = blockIdx.x * ROWS, head = blockIdx.y, sequence = blockIdx.z;
  const long long begin = cu_seqlens[sequence];
  const int length = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - begin));
  if (threadIdx.x < STAGES) {
    gdn::initialise(full[threadIdx.x], gdn::WARP);
    gdn::initialise(empty[threadIdx.x], WARPS);
  }
  __syncthreads();

  if (warp == WARPS) {
    const int key_head = head / (GDN_HV / GDN_HQ), before = gdn::chunks_before(cu_seqlens, sequence, lane);
    const gdn::Source from = {q + (begin * GDN_HQ + key_head) * GDN_K, k + (begin * GDN_HQ + key_head) * GDN_K,
                              v + (begin * GDN_HV + head) * GDN_V + first_row,
                              prepared + static_cast<size_t>(before) * GDN_HV + head};
    for (int chunk = 0; chunk * gdn::CHUNK < length; ++chunk) {
      const int slot = chunk % STAGES, lap = chunk / STAGES;
      if (lap > 0) gdn::wait(empty[slot], (lap - 1) % 2);
      gdn::bring_chunk(stages[slot], full[slot], from, chunk, min(length - chunk * gdn::CHUNK, gdn::CHUNK), lane);
    }
    return;
  }

  const int row = first_row + warp * gdn::TILE;
  const size_t place = ((static_cast<size_t>(sequence) * GDN_HV + head) * GDN_V + row) * GDN_K;
  gdn::State s;
  gdn::load_state(s, state + place, lane);
  output += (begin * GDN_HV + head) * GDN_V + row;
  for (int chunk = 0; chunk * gdn::CHUNK < length; ++chunk) {
    const int slot = chunk % STAGES;
    gdn::wait(full[slot], chunk / STAGES % 2);
    gdn::take_chunk(s, stages[slot], output, scale, length - chunk * gdn::CHUNK, warp, lane);
    output += gdn::CHUNK * (GDN_HV * GDN_V);
    __syncwarp();
    if (lane == 0) gdn::arrive(empty[slot]);
  }
  gdn::store_state(new_state + place, s, lane);
}
