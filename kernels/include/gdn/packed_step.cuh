// A step over the tokens of each sequence, with tensors packed as the layer before leaves them, whatever the slots that
// states come from and go to: verify-v1's arithmetic. A row of the state stays in a few lanes' registers while they
// walk over the tokens. From one token to the next there is one sum over lanes, since S k and S q are taken of the
// state before the token's own update.
//
// MOST_LANES and WARPS are the kernel's params.
#pragma once
#include <cuda_bf16.h>
#include <gdn/math.cuh>
#include <gdn/quads.cuh>
#include <gdn/state_rows.cuh>

namespace gdn {

constexpr unsigned QUERIES = GDN_HQ * GDN_K;              // elements; keys are as many
constexpr unsigned MIXED = 2 * QUERIES + GDN_HV * GDN_V;  // of a token's queries, keys and values
constexpr float EPS = 1e-6f;                              // below the root of a norm
static_assert(GDN_K % 8 == 0 && GDN_V % 8 == 0, "rows begin where a load of 16 bytes may");

constexpr int LANES = GDN_K % (PACK * MOST_LANES) == 0 ? MOST_LANES : MOST_LANES / 2;  // that share a row
constexpr int QUADS = GDN_K / 4 / LANES;  // of a row that a lane holds, in float4s
constexpr int BLOCK_ROWS = WARPS * WARP / LANES;
constexpr int BLOCKS_A_HEAD = GDN_V / BLOCK_ROWS;
static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
static_assert(GDN_K % (PACK * LANES) == 0, "the lanes of a row hold equal parts of it");

using OwnPart = float4[QUADS];  // of a row of the state, or of a key or query

// What a step reads, of all sequences.
struct StepInputs {
  const __nv_bfloat16 *mixed_qkv, *a, *b;
  const float *A_log, *dt_bias;
  float scale, beta_limit;
  int batches;
};

// The row of a head's state that a thread has a part of.
struct OwnRow {
  unsigned sequence, head, row, lane;

  // Where it begins in the states of a pool, for a slot's number; offsets of 64 bits, as pools are large.
  __device__ __forceinline__ size_t in_slot(int place) const {
    return (static_cast<size_t>(place) * GDN_HV + head) * HEAD + row * GDN_K;
  }
};

__device__ __forceinline__ OwnRow own_row() {
  const unsigned head_of_batch = blockIdx.x / BLOCKS_A_HEAD;
  return {head_of_batch / GDN_HV, head_of_batch % GDN_HV,
          blockIdx.x % BLOCKS_A_HEAD * BLOCK_ROWS + threadIdx.x / LANES, threadIdx.x % LANES};
}

struct Gates {
  float decay;  // g = exp(-rate)
  float write;  // beta = beta_limit * sigmoid(b)
  float rate;   // exp(A_log) * softplus(a + dt_bias)
};

// What a token writes: delta k^T, with a key that is not normalised, of which this is the norm's reciprocal.
struct Written {
  float delta, k_norm, rate;
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, and full relative precision where softplus is tiny.
__device__ __forceinline__ Gates gates(float A_log, float dt_bias, float a, float b, float beta_limit) {
  constexpr float LOG2_E = 1.442695041f;
  const float x = a + dt_bias;
  const float softplus = fmaxf(x, 0.f) + log1pf(exp2_mufu(-LOG2_E * fabsf(x)));
  const float rate = exp2_mufu(LOG2_E * A_log) * softplus;
  return {exp2_mufu(-LOG2_E * rate), beta_limit * reciprocal_mufu(1.f + exp2_mufu(-LOG2_E * b)), rate};
}

// A branch that is never taken, for the batch size is not 0. Past it ptxas moves no load, which it else does to save
// registers, down to where the load is used, so that two trips to memory take place one after the other.
__device__ __forceinline__ void loads_first(int batches) {
  asm volatile("{ .reg .pred never; setp.eq.s32 never, %0, 0; @never trap; }" ::"r"(batches) : "memory");
}

// By the lanes of a row: its outputs, and its state after each token.
//
// `find_first` gives where the row of the state before the first token lies, null for padding, whose outputs are zero;
// it is called once all else is asked for. `begin(t, s)` may replace the state before token t;
// `keep(t, s, written)` takes the state after it. `output` is [B, Tokens, HV, V].
template <int Tokens, class FindFirst, class Begin, class Keep>
__device__ __forceinline__ void take_step(const StepInputs& in, const OwnRow& at, __nv_bfloat16* output,
                                          FindFirst find_first, Begin begin, Keep keep) {
  const unsigned key = at.head / (GDN_HV / GDN_HQ) * GDN_K;
  const size_t token = static_cast<size_t>(at.sequence) * Tokens;  // the first of the sequence
  uint2 k_bits[Tokens][QUADS], q_bits[Tokens][QUADS];
  __nv_bfloat16 v_row[Tokens], a_head[Tokens], b_head[Tokens];
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    const __nv_bfloat16* const own = in.mixed_qkv + (token + t) * MIXED;
    load_key<LANES>(own + QUERIES + key, at.lane, k_bits[t]);
    load_key<LANES>(own + key, at.lane, q_bits[t]);
    v_row[t] = own[2 * QUERIES + at.head * GDN_V + at.row];
    a_head[t] = in.a[(token + t) * GDN_HV + at.head];
    b_head[t] = in.b[(token + t) * GDN_HV + at.head];
  }
  const float A = in.A_log[at.head], bias = in.dt_bias[at.head];
  loads_first(in.batches);

