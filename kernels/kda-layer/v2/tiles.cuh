// The form of tiles: a block has a head, and its warps have tasks of their own. Some convolve the head's query and key, a
// few channels a thread, and find the decays: what all rows need. Each of the others has 16 rows of the state, which a bulk
// copy brings; it multiplies them by tensor cores (gdn/channel_products.cuh) as soon as both are there, updates them and
// stores them, whatever the rest of the block does. Sums of squares are all that warps wait for in the end.
#include <gdn/barriers.cuh>
#include <gdn/channel_products.cuh>

#include "../kda_layer.cuh"

namespace kda {

constexpr int CHANNELS = 2;  // of a finder
constexpr int FINDERS = GDN_K / CHANNELS, FINDER_WARPS = FINDERS / gdn::WARP;
constexpr int ROW_WARPS = GDN_V / TILE_ROWS, THREADS = FINDERS + ROW_WARPS * gdn::WARP;
static_assert(FINDER_WARPS * gdn::WARP == FINDERS && ROW_WARPS * TILE_ROWS == GDN_V, "warps are whole");

// A head's query: in the token's inputs, in the weights and in slot 0 of the last inputs. The key lies QUERIES behind it,
// and the value twice as far.
struct Inputs {
  const __nv_bfloat16* now;
  const float* weights;
  __nv_bfloat16* before;

  __device__ __forceinline__ __nv_bfloat16* of_slot(int place) const {
    return before + static_cast<size_t>(place) * KEPT_INPUTS * MIXED;
  }
};

// Numbers that lie side by side, with one load.
template <class Number, int Count>
__device__ __forceinline__ void load(Number (&to)[Count], const Number* from) {
  struct alignas(Count * sizeof(Number)) All {
    Number numbers[Count];
  };
  const All all = *reinterpret_cast<const All*>(from);
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = all.numbers[i];
}

// One bf16, or two, as they lie in memory, for of numbers that are apart the compiler takes the load apart at once.
template <int Count>
struct Bits;
template <>
struct Bits<1> {
  using Type = unsigned short;
  static __device__ __forceinline__ float number(Type bits, int) { return __uint_as_float(unsigned(bits) << 16); }
};
template <>
struct Bits<2> {
  using Type = unsigned;
  static __device__ __forceinline__ float number(Type bits, int i) {
    return __uint_as_float(i == 0 ? bits << 16 : bits & 0xffff0000u);
  }
};

// A thread's channels, which follow each other: their inputs, and the weights of their taps, the oldest first. Of kinds
// the query is 0, the key 1 and the value 2.
template <int Count>
struct Taps {
  using InputBits = typename Bits<Count>::Type;
  InputBits inputs[TAPS];
  float weights[TAPS][Count];

  // What does not wait for the slot.
  __device__ __forceinline__ void load_new(const Inputs& from, unsigned kind, unsigned column) {
    inputs[KEPT_INPUTS] = *reinterpret_cast<const InputBits*>(from.now + kind * QUERIES + column);
#pragma unroll
    for (int i = 0; i < TAPS; ++i) load(weights[i], from.weights + (kind * TAPS + i) * QUERIES + column);
  }

  __device__ __forceinline__ void load_before(const __nv_bfloat16* slot, unsigned kind, unsigned column) {
#pragma unroll
    for (int i = 0; i < KEPT_INPUTS; ++i)
      inputs[i] = *reinterpret_cast<const InputBits*>(slot + i * MIXED + kind * QUERIES + column);
  }

  // The newest input comes in, the oldest goes.
  __device__ __forceinline__ void store_shifted(__nv_bfloat16* slot, unsigned kind, unsigned column) const {
#pragma unroll
    for (int i = 0; i < KEPT_INPUTS; ++i)
      *reinterpret_cast<InputBits*>(slot + i * MIXED + kind * QUERIES + column) = inputs[i + 1];
  }

  // SiLU of the sums of taps. `zero` is what they begin with: they wait for what it is computed of.
  __device__ __forceinline__ void convolve(float (&to)[Count], float zero = 0.f) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      float sum = zero;
#pragma unroll
      for (int tap = TAPS - 1; tap >= 0; --tap)  // the newest, which did not wait for the slot, first
        sum = fmaf(weights[tap][i], Bits<Count>::number(inputs[tap], i), sum);
      to[i] = sum * sigmoid(sum);
    }
  }
};

// In shared memory.
struct Shared {
  static constexpr int SUMS = 4;  // of k k, q k and q q; a power of two
  alignas(128) gdn::State tiles[ROW_WARPS][TILE_ROWS][GDN_K];
  alignas(16) PartVectors<1, false, true> vectors;
  alignas(16) float sums[FINDER_WARPS][SUMS];
  float written[ROW_WARPS][TILE_ROWS], outputs[ROW_WARPS][TILE_ROWS], squares[ROW_WARPS];
  alignas(8) gdn::Barrier arrived[ROW_WARPS];
};

// A thread that finds what all rows of a head need, of its channels.
struct Finder {
  Taps<CHANNELS> query, key;
  __nv_bfloat16 gates[CHANNELS];
  float bias[CHANNELS], A;

