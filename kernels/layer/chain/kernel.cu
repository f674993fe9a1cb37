// Three launches, as models have them: what prologue-v1, decode-pool-v1 and epilogue-v1 do, with bf16 between them.
#include "layer.cuh"

namespace {

constexpr int LARGER = GDN_K > GDN_V ? GDN_K : GDN_V;
constexpr int HEAD_QUADS = (LARGER + 4 * gdn::WARP - 1) / (4 * gdn::WARP);  // times four channels of a lane
constexpr int ROW_QUADS = (GDN_V + 4 * gdn::WARP - 1) / (4 * gdn::WARP);    // times four outputs of a lane
constexpr int LANES = 8;                                                    // that share a row of the state
constexpr int QUADS = GDN_K / 4 / LANES;                                    // float4s of a row that a lane holds
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (4 * LANES) == 0, "the lanes of a row hold equal parts of it");

}  // namespace

// As prologue-v1: a warp a head of queries, keys or values, four channels a lane.
extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_layer_prologue(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ conv_weight,
                       const int* __restrict__ slot, const __nv_bfloat16* __restrict__ a,
                       const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                       const float* __restrict__ dt_bias, __nv_bfloat16* new_conv_pool, __nv_bfloat16* __restrict__ q,
                       __nv_bfloat16* __restrict__ k, __nv_bfloat16* __restrict__ v, float* __restrict__ g,
                       float* __restrict__ beta) {
  const unsigned sequence = blockIdx.y, lane = threadIdx.x % gdn::WARP;
  const unsigned head = blockIdx.x * WARPS + threadIdx.x / gdn::WARP;
  if (head >= gdn::HEADS) return;
  const bool is_value = head >= 2 * GDN_HQ;
  const unsigned value_head = head - 2 * GDN_HQ;
  const unsigned size = is_value ? GDN_V : GDN_K;
  const unsigned first = is_value ? 2 * gdn::QUERIES + value_head * GDN_V : head * GDN_K;
  const int place = slot[sequence];

  gdn::Channels channels[HEAD_QUADS];
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i) {
    const unsigned channel = first + 4 * (lane + i * gdn::WARP);
    if (channel < first + size)
      channels[i].load_new(x + static_cast<size_t>(sequence) * gdn::MIXED + channel,
                           conv_weight + static_cast<size_t>(channel) * 4);
  }
  const bool has_gates = is_value && lane == 0;
  const size_t gate = static_cast<size_t>(sequence) * GDN_HV + (is_value ? value_head : 0);
  float A = 0.f, bias = 0.f, a_head = 0.f, b_head = 0.f;
  if (has_gates) {
    A = A_log[value_head], bias = dt_bias[value_head];
    a_head = __bfloat162float(a[gate]), b_head = __bfloat162float(b[gate]);
  }
  __nv_bfloat16* const inputs =
      new_conv_pool + (static_cast<size_t>(place > 0 ? place : 0) * gdn::MIXED + first) * 3;

  float4 y[HEAD_QUADS];
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    y[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (4 * quad >= size || place <= 0) continue;
    channels[i].load_before(inputs + quad * 12);
    y[i] = channels[i].convolved();
    squares += fmaf(y[i].x, y[i].x, y[i].y * y[i].y) + fmaf(y[i].z, y[i].z, y[i].w * y[i].w);
  }
  // Of values the factor is 1; the sum is taken by all lanes alike.
  const float norm = rsqrtf(gdn::group_sum<gdn::WARP>(squares) + gdn::EPS);
  const float factor = is_value ? 1.f : norm;

  __nv_bfloat16* const rows = is_value         ? v + gate * GDN_V
                              : head < GDN_HQ ? q + (static_cast<size_t>(sequence) * GDN_HQ + head) * GDN_K
                                              : k + (static_cast<size_t>(sequence) * GDN_HQ + head - GDN_HQ) * GDN_K;
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    if (4 * quad >= size) continue;
    reinterpret_cast<uint2*>(rows)[quad] = make_uint2(gdn::pack(factor * y[i].x, factor * y[i].y),
                                                      gdn::pack(factor * y[i].z, factor * y[i].w));
    if (place > 0) channels[i].store_shifted(inputs + quad * 12);
  }
  if (has_gates) {
    const gdn::Gates gates = gdn::gates(A, bias, a_head, b_head);
    g[gate] = place > 0 ? gates.decay : 0.f;
    beta[gate] = place > 0 ? gates.write : 0.f;
  }
}

