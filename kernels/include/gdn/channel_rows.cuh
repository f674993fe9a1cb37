// A step of Kimi Delta Attention over one token or several, where waiting counts: some warps load rows of the state as
// soon as they know the slot, and keep them in registers; others find what all rows need (channel_tokens.cuh). From
// then on each row is a few lanes' own: its products with all keys and queries in one pass, one sum over lanes for all
// of them, and a number for each token that goes around.
#pragma once
#include <gdn/channel_tokens.cuh>

namespace kda {

// In shared memory. Vectors of S are keys and queries in turns, times D(i, -1).
template <int Tokens, bool IsKept>
struct PlainVectors : Updates<Tokens, false, IsKept> {
  alignas(16) float of_state[2 * Tokens][GDN_K];

  template <int Count>
  __device__ __forceinline__ void set_of_state(int vector, unsigned column, const float (&x)[Count]) {
    store(&of_state[vector][column], x);
  }
};

// Over some tokens at once, of which the last state is kept in registers, or none.
template <int Tokens, bool IsKept, int Lanes, int RowsALane, int RowWarps, int Channels>
struct RowStep {
  static constexpr int FINDERS = GDN_K / Channels;  // threads
  static constexpr int THREADS = FINDERS + RowWarps * gdn::WARP;
  static constexpr int GROUPS = RowWarps * gdn::WARP / Lanes;
  static constexpr int BLOCK_ROWS = GROUPS * RowsALane;
  static constexpr int QUADS = GDN_K / 4 / Lanes;  // of a row that a lane holds
  static constexpr int COUNT = power_of_two(2 * Tokens);
  static constexpr int SHARERS = Lanes / COUNT;  // lanes that have one token's key or query
  using Head = HeadTokens<Tokens, FINDERS, false>;
  static_assert(GDN_V % BLOCK_ROWS == 0, "a block works on one head, and no row is left over");
  static_assert(COUNT <= Lanes && GDN_K % (Lanes * gdn::PACK) == 0, "lanes hold equal parts of a row, and products");

  struct Shared {
    alignas(16) PlainVectors<Tokens, IsKept> vectors;
    typename Head::Sums sums;
    Factors<Tokens> factors;
  };

  // Of finders alone.
  static __device__ __forceinline__ void join_finders() {
    asm volatile("bar.sync 1, %0;" ::"n"(FINDERS) : "memory");
  }

  using Row = float4[QUADS];  // a lane's part of one
  using Values = __nv_bfloat16[RowsALane];

  static __device__ __forceinline__ unsigned own_lane() { return threadIdx.x % Lanes; }
  static __device__ __forceinline__ unsigned own_row(int i) {
    return i * GROUPS + (threadIdx.x - FINDERS) / Lanes;
  }
  static __device__ __forceinline__ unsigned own_vector() { return own_lane() / SHARERS; }  // whose sum a lane gets
  static __device__ __forceinline__ unsigned own_token() { return min(own_vector() / 2, Tokens - 1u); }

  static __device__ __forceinline__ void load_values(const __nv_bfloat16* from, Values& values) {
#pragma unroll
    for (int i = 0; i < RowsALane; ++i) values[i] = from[own_token() * MIXED + own_row(i)];
  }

  static __device__ __forceinline__ void load_rows(const gdn::State* from, gdn::RowBits<QUADS> (&bits)[RowsALane]) {
#pragma unroll
    for (int i = 0; i < RowsALane; ++i) bits[i] = gdn::load_row<Lanes, QUADS>(from + own_row(i) * GDN_K, own_lane());
  }

  static __device__ __forceinline__ void store_rows(gdn::State* to, const Row (&rows)[RowsALane]) {
#pragma unroll
    for (int i = 0; i < RowsALane; ++i)
#pragma unroll
      for (int quad = 0; quad < QUADS; quad += gdn::PACK_QUADS) {
        float4 part[gdn::PACK_QUADS];
#pragma unroll
        for (unsigned own = 0; own < gdn::PACK_QUADS; ++own) part[own] = rows[i][quad + own];
        store_state(to + own_row(i) * GDN_K + gdn::column<Lanes>(own_lane(), quad), part);
      }
  }