  __nv_bfloat16* const output_row = output + (token * GDN_HV + at.head) * GDN_V + at.row;
  constexpr size_t OUTPUT_STRIDE = GDN_HV * GDN_V;
  const State* const first = find_first();
  if (first == nullptr) {  // the same for all threads of the block
    if (at.lane == 0)
#pragma unroll
      for (int t = 0; t < Tokens; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(0.f);
    return;
  }
  const RowBits<QUADS> bits = load_row<LANES, QUADS>(first, at.lane);
  loads_first(in.batches);

  float k_norm[Tokens], q_norm[Tokens], qk[Tokens];
  Gates gate[Tokens];
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    OwnPart k4, q4;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = widen(k_bits[t][i]), q4[i] = widen(q_bits[t][i]);
    k_norm[t] = rsqrtf(group_sum<LANES>(dot_of_quads(k4, k4)) + EPS);
    q_norm[t] = rsqrtf(group_sum<LANES>(dot_of_quads(q4, q4)) + EPS) * in.scale;
    qk[t] = group_sum<LANES>(dot_of_quads(q4, k4)) * k_norm[t];
    gate[t] = gates(A, bias, __bfloat162float(a_head[t]), __bfloat162float(b_head[t]), in.beta_limit);
  }

  OwnPart s;
  float result[Tokens];
  widen(bits, s);
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    OwnPart k4, q4;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) k4[i] = widen(k_bits[t][i]), q4[i] = widen(q_bits[t][i]);
    begin(t, s);
    const float sk = group_sum<LANES>(dot_of_quads(s, k4)) * k_norm[t];
    const float sq = group_sum<LANES>(dot_of_quads(s, q4));
    const float delta = gate[t].write * fmaf(-gate[t].decay, sk, __bfloat162float(v_row[t]));
    const float written = delta * k_norm[t];
#pragma unroll
    for (int i = 0; i < QUADS; ++i) s[i] = decayed_plus(gate[t].decay, s[i], written, k4[i]);
    keep(t, s, Written{delta, k_norm[t], gate[t].rate});
    result[t] = q_norm[t] * fmaf(gate[t].decay, sq, delta * qk[t]);
  }
  if (at.lane == 0)
#pragma unroll
    for (int t = 0; t < Tokens; ++t) output_row[t * OUTPUT_STRIDE] = __float2bfloat16(result[t]);
}

}  // namespace gdn
