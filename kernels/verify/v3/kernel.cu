// verify-v2's form for states in bf16, by tensor cores. A warp has some rows of the state in registers and waits for no
// other warp. Keys and queries are used as they are, so that S k and S q of all tokens are a few mmas, whose products
// are exact, and so are the products of keys and queries with each other that the factors need:
//
//   w_i = beta_i (v_i - D(i, -1) S k_i - sum over j < i of D(i, j) (k_i . k_j) w_j)
//   output_i = scale (D(i, -1) S q_i + sum over j <= i of D(i, j) (q_i . k_j) w_j)
//   state after token i = D(i, -1) S + sum over j <= i of D(i, j) w_j k_j^T
//
// where D(i, j) are the decays of tokens j+1 to i multiplied. The last sum is mmas again: w_j, which is fp32, as three
// bf16, each times the same key. Their sums come as pairs of just those columns that the lane has of S.
#include <gdnbench/phases.cuh>

#include "factors.cuh"

GDNBENCH_PHASE_NAMES(prepare, load_state, multiply, store);

namespace {

using gdn::FOURS;
using gdn::from_lane;
using gdn::PAIRS;
using gdn::QUAD;
using gdn::TOKENS;
using gdn::TURNS;

constexpr int A_LANE = ROWS / 8;             // rows that a lane has, which follow each other
constexpr int CHAINS = A_LANE == 1 ? 2 : 1;  // of mmas that a dot product is split into, twice
constexpr int TILES_A_HEAD = GDN_V / ROWS;
constexpr int SHARES = gdn::SPANS % MOST_SHARES == 0 ? MOST_SHARES : 1;  // warps that have the same rows
constexpr int OWN_SPANS = gdn::SPANS / SHARES;                           // of a row, that each of them stores
constexpr int MOST_WARPS = FOURS == 1 && GDN_KEEP == 0 ? 20 : 16;  // on an SM: so many leave them enough registers
static_assert(GDN_V % ROWS == 0, "a warp works on one head, and no row is left over");

// A lane's values or outputs of a token.
template <int>
struct Bits {
  using Type = unsigned;
};
template <>
struct Bits<1> {
  using Type = unsigned short;
};
using Rows = Bits<A_LANE>::Type;

// B of the update, which each lane keeps for itself in shared memory: registers are for the state. For each pair of a
// lane's part of S that is two numbers, each an element of a key, twice: of the key of the lane's first token, and of its
// last token's; and the element is that of the column which mma wants of the lane.
using Keys = uint4[OWN_SPANS * PAIRS / 2][gdn::WARP];

__device__ __forceinline__ void turn_keys(const gdn::Part (&vectors)[FOURS], unsigned lane, Keys& keys) {
  const unsigned source = lane % QUAD * 8 + lane / QUAD / 2, twice = lane / QUAD % 2 == 0 ? 0x1010 : 0x3232;
#pragma unroll
  for (int i = 0; i < OWN_SPANS * PAIRS; i += 2) {
    unsigned found[2][FOURS];
#pragma unroll
    for (int next = 0; next < 2; ++next)
#pragma unroll
      for (int four = 0; four < FOURS; ++four) {
        const unsigned pair = vectors[four][i / PAIRS][i % PAIRS + next];
        found[next][four] = __byte_perm(__shfl_sync(gdn::ALL_LANES, pair, source), 0, twice);
      }
    keys[i / 2][lane] = make_uint4(found[0][0], found[0][FOURS - 1], found[1][0], found[1][FOURS - 1]);
  }
}

// As PTX, for of a plain store in a loop nvcc makes four narrow ones. What is stored, nobody here reads.
__device__ __forceinline__ void store(gdn::State* to, uint4 bits) {
  const size_t place = __cvta_generic_to_global(to);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(place), "r"(bits.x), "r"(bits.y), "r"(bits.z),
               "r"(bits.w));
}

