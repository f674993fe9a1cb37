// Three launches, as models have them: what prologue-v1, decode-pool-v1 and epilogue-v1 do, with bf16 between them.
#include "layer.cuh"

namespace {

constexpr int HEAD_QUADS = (GDN_K + 4 * gdn::WARP - 1) / (4 * gdn::WARP);  // times four channels of a lane
constexpr unsigned SPAN = 4 * gdn::WARP * HEAD_QUADS;                      // channels of a warp's lanes
constexpr unsigned VALUES = GDN_HV * GDN_V;
constexpr unsigned FIRST_GATES = 2 * GDN_HQ + (VALUES + SPAN - 1) / SPAN;  // the first of a sequence's warps with gates
constexpr unsigned WARPS_A_SEQUENCE = FIRST_GATES + (GDN_HV + gdn::WARP - 1) / gdn::WARP;
constexpr int ROW_QUADS = (GDN_V + 4 * gdn::WARP - 1) / (4 * gdn::WARP);  // times four outputs of a lane
constexpr int LANES = 8;                                                  // that share a row of the state
constexpr int QUADS = GDN_K / 4 / LANES;                                  // float4s of a row that a lane holds
constexpr int BLOCK_ROWS = WARPS * gdn::WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (4 * LANES) == 0, "the lanes of a row hold equal parts of it");

}  // namespace

// As prologue-v1: a warp a query or key head, one for so many channels of values, and one for the gates of 32 heads.
extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS)
    gdn_layer_prologue(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ conv_weight,
                       const int* __restrict__ slot, const __nv_bfloat16* __restrict__ a,
                       const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                       const float* __restrict__ dt_bias, const float beta_limit, __nv_bfloat16* new_conv_pool,
                       __nv_bfloat16* __restrict__ q, __nv_bfloat16* __restrict__ k, __nv_bfloat16* __restrict__ v,
                       float* __restrict__ g, float* __restrict__ beta) {
  __shared__ uint4 shifted[WARPS][gdn::pieces(SPAN)];
  const unsigned lane = threadIdx.x % gdn::WARP, warp = threadIdx.x / gdn::WARP, part = blockIdx.x * WARPS + warp;
  const size_t sequence = blockIdx.y;
  if (part >= WARPS_A_SEQUENCE) return;
  const int place = slot[sequence];
  if (part >= FIRST_GATES) {
    const unsigned head = (part - FIRST_GATES) * gdn::WARP + lane;
    if (head >= GDN_HV) return;
    const size_t gate = sequence * GDN_HV + head;
    const gdn::Gates gates =
        gdn::gates(A_log[head], dt_bias[head], __bfloat162float(a[gate]), __bfloat162float(b[gate]), beta_limit);
    g[gate] = place > 0 ? gates.decay : 0.f;
    beta[gate] = place > 0 ? gates.write : 0.f;
    return;
  }

  const bool is_value = part >= 2 * GDN_HQ;
  const unsigned first_value = (part - 2 * GDN_HQ) * SPAN;
  const unsigned first = is_value ? 2 * gdn::QUERIES + first_value : part * GDN_K;
  const unsigned size = !is_value ? GDN_K : VALUES % SPAN == 0 ? SPAN : min(SPAN, VALUES - first_value);
  const auto is_there = [&](int i) { return 4 * (lane + i * gdn::WARP) < size; };
  gdn::Channels channels[HEAD_QUADS] = {};
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i) {
    const size_t channel = first + 4 * (lane + i * gdn::WARP);
    if (is_there(i)) channels[i].load_new(x + sequence * gdn::MIXED + channel, conv_weight + channel * 4);
  }
  __nv_bfloat16* const row = is_value        ? v + sequence * VALUES + first_value
                             : part < GDN_HQ ? q + sequence * gdn::QUERIES + first
                                             : k + sequence * gdn::QUERIES + first - gdn::QUERIES;
  uint2* const quads = reinterpret_cast<uint2*>(row) + lane;
  if (place <= 0) {  // no sequence
#pragma unroll
    for (int i = 0; i < HEAD_QUADS; ++i)
      if (is_there(i)) quads[i * gdn::WARP] = make_uint2(0, 0);
    return;
  }

  const size_t position = static_cast<unsigned>(place);  // unsigned, for a sign would be waited for before it is needed
  __nv_bfloat16* const inputs = new_conv_pool + (position * gdn::MIXED + first) * 3;
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i)
    if (is_there(i)) channels[i].load_before(inputs + (lane + i * gdn::WARP) * 12);
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i)
    if (is_there(i)) channels[i].store_shifted(reinterpret_cast<uint2*>(shifted[warp]) + (lane + i * gdn::WARP) * 3);
  __syncwarp();
#pragma unroll
  for (unsigned piece = lane; piece < gdn::pieces(SPAN); piece += gdn::WARP)
    if (piece < gdn::pieces(size)) reinterpret_cast<uint4*>(inputs)[piece] = shifted[warp][piece];

  float4 y[HEAD_QUADS];
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i) {
    y[i] = channels[i].convolved();
    squares += fmaf(y[i].x, y[i].x, y[i].y * y[i].y) + fmaf(y[i].z, y[i].z, y[i].w * y[i].w);
  }
  // Of values the factor is 1; the sum is taken by all lanes alike.
  const float norm = rsqrtf(gdn::group_sum<gdn::WARP>(squares) + gdn::EPS);
  const float factor = is_value ? 1.f : norm;
#pragma unroll
  for (int i = 0; i < HEAD_QUADS; ++i)
    if (is_there(i))
      quads[i * gdn::WARP] =
          make_uint2(gdn::pack(factor * y[i].x, factor * y[i].y), gdn::pack(factor * y[i].z, factor * y[i].w));
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
