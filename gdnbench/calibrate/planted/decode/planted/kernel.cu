// The decode step of decode-v9, for eight lanes a row and four warps a block, with a chain of additions between its sums
// and its stores. It is a copy: a calibration compares what it finds with what it found before, and must not change
// when somebody improves v9.
#include "gdn.cuh"

constexpr int LANES = 8;
constexpr int WARPS = 4;
constexpr int QUADS = GDN_K / 4 / LANES;  // float4s of a row that a lane holds
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");

// x after CHAIN additions of 0, each of which waits for the one before. The compiler does not know that it adds 0, and
// may not combine additions of floats.
__device__ __forceinline__ float chained(float x, float zero) {
#pragma unroll 64
  for (int i = 0; i < CHAIN; ++i) x += zero;
  return x;
}

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS) gdn_decode_planted(GDN_DECODE_ARGUMENTS) {
  const unsigned lane = threadIdx.x % LANES;  // its quads lie LANES quads apart
  const unsigned value = blockIdx.x * BLOCK_ROWS + threadIdx.x / LANES;
  const unsigned head_of_batch = blockIdx.x / (GDN_V / BLOCK_ROWS);
  const unsigned head = head_of_batch % GDN_HV;
  const unsigned key = head_of_batch / (GDN_HV / GDN_HQ) * GDN_K + lane * 4;
  const size_t quad = static_cast<size_t>(value) * (GDN_K / 4) + lane;

  uint2 k_bits[QUADS], q_bits[QUADS];
  float4 s[QUADS], k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k_bits[i] = gdn::load_bits(k + key + i * LANES * 4);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) q_bits[i] = gdn::load_bits(q + key + i * LANES * 4);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) s[i] = reinterpret_cast<const float4*>(state)[quad + i * LANES];
  const float A = A_log[head], bias = dt_bias[head];
  const __nv_bfloat16 a_head = a[head_of_batch], b_head = b[head_of_batch], v_row = v[value];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    k4[i] = gdn::widen(k_bits[i]);
    q4[i] = gdn::widen(q_bits[i]);
  }
  float qk = gdn::dot_of_quads(q4, k4);
  gdn::ready(qk);
  gdn::loads_first(batches);

  const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
  const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
  qk = gdn::group_sum<LANES>(qk);
  const gdn::Gates gate = gdn::short_gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head));
  const float zero = __int_as_float(batches >> 31);  // a batch size is not negative
  const float delta = chained(gate.write * fmaf(-gate.decay, sk, __bfloat162float(v_row)), zero);
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
    reinterpret_cast<float4*>(new_state)[quad + i * LANES] =
        gdn::add_scaled(gdn::scaled(gate.decay, s[i]), delta, k4[i]);
  if (lane == 0) output[value] = __float2bfloat16(scale * fmaf(gate.decay, sq, delta * qk));
}