// decay S + the sum over tokens of share w k^T, rounded to bf16 once.
__device__ __forceinline__ void store_state(const gdn::Part (&s)[A_LANE], float decay,
                                            const float (&written)[FOURS][A_LANE], const float (&share)[FOURS],
                                            const Keys& keys, unsigned lane, unsigned first_span, gdn::State* to) {
  gdn::ThreeParts w[FOURS][A_LANE];
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
#pragma unroll
    for (int row = 0; row < A_LANE; ++row) w[four][row] = gdn::three_parts(share[four] * written[four][row]);
  const auto &upper = w[0][0], &lower = w[0][A_LANE - 1];
  const auto &next_upper = w[FOURS - 1][0], &next_lower = w[FOURS - 1][A_LANE - 1];
#pragma unroll
  for (int span = 0; span < OWN_SPANS; ++span) {
    unsigned rounded[2][PAIRS];
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
      const uint4 two = keys[(span * PAIRS + pair) / 2][lane];
      const uint2 key = pair % 2 == 0 ? make_uint2(two.x, two.y) : make_uint2(two.z, two.w);
      gdn::Sum sum = {};
      if constexpr (FOURS == 1) {
        sum = gdn::multiply_add(upper.leading, lower.leading, upper.last, lower.last, key.x, key.y, sum);
      } else {
        sum = gdn::multiply_add(upper.last, lower.last, next_upper.last, next_lower.last, key.x, key.y, sum);
        sum = gdn::multiply_add(upper.leading, lower.leading, next_upper.leading, next_lower.leading, key.x, key.y,
                                sum);
      }
      const float4 before = gdn::widen(make_uint2(s[0][span][pair], s[A_LANE - 1][span][pair]));
      rounded[0][pair] = gdn::pack(fmaf(decay, before.x, sum.x), fmaf(decay, before.y, sum.y));
      rounded[1][pair] = gdn::pack(fmaf(decay, before.z, sum.z), fmaf(decay, before.w, sum.w));
    }
#pragma unroll
    for (int row = 0; row < A_LANE; ++row)
      store(to + row * GDN_K + gdn::span_at(span, first_span),
            make_uint4(rounded[row][0], rounded[row][1], rounded[row][2], rounded[row][3]));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(gdn::WARP * WARPS, MOST_WARPS / WARPS)
    gdn_verify_v3(GDN_VERIFY_ARGUMENTS) {
  GDNBENCH_PHASES_BEGIN();
  __shared__ Keys all_keys[WARPS];
  Keys& keys = all_keys[threadIdx.x / gdn::WARP];
  const unsigned warp = blockIdx.x * WARPS + threadIdx.x / gdn::WARP, tile = warp / SHARES;
  const unsigned head_of_batch = tile / TILES_A_HEAD, first = tile % TILES_A_HEAD * ROWS;
  const unsigned sequence = head_of_batch / GDN_HV, head = head_of_batch % GDN_HV;
  constexpr bool IS_SHORT = GDN_HV * TILES_A_HEAD * SHARES % WARPS != 0;  // may the last block have a warp too many?
  if (IS_SHORT && sequence >= static_cast<unsigned>(batches)) return;
  const int place = slot[sequence];  // asked for first, for the state's address waits for it
  gdn::memory_first<1>(batches);

  // Asked for together: keys and queries, the gates' inputs, and values.
  const unsigned lane = threadIdx.x % gdn::WARP, turn = lane / QUAD, quarter = lane % QUAD;
  const unsigned first_span = warp % SHARES * OWN_SPANS;
  const size_t token = static_cast<size_t>(sequence) * TOKENS;  // the first of the sequence
  const __nv_bfloat16* const packed = mixed_qkv + token * gdn::MIXED;
  const auto is_token = [](unsigned i) { return i < TOKENS ? i : TOKENS - 1; };
  gdn::Part vectors[FOURS];  // in turns key and query of each token
  const unsigned vector = (turn % 2 == 0 ? gdn::QUERIES : 0) + head / (GDN_HV / GDN_HQ) * GDN_K + quarter * 2 * PAIRS;
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
    gdn::load_part(packed + is_token(four * QUAD + turn / 2) * gdn::MIXED + vector, first_span, vectors[four]);
  const unsigned gated = (token + is_token(lane % TURNS)) * GDN_HV + head;
  const __nv_bfloat16 a_head = a[gated], b_head = b[gated];
  const float A = A_log[head], bias = dt_bias[head];
  Rows values[FOURS];
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
    values[four] = *reinterpret_cast<const Rows*>(packed + is_token(four * QUAD + quarter) * gdn::MIXED +
                                                  2 * gdn::QUERIES + head * GDN_V + first + turn * A_LANE);

  // The lane's part of its first row. Its address but for the slot is hidden from the compiler, which else puts it off.
  // Padding reads a state, too, that of slot 0, so that no branch stands before the load.
  const unsigned element = head * gdn::HEAD + (first + turn * A_LANE) * GDN_K + quarter * 2 * PAIRS;
  const gdn::State* state = pool + element;
  asm volatile("" : "+l"(state));
  __builtin_assume(__isGlobal(state));
  gdn::memory_first<2>(batches);
  state += static_cast<size_t>(max(place, 0)) * (GDN_HV * gdn::HEAD);
  gdn::Part s[A_LANE];
#pragma unroll
  for (int row = 0; row < A_LANE; ++row) gdn::load_part(state + row * GDN_K, first_span, s[row]);
  gdn::memory_first<3>(batches);

  constexpr size_t KEPT_STRIDE = GDN_HV * static_cast<size_t>(gdn::HEAD);
  gdn::State* const kept_state = states + static_cast<size_t>(sequence) * gdn::KEPT * KEPT_STRIDE + element;
  __nv_bfloat16* const outputs = output + (token * GDN_HV + head) * GDN_V + first + turn * A_LANE;
  constexpr size_t OUTPUT_STRIDE = GDN_HV * GDN_V;
  if (place <= 0) {  // no sequence: the same for all lanes of the warp
#pragma unroll 1
    for (int i = 0; i < gdn::KEPT * A_LANE * OWN_SPANS; ++i)
      store(kept_state + i / (A_LANE * OWN_SPANS) * KEPT_STRIDE + i / OWN_SPANS % A_LANE * GDN_K +
                gdn::span_at(i % OWN_SPANS, first_span),
            make_uint4(0, 0, 0, 0));
#pragma unroll 1
    for (unsigned t = quarter; t < TOKENS; t += QUAD) *reinterpret_cast<Rows*>(outputs + t * OUTPUT_STRIDE) = 0;
    return;
  }

  gdn::Products products[FOURS];  // before the gates, whose branch no instruction passes
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
#pragma unroll
    for (int other = 0; other <= four; ++other)
      products[four][other] = gdn::dot_products<CHAINS>(vectors[other], vectors[four]);
  const gdn::Gates own_gates = gdn::gates(A, bias, __bfloat162float(a_head), __bfloat162float(b_head), beta_limit);
  turn_keys(vectors, lane, keys);
  const gdn::Factors factors = gdn::find_factors(products, own_gates, scale, quarter);
  gdn::values_first<4>(batches, gdn::bits_of(factors));
  GDNBENCH_PHASE(prepare);
  GDNBENCH_PHASE_USING(load_state, s);

  float written[FOURS][A_LANE], result[FOURS][A_LANE];
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
#pragma unroll
    for (int row = 0; row < A_LANE; ++row) {
      const float2 product = gdn::dot_products<CHAINS>(s[row], vectors[four]);  // S k_i and S q_i
      const unsigned value_bits = row == 0 ? static_cast<unsigned>(values[four]) << 16 : values[four] & 0xffff0000u;
      const float value = factors.written_value[four] * __uint_as_float(value_bits);
      written[four][row] = fmaf(-factors.written_state[four], product.x, value);
      result[four][row] = factors.output_state[four] * product.y;
    }
#pragma unroll
  for (int j = 0; j < TOKENS; ++j)
#pragma unroll
    for (int row = 0; row < A_LANE; ++row) {
      const float w = from_lane<QUAD>(written[j / QUAD][row], j % QUAD);  // of token j, which is complete
#pragma unroll
      for (int four = j / QUAD; four < FOURS; ++four) {
        if (j + 1 < TOKENS) written[four][row] = fmaf(-factors.written_written[four][j], w, written[four][row]);
        result[four][row] = fmaf(factors.output_written[four][j], w, result[four][row]);
      }
    }
#pragma unroll
  for (int four = 0; four < FOURS; ++four)
    if (four * QUAD + quarter < TOKENS && first_span == 0)
      *reinterpret_cast<Rows*>(outputs + (four * QUAD + quarter) * OUTPUT_STRIDE) =
          static_cast<Rows>(gdn::pack(result[four][0], result[four][A_LANE - 1]));
  GDNBENCH_PHASE_USING(multiply, written);

#if GDN_KEEP
  float decay = 1.f, share[FOURS] = {};  // D(t, -1), and D(t, i) of the lane's tokens
#pragma unroll 1
  for (int t = 0; t < TOKENS; ++t) {
    const float decay_of_token = from_lane<TURNS>(own_gates.decay, t);
    decay *= decay_of_token;
#pragma unroll
    for (int four = 0; four < FOURS; ++four)
      share[four] = four * QUAD + quarter == t ? 1.f : share[four] * decay_of_token;
    // Or the compiler widens S before the loop, which takes twice its registers.
#pragma unroll
    for (int i = 0; i < A_LANE * OWN_SPANS * PAIRS; ++i)
      asm volatile("" : "+r"(s[i / PAIRS / OWN_SPANS][i / PAIRS % OWN_SPANS][i % PAIRS]));
    store_state(s, decay, written, share, keys, lane, first_span, kept_state + t * KEPT_STRIDE);
  }
#else
  store_state(s, factors.last_state, written, factors.last_written, keys, lane, first_span, kept_state);
#endif
  GDNBENCH_PHASE(store);
}