  static __device__ __forceinline__ float4 quad_of(const float (&vector)[GDN_K], int quad) {
    return *reinterpret_cast<const float4*>(&vector[gdn::column<Lanes>(own_lane(), quad)]);
  }

  // What a lane needs of vectors and factors, behind the barrier at which they are there.
  float4 vectors[2 * Tokens][QUADS];
  float of_state, of_value, of_written[Tokens];  // in w of the lane's token, or in its output

  __device__ __forceinline__ void load(const Shared& shared) {
    const Factors<Tokens>& factors = shared.factors;
    const bool is_query = own_vector() % 2;
    const unsigned token = own_token();
#pragma unroll
    for (int v = 0; v < 2 * Tokens; ++v)
#pragma unroll
      for (int i = 0; i < QUADS; ++i) vectors[v][i] = quad_of(shared.vectors.of_state[v], i);
    of_state = is_query ? factors.output_state[token] : -factors.written_state[token];
    of_value = is_query ? 0.f : factors.written_value[token];
#pragma unroll
    for (unsigned j = 0; j < Tokens; ++j) {
      const float in_written = j < token ? -factors.written_written[pair(token, j)] : 0.f;
      const float in_output = j <= token ? factors.output_written[pair(token, j)] : 0.f;
      of_written[j] = is_query ? in_output : in_written;
    }
  }

  // Outputs of the tokens, and rows after the last one.
  __device__ __forceinline__ void take(const Shared& shared, const Values& values, Row (&rows)[RowsALane],
                                       __nv_bfloat16* outputs) const {
    float numbers[RowsALane];  // w of the lane's token, or its output
#pragma unroll
    for (int row = 0; row < RowsALane; ++row) {
      float products[COUNT] = {};
#pragma unroll
      for (int v = 0; v < 2 * Tokens; ++v) products[v] = gdn::dot_of_quads(rows[row], vectors[v]);
      const float product = own_sum<COUNT, Lanes>(products, own_lane());
      numbers[row] = fmaf(of_state, product, of_value * __bfloat162float(values[row]));
    }
    if constexpr (IsKept) {
#pragma unroll
      for (int row = 0; row < RowsALane; ++row)
#pragma unroll
        for (int i = 0; i < QUADS; ++i) rows[row][i] = product(quad_of(shared.vectors.kept[0], i), rows[row][i]);
    }
#pragma unroll
    for (int j = 0; j < Tokens; ++j)
#pragma unroll
      for (int row = 0; row < RowsALane; ++row) {
        const float w = __shfl_sync(gdn::ALL_LANES, numbers[row], 2 * j * SHARERS, Lanes);  // complete
        numbers[row] = fmaf(of_written[j], w, numbers[row]);
        if constexpr (IsKept) {
#pragma unroll
          for (int i = 0; i < QUADS; ++i)
            rows[row][i] = gdn::add_scaled(rows[row][i], w, quad_of(shared.vectors.written[j], i));
        }
      }
    if (own_vector() % 2 == 1 && own_lane() % SHARERS == 0 && own_vector() < 2 * Tokens) {
#pragma unroll
      for (int row = 0; row < RowsALane; ++row)
        outputs[own_token() * OUTPUT_STRIDE + own_row(row)] = __float2bfloat16(numbers[row]);
    }
  }

