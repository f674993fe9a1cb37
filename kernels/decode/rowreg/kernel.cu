// A thread owns whole rows: the state stays in its registers from load to store and no sum crosses lanes.
// The price is access: lanes read along rows 512 bytes apart, 32 lines a load, and L1 must keep what later ones want.
#include <gdnbench/phases.cuh>

#include "gdn.cuh"

GDNBENCH_PHASE_NAMES(gates_and_qk, load_state, update_and_store);

constexpr int THREADS = gdn::WARP * WARPS;
constexpr int ROWS = GDN_V / THREADS;  // a thread's rows; two are 256 registers, above the limit of 255, and spill
constexpr int QUADS = GDN_K / 4;

// One block per SM is enough: the compiler may give a thread every register there is.
extern "C" __global__ void __launch_bounds__(THREADS, 1) gdn_decode_rowreg(GDN_DECODE_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  const int lane = threadIdx.x % gdn::WARP;
  const int warp = threadIdx.x / gdn::WARP;
  const int head_of_batch = blockIdx.x;
  const int head = head_of_batch % GDN_HV;
  const int key_head = head_of_batch / GDN_HV * GDN_HQ + head / (GDN_HV / GDN_HQ);
  const int first_value = head_of_batch * GDN_V + threadIdx.x;

  float4 s[ROWS][QUADS];
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const size_t value = first_value + row * THREADS;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[row][i] = reinterpret_cast<const float4*>(state + value * GDN_K)[i];
  }

  __shared__ float4 keys[QUADS], queries[QUADS];
  if (warp == 0) keys[lane] = gdn::load_bf16x4(k + key_head * GDN_K + lane * gdn::PER_LANE);
  if (warp == 1) queries[lane] = gdn::load_bf16x4(q + key_head * GDN_K + lane * gdn::PER_LANE);
  const gdn::Gates gate = gdn::gates(A_log[head], dt_bias[head], a[head_of_batch], b[head_of_batch]);
  __syncthreads();
  GDNBENCH_PHASE_USING(gates_and_qk, gate.decay, gate.write);
  GDNBENCH_PHASE_USING(load_state, s);

#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const size_t value = first_value + row * THREADS;
    gdn::RowSum retrieved, sum;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      s[row][i] = gdn::scaled(gate.decay, s[row][i]);
      retrieved.add(i, s[row][i], keys[i]);
    }
    const float delta = gate.write * (__bfloat162float(v[value]) - retrieved.total());
    __syncwarp();  // nobody is waited for: k is now read again, and not kept in 128 more registers, which spill
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
      const float4 updated = gdn::add_scaled(s[row][i], delta, keys[i]);
      reinterpret_cast<float4*>(new_state + value * GDN_K)[i] = updated;
      sum.add(i, updated, queries[i]);
    }
    output[value] = __float2bfloat16(scale * sum.total());
  }
  GDNBENCH_PHASE(update_and_store);
}
