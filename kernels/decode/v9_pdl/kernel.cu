// v9, which may be launched before the launch in front of it has ended (programmatic dependent launch; PTX ISA,
// "griddepcontrol"). The state and the two parameters of a head come from an earlier step and are asked for at once;
// q, k, v and the gates' inputs are what the layers before have computed, and are read after the wait.
// Launched in the ordinary way, both instructions do nothing.
#include "gdn.cuh"

constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");

// The next launch may begin as soon as every block of this one is here: it needs nothing of ours before its own wait.
// Before Hopper no launch begins early.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when the launch before has ended and what it wrote is visible.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_v9_pdl(GDN_DECODE_ARGUMENTS) {
  let_next_begin();
  const unsigned lane = threadIdx.x % LANES;  // its quads lie LANES quads apart
  const unsigned value = blockIdx.x * BLOCK_ROWS + threadIdx.x / LANES;
  const unsigned head_of_batch = blockIdx.x / (GDN_V / BLOCK_ROWS);
  const unsigned head = head_of_batch % GDN_HV;
  const unsigned key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + lane * 4;
  const size_t quad = static_cast<size_t>(value) * (GDN_K / 4) + lane;

  float4 s[QUADS], k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) s[i] = reinterpret_cast<const float4*>(state)[quad + i * LANES];
  const float A = A_log[head], bias = dt_bias[head];
  gdn::loads_first(batches);
  wait_for_previous();

  uint2 k_bits[QUADS], q_bits[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k_bits[i] = gdn::load_bits(k + key + i * LANES * 4);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) q_bits[i] = gdn::load_bits(q + key + i * LANES * 4);
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch], v_row = v[value];
  gdn::loads_first(batches);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::widen(k_bits[i]);
    q4[i] = gdn::widen(q_bits[i]);
  }

  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4));
  const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
  const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  const float delta = gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row));
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    reinterpret_cast<float4*>(new_state)[quad + i * LANES] =
        gdn::add_scaled(gdn::scaled(gate.decay, s[i]), delta, k4[i]);
  if (lane == 0) output[value] = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
}