  static __device__ __forceinline__ unsigned column() { return threadIdx.x * CHANNELS; }

  __device__ __forceinline__ void load_new(const Inputs& inputs, const __nv_bfloat16* gates_of_head,
                                           const float* bias_of_head, const float* A_log) {
    query.load_new(inputs, 0, column()), key.load_new(inputs, 1, column());
    load(gates, gates_of_head + column()), load(bias, bias_of_head + column());
    A = *A_log;
  }

  __device__ __forceinline__ void load_before(const __nv_bfloat16* slot) {
    query.load_before(slot, 0, column()), key.load_before(slot, 1, column());
  }

  __device__ __forceinline__ void store_shifted(__nv_bfloat16* slot) const {
    query.store_shifted(slot, 0, column()), key.store_shifted(slot, 1, column());
  }

  __device__ __forceinline__ void find(float lower_bound, Shared& shared) const {
    const float rate = gdn::exp2_mufu(LOG2_E * A);
    float d[CHANNELS], q[CHANNELS], k[CHANNELS], all = 0.f, sums[Shared::SUMS] = {};
#pragma unroll
    for (int i = 0; i < CHANNELS; ++i)
      all += d[i] = decay(__bfloat162float(gates[i]) + bias[i], rate, lower_bound);
    const float zero = fminf(all, 0.f);  // for decays are computed while the last inputs come
    query.convolve(q, zero), key.convolve(k, zero);
    shared.vectors.set_kept(0, column(), d), shared.vectors.set_written(0, column(), k);
#pragma unroll
    for (int i = 0; i < CHANNELS; ++i) {
      sums[0] = fmaf(k[i], k[i], sums[0]), sums[1] = fmaf(q[i], k[i], sums[1]), sums[2] = fmaf(q[i], q[i], sums[2]);
      k[i] *= d[i], q[i] *= d[i];
    }
    shared.vectors.set_of_state(0, column(), k), shared.vectors.set_of_state(1, column(), q);
    constexpr unsigned SHARERS = gdn::WARP / Shared::SUMS;
    const unsigned lane = threadIdx.x % gdn::WARP;
    const float sum = own_sum<Shared::SUMS>(sums, lane);
    if (lane % SHARERS == 0) shared.sums[threadIdx.x / gdn::WARP][lane / SHARERS] = sum;
  }
};

// Factors of a head's rows: w = value * v - state * (S k), and the output is query * (S q) + w * key_query, with S times
// the decays; w times the key is what S gains.
struct RowFactors {
  float value, state, query, key_query;

  __device__ __forceinline__ RowFactors(const Shared& shared, float write, float scale) {
    float3 all = {};  // k k, q k and q q
#pragma unroll
    for (int warp = 0; warp < FINDER_WARPS; ++warp) {
      const float4 own = *reinterpret_cast<const float4*>(shared.sums[warp]);
      all.x += own.x, all.y += own.y, all.z += own.z;
    }
    const float k_norm = rsqrtf(all.x + EPS);
    query = rsqrtf(all.z + EPS) * scale;
    value = write * k_norm, state = value * k_norm, key_query = query * all.y;
  }
};

// What a warp does with its rows of the state.
struct Rows {
  Shared& shared;
  unsigned warp, lane;

  // By one lane, before it knows where from.
  __device__ __forceinline__ void open() const {
    if (lane == 0) gdn::initialise(shared.arrived[warp], 1), gdn::fence_barriers();
  }

  __device__ __forceinline__ void load(const gdn::State* rows) const {
    if (lane > 0) return;
    constexpr unsigned BYTES = TILE_ROWS * GDN_K * sizeof(gdn::State);
    gdn::load_in_bulk(shared.tiles[warp], rows, BYTES, shared.arrived[warp]);
  }

  // Writes w, outputs and the sum of their squares. `v` is the value of row lane % TILE_ROWS.
  __device__ __forceinline__ void multiply(float v, float write, float scale) const {
    const RowFactors factors(shared, write, scale);
    gdn::wait(shared.arrived[warp], 0);
    StateProducts<1> products;
    multiply_state<true, 1>(shared.tiles[warp], shared.vectors, lane, products);
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned row = lane / QUAD * 2 + i;
      const float v_row = __shfl_sync(gdn::ALL_LANES, v, row);
      const float w = fmaf(-factors.state, products[0][i].x, factors.value * v_row);
      const float o = fmaf(w, factors.key_query, factors.query * products[0][i].y);
      if (lane % QUAD == 0) shared.written[warp][row] = w, shared.outputs[warp][row] = o;
      squares = fmaf(o, o, squares);
    }
#pragma unroll
    for (int offset = QUAD; offset < gdn::WARP; offset *= 2)
      squares += __shfl_xor_sync(gdn::ALL_LANES, squares, offset);
    if (lane == 0) shared.squares[warp] = squares;
  }

  __device__ __forceinline__ void update(gdn::State* rows) const {
    constexpr int LANES = GDN_K / gdn::PACK, PASS_ROWS = gdn::WARP / LANES;  // lanes that share a row, and rows at once
    const unsigned column = lane % LANES * gdn::PACK;
    float4 key[gdn::PACK_QUADS], decays[gdn::PACK_QUADS];
#pragma unroll
    for (unsigned i = 0; i < gdn::PACK_QUADS; ++i) {
      key[i] = *reinterpret_cast<const float4*>(&shared.vectors.written[0][column + 4 * i]);
      decays[i] = *reinterpret_cast<const float4*>(&shared.vectors.kept[0][column + 4 * i]);
    }
    __syncwarp();  // of other lanes' w
#pragma unroll 4
    for (int pass = 0; pass < TILE_ROWS / PASS_ROWS; ++pass) {
      const unsigned row = pass * PASS_ROWS + lane / LANES;
      const float w = shared.written[warp][row];
      float4 s[gdn::PACK_QUADS];
      gdn::widen(gdn::load_row<1, gdn::PACK_QUADS>(&shared.tiles[warp][row][column], 0), s);
#pragma unroll
      for (unsigned i = 0; i < gdn::PACK_QUADS; ++i) s[i] = gdn::add_scaled(product(decays[i], s[i]), w, key[i]);
      store_state(rows + row * GDN_K + column, s);
    }
  }
};

}  // namespace kda