  // Of what is no sequence.
  static __device__ __forceinline__ void clear_outputs(__nv_bfloat16* outputs) {
#pragma unroll 1
    for (unsigned i = own_lane(); i < Tokens * RowsALane; i += Lanes)
      outputs[i / RowsALane * OUTPUT_STRIDE + own_row(i % RowsALane)] = __float2bfloat16(0.f);
  }
};

// Where each state is kept, rows go from token to token, for the first is to be stored soon; else the first state meets
// all tokens at once.
template <int Tokens, int Kept, bool IsInPlace, int RowsABlock, int Warps, int Channels>
struct RowSteps {
  static constexpr int STEPS = Kept > 1 ? Tokens : 1, TOKENS_A_STEP = Tokens / STEPS;
  static constexpr int LANES = GDN_K / gdn::PACK < 16 ? GDN_K / gdn::PACK : 16;
  static constexpr int ROWS_A_LANE = RowsABlock * LANES / (Warps * gdn::WARP);
  using Step = RowStep<TOKENS_A_STEP, (Kept > 0), LANES, ROWS_A_LANE, Warps, Channels>;
  using Shared = typename Step::Shared[STEPS];
  static constexpr int THREADS = Step::THREADS, LEAST_BLOCKS = 1;  // on an SM
  static_assert(Step::BLOCK_ROWS == RowsABlock, "lanes have as many rows as the others");

  static __device__ __forceinline__ void find(Shared& shared, const Block& block) {
    __builtin_assume(threadIdx.x < Step::FINDERS);
    using Head = typename Step::Head;
    Head tokens[STEPS];
    const auto finder = [](int step) { return step * gdn::WARP % Step::FINDERS; };  // of its factors
#pragma unroll
    for (int t = 0; t < STEPS; ++t) tokens[t].load(block, t, finder(t));
    memory_first<1>(block.batches);
    float write[STEPS];
#pragma unroll
    for (int t = 0; t < STEPS; ++t) {
      typename Head::Products products = {};
      tokens[t].multiply(block.lower_bound, shared[t].vectors, products);
      Head::sum(products, shared[t].sums), write[t] = tokens[t].own_write(block.beta_limit);
    }
    Step::join_finders();
#pragma unroll
    for (int t = 0; t < STEPS; ++t)
      Head::find_factors(shared[t].sums, block.scale, write[t], shared[t].factors, finder(t));
  }

  static __device__ __forceinline__ void take(Shared& shared, const Block& block) {
    const unsigned warp = __shfl_sync(gdn::ALL_LANES, threadIdx.x / gdn::WARP, 0);  // known to part no warp
    const bool is_finder = warp < Step::FINDERS / gdn::WARP;
    int place = 0;
    gdn::RowBits<Step::QUADS> bits[ROWS_A_LANE];
    typename Step::Values values[STEPS];
    if (is_finder) {
      find(shared, block);
    } else {
      place = *block.slot;
      Step::load_rows(block.pool + max(place, 0) * SLOT_STRIDE, bits);  // padding reads that of slot 0
#pragma unroll
      for (int t = 0; t < STEPS; ++t) Step::load_values(block.values + t * MIXED, values[t]);
      memory_first<2>(block.batches);
    }
    __syncthreads();  // at one place for all, as compute-sanitizer asks
    if (is_finder) return;
    if (place <= 0) return clear(block);
    gdn::State* const kept = block.kept + (IsInPlace ? place * SLOT_STRIDE : 0);
    typename Step::Row rows[ROWS_A_LANE];
#pragma unroll
    for (int t = 0; t < STEPS; ++t) {
      Step step;
      step.load(shared[t]);
      if (t == 0) {
        memory_first<3>(block.batches);  // else ptxas puts some of it off until the state has come
#pragma unroll
        for (int row = 0; row < ROWS_A_LANE; ++row) gdn::widen(bits[row], rows[row]);
      }
      step.take(shared[t], values[t], rows, block.outputs + t * OUTPUT_STRIDE);
      if (Kept > 0) Step::store_rows(kept + t * SLOT_STRIDE, rows);
    }
  }

  static __device__ __forceinline__ void clear(const Block& block) {
    const typename Step::Row none[ROWS_A_LANE] = {};
#pragma unroll 1
    for (int t = 0; t < (IsInPlace ? 0 : Kept); ++t) Step::store_rows(block.kept + t * SLOT_STRIDE, none);
#pragma unroll 1
    for (int t = 0; t < STEPS; ++t) Step::clear_outputs(block.outputs + t * OUTPUT_STRIDE);
  }
};

}  // namespace kda