// The recurrence, as decode-pool-v1: a row of the state in a few lanes' registers. Queries and keys come normalised.
extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_layer_recurrence(const int* __restrict__ slot, const float scale, const __nv_bfloat16* __restrict__ q,
                         const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v,
                         const float* __restrict__ g, const float* __restrict__ beta, float* new_pool,
                         __nv_bfloat16* __restrict__ o) {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  const int place = slot[sequence];
  const unsigned lane = threadIdx.x % LANES;  // its quads lie LANES quads apart
  const unsigned row = blockIdx.x % BLOCKS_A_HEAD * BLOCK_ROWS + threadIdx.x / LANES;
  const size_t key = (static_cast<size_t>(sequence) * GDN_HQ + head / gdn::SHARING) * GDN_K;
  const size_t value = static_cast<size_t>(head_of_batch) * GDN_V + row;

  uint2 k_bits[QUADS], q_bits[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k_bits[i] = reinterpret_cast<const uint2*>(k + key)[lane + i * LANES];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) q_bits[i] = reinterpret_cast<const uint2*>(q + key)[lane + i * LANES];
  const float decay = g[head_of_batch], write = beta[head_of_batch], v_row = __bfloat162float(v[value]);
  if (place <= 0) {  // no sequence: the same for all threads of the block
    if (lane == 0) o[value] = __float2bfloat16(0.f);
    return;
  }
  float4* const state = reinterpret_cast<float4*>(new_pool + (static_cast<size_t>(place) * GDN_HV + head) * gdn::STATE +
                                                  static_cast<size_t>(row) * GDN_K);
  float4 s[QUADS], k4[QUADS], q4[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) s[i] = state[lane + i * LANES];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) k4[i] = gdn::widen(k_bits[i]), q4[i] = gdn::widen(q_bits[i]);
  const float qk = gdn::group_sum<LANES>(gdn::dot_of_quads(q4, k4));
  const float sk = gdn::group_sum<LANES>(gdn::dot_of_quads(s, k4));
  const float sq = gdn::group_sum<LANES>(gdn::dot_of_quads(s, q4));
  const float delta = write * fmaf(-decay, sk, v_row);
#pragma unroll
  for (int i = 0; i < QUADS; ++i) state[lane + i * LANES] = gdn::decayed_plus(decay, s[i], delta, k4[i]);
  if (lane == 0) o[value] = __float2bfloat16(scale * fmaf(decay, sq, delta * qk));
}

// As epilogue-v1: a warp a head, four outputs a lane.
extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_layer_epilogue(const __nv_bfloat16* __restrict__ o, const __nv_bfloat16* __restrict__ z,
                       const __nv_bfloat16* __restrict__ weight, __nv_bfloat16* __restrict__ y, const int batches) {
  const unsigned row = blockIdx.x * WARPS + threadIdx.x / gdn::WARP, lane = threadIdx.x % gdn::WARP;
  if (row >= static_cast<unsigned>(batches) * GDN_HV) return;
  const size_t first = static_cast<size_t>(row) * GDN_V;
  uint2 o_bits[ROW_QUADS], z_bits[ROW_QUADS], w_bits[ROW_QUADS];
#pragma unroll
  for (int i = 0; i < ROW_QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    o_bits[i] = z_bits[i] = w_bits[i] = make_uint2(0, 0);
    if (4 * quad >= GDN_V) continue;
    o_bits[i] = reinterpret_cast<const uint2*>(o + first)[quad];
    z_bits[i] = reinterpret_cast<const uint2*>(z + first)[quad];
    w_bits[i] = reinterpret_cast<const uint2*>(weight)[quad];
  }
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < ROW_QUADS; ++i) {
    const float4 o4 = gdn::widen(o_bits[i]);
    squares += fmaf(o4.x, o4.x, o4.y * o4.y) + fmaf(o4.z, o4.z, o4.w * o4.w);
  }
  squares = gdn::group_sum<gdn::WARP>(squares);
  const float inverse = rsqrtf(squares * (1.f / GDN_V) + gdn::EPS);
#pragma unroll
  for (int i = 0; i < ROW_QUADS; ++i) {
    const unsigned quad = lane + i * gdn::WARP;
    if (4 * quad >= GDN_V) continue;
    const float4 o4 = gdn::widen(o_bits[i]), z4 = gdn::widen(z_bits[i]), w4 = gdn::widen(w_bits[i]);
    reinterpret_cast<uint2*>(y + first)[quad] =
        make_uint2(gdn::pack(o4.x * inverse * w4.x * gdn::silu(z4.x), o4.y * inverse * w4.y * gdn::silu(z4.y)),
                   gdn::pack(o4.z * inverse * w4.z * gdn::silu(z4.z), o4.w * inverse * w4.w * gdn::silu(z4.w)));
  }
}