extern "C" __global__ void __launch_bounds__(kda::THREADS, 3) kda_layer_v2(KDA_LAYER_ARGUMENTS) {
  extern __shared__ __align__(128) unsigned char memory[];
  kda::Shared& shared = *reinterpret_cast<kda::Shared*>(memory);
  const unsigned head_of_batch = blockIdx.x, sequence = head_of_batch / GDN_H, head = head_of_batch % GDN_H;
  const kda::Inputs inputs{x + static_cast<size_t>(sequence) * kda::MIXED + head * GDN_K, conv_weight + head * GDN_K,
                           new_conv_pool + head * GDN_K};
  const unsigned warp_of_block = __shfl_sync(gdn::ALL_LANES, threadIdx.x / gdn::WARP, 0);  // known to part no warp
  const bool is_finder = warp_of_block < kda::FINDER_WARPS;
  const unsigned lane = threadIdx.x % gdn::WARP, warp = warp_of_block - kda::FINDER_WARPS;
  const unsigned first = warp * kda::TILE_ROWS, row = first + lane % kda::TILE_ROWS;  // whose value is the lane's
  const bool has_row = !is_finder && lane < kda::TILE_ROWS;                           // and not another lane's, too
  const size_t of_head = static_cast<size_t>(head_of_batch) * GDN_V;                  // in outputs
  const kda::Rows rows{shared, warp, lane};

  const int own_slot = slot[sequence + kda::lanes_zero()];  // asked for first, for addresses wait for it
  kda::memory_first<1>(batches);
  const auto place_of = [&] { return __shfl_sync(gdn::ALL_LANES, own_slot, 0); };
  gdn::State* state;
  float v[1] = {}, gate = 0.f, write = 0.f;
  // Each branch has its loads by itself, for of what both choose from, the compiler works some out as soon as it comes.
  if (is_finder) {
    kda::Finder finder;
    finder.load_new(inputs, g + static_cast<size_t>(head_of_batch) * GDN_K, dt_bias + head * GDN_K, A_log + head);
    kda::memory_first<2>(batches);
    const int place = place_of();
    if (place <= 0) return;  // no sequence
    __nv_bfloat16* const before = inputs.of_slot(place);
    finder.load_before(before);
    kda::memory_first<3>(batches);
    finder.find(lower_bound, shared);
    finder.store_shifted(before);
  } else {
    kda::Taps<1> value;
    value.load_new(inputs, 2, row);
    const __nv_bfloat16 z_row = z[of_head + row], b_head = b[head_of_batch];
    const float weight_row = weight[row];
    rows.open();
    kda::memory_first<4>(batches);
    const int place = place_of();
    if (place <= 0) {
      if (has_row) y[of_head + row] = __float2bfloat16(0.f);
      return;
    }
    __nv_bfloat16* const before = inputs.of_slot(place);
    state = new_pool + place * kda::SLOT_STRIDE + head * gdn::HEAD + first * GDN_K;
    value.load_before(before, 2, row);
    rows.load(state);
    kda::memory_first<5>(batches);
    gate = weight_row * kda::sigmoid(__bfloat162float(z_row)), write = kda::sigmoid(__bfloat162float(b_head));
    value.convolve(v);
    __syncwarp();  // other lanes have read what is updated
    if (has_row) value.store_shifted(before, 2, row);
  }
  __syncthreads();
  if (!is_finder) {
    rows.multiply(v[0], write, scale);
    rows.update(state);
  }
  __syncthreads();
  if (!has_row) return;
  float all = 0.f;
#pragma unroll
  for (int i = 0; i < kda::ROW_WARPS; ++i) all += shared.squares[i];
  const float inverse = rsqrtf(all * (1.f / GDN_V) + kda::OUTPUT_EPS);
  y[of_head + row] = __float2bfloat16(shared.outputs[warp][lane] * inverse * gate);
}
