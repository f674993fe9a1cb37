// A step of Kimi Delta Attention over one token or several, where arithmetic counts. One bulk copy brings rows of the
// state, while some warps find what all of them need (channel_tokens.cuh). Warps then multiply 16 rows each by tensor
// cores (channel_products.cuh), and walk over the tokens for w and outputs; and all threads update rows, a few columns
// each, so that decays and keys stay in registers from row to row.
#pragma once
#include <gdn/barriers.cuh>
#include <gdn/channel_products.cuh>

namespace kda {

template <int Tokens, int Kept, bool IsInPlace, int RowsABlock, int Warps, int Channels>
struct TileStep {
  static constexpr bool IS_EACH = Kept > 1;
  static constexpr int THREADS = Warps * gdn::WARP;
  static constexpr int LEAST_BLOCKS = (Tokens > QUAD ? 512 : 1024) / THREADS;  // on an SM: as many as do not spill
  static constexpr int TILES = RowsABlock / TILE_ROWS;
  static constexpr int FOURS = (Tokens + QUAD - 1) / QUAD;
  static constexpr unsigned TILE_BYTES = RowsABlock * GDN_K * sizeof(gdn::State);
  static constexpr int COLUMNS = Tokens == 1 && sizeof(gdn::State) == 2 ? 8 : 4;  // that a lane updates
  static constexpr int LANES = GDN_K / COLUMNS;  // that share a row
  static constexpr int FINDERS = GDN_K / Channels;  // threads
  using Head = HeadTokens<Tokens, FINDERS, IS_EACH>;
  static_assert(RowsABlock % TILE_ROWS == 0 && GDN_V % RowsABlock == 0, "a block works on one head");

  struct Shared {
    alignas(128) gdn::State tile[RowsABlock][GDN_K];
    alignas(16) PartVectors<Tokens, IS_EACH, (Kept > 0)> vectors;
    alignas(16) float written[Kept > 0 ? RowsABlock : 1][Tokens];
    typename Head::Sums sums;
    Factors<Tokens> factors;
    alignas(8) gdn::Barrier arrived;
  };
  static constexpr unsigned LOADER = FINDERS;  // a thread that has no channel, and so waits for the slot alone
  static_assert(FINDERS < THREADS, "there is such a thread");

  using Values = unsigned[(TILES + Warps - 1) / Warps][FOURS];  // of a lane's two rows and its token of each four

  // The lane's token of a four, or the last one.
  static __device__ __forceinline__ int own_token(int four) {
    return min(four * QUAD + static_cast<int>(threadIdx.x % QUAD), Tokens - 1);
  }

  // The first of the lane's two rows in a tile.
  static __device__ __forceinline__ unsigned own_row(int tile) {
    return tile * TILE_ROWS + threadIdx.x % gdn::WARP / QUAD * 2;
  }

  static __device__ __forceinline__ void load_values(const __nv_bfloat16* from, Values& values) {
    int i = 0;
#pragma unroll
    for (int tile = threadIdx.x / gdn::WARP; tile < TILES; tile += Warps, ++i)
#pragma unroll
      for (int four = 0; four < FOURS; ++four)
        values[i][four] = *reinterpret_cast<const unsigned*>(from + own_token(four) * MIXED + own_row(tile));
  }

  // By the loader, before it knows where from.
  static __device__ __forceinline__ void open(Shared& shared) {
    if (threadIdx.x != LOADER) return;
    gdn::initialise(shared.arrived, 1);
    gdn::fence_barriers();
  }

  static __device__ __forceinline__ void load(Shared& shared, const gdn::State* state) {
    gdn::load_in_bulk(shared.tile, state, TILE_BYTES, shared.arrived);
  }

  // Of what is no sequence.
  static __device__ __forceinline__ void clear(const Block& block) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < Tokens * RowsABlock; i += THREADS)
      block.outputs[i / RowsABlock * OUTPUT_STRIDE + i % RowsABlock] = __float2bfloat16(0.f);
#pragma unroll 1
    for (int t = 0; t < (IsInPlace ? 0 : Kept); ++t)
#pragma unroll 1
      for (unsigned i = threadIdx.x; i < TILE_BYTES / 16; i += THREADS)
        reinterpret_cast<uint4*>(block.kept + t * SLOT_STRIDE)[i] = make_uint4(0, 0, 0, 0);
  }

  // w and outputs of a tile's rows.
  static __device__ __forceinline__ void walk(Shared& shared, int tile, const unsigned (&value)[FOURS],
                                              __nv_bfloat16* outputs) {
    StateProducts<Tokens> products;
    const gdn::State(*const rows)[GDN_K] = shared.tile + tile * TILE_ROWS;
    multiply_state<IsInPlace, Tokens>(rows, shared.vectors, threadIdx.x % gdn::WARP, products);
    const Factors<Tokens>& factors = shared.factors;
    float written[FOURS][2], result[FOURS][2];
#pragma unroll
    for (int four = 0; four < FOURS; ++four) {
      const int token = own_token(four);
      const float4 v = gdn::widen(make_uint2(value[four], 0));
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        written[four][row] = fmaf(-factors.written_state[token], products[four][row].x,
                                  factors.written_value[token] * (row == 0 ? v.x : v.y));
        result[four][row] = factors.output_state[token] * products[four][row].y;
      }
    }
#pragma unroll
    for (int j = 0; j < Tokens; ++j) {
      const float w[2] = {__shfl_sync(gdn::ALL_LANES, written[j / QUAD][0], j % QUAD, QUAD),
                          __shfl_sync(gdn::ALL_LANES, written[j / QUAD][1], j % QUAD, QUAD)};  // complete
#pragma unroll
      for (int four = j / QUAD; four < FOURS; ++four) {
        const int token = own_token(four), own = pair(token, j);
        const float in_written = j < token ? factors.written_written[own] : 0.f;
        const float in_output = j <= token ? factors.output_written[own] : 0.f;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          if (j + 1 < Tokens) written[four][row] = fmaf(-in_written, w[row], written[four][row]);
          result[four][row] = fmaf(in_output, w[row], result[four][row]);
        }
      }
    }
    const unsigned first = own_row(tile);
#pragma unroll
    for (int four = 0; four < FOURS; ++four) {
      const int token = four * QUAD + threadIdx.x % QUAD;
      if (token >= Tokens) continue;
      __nv_bfloat16* const own_outputs = outputs + token * OUTPUT_STRIDE + first;
      *reinterpret_cast<unsigned*>(own_outputs) = gdn::pack(result[four][0], result[four][1]);
      if (Kept > 0)
        shared.written[first][token] = written[four][0], shared.written[first + 1][token] = written[four][1];
    }
  }

  // The states that are kept, of so many rows from `first` on, which so many threads share; `kept` is of the first.
  template <int Rows, int Threads>
  static __device__ __forceinline__ void update(const Shared& shared, unsigned first, gdn::State* kept) {
    constexpr int QUADS = COLUMNS / 4, GROUPS = Threads / LANES;
    static_assert(Threads % LANES == 0 && Rows % GROUPS == 0, "no row is left over");
    const unsigned thread = Threads < THREADS ? threadIdx.x % Threads : threadIdx.x, column = thread % LANES * COLUMNS;
    const auto load = [&](const float(&from)[GDN_K], float4(&to)[QUADS]) {
#pragma unroll
      for (int i = 0; i < QUADS; ++i) to[i] = *reinterpret_cast<const float4*>(&from[column + 4 * i]);
    };
    float4 keys[Tokens][QUADS], decays[IS_EACH ? Tokens : 1][QUADS];
#pragma unroll
    for (int t = 0; t < Tokens; ++t) load(shared.vectors.written[t], keys[t]);
#pragma unroll
    for (int t = 0; t < (IS_EACH ? Tokens : 1); ++t) load(shared.vectors.kept[t], decays[t]);
#pragma unroll 4
    for (int pass = 0; pass < Rows / GROUPS; ++pass) {
      const unsigned own = pass * GROUPS + thread / LANES, row = first + own;
      float4 s[QUADS];
      load_columns(&shared.tile[row][column], s);
#pragma unroll
      for (int t = 0; t < Tokens; ++t) {
        const float w = shared.written[row][t];
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
          if (IS_EACH || t == 0) s[i] = product(decays[IS_EACH ? t : 0][i], s[i]);
          s[i] = gdn::add_scaled(s[i], w, keys[t][i]);
        }
        if (IS_EACH || t == Tokens - 1) store(kept + (IS_EACH ? t : 0) * SLOT_STRIDE + own * GDN_K + column, s);
      }
    }
  }

  static __device__ __forceinline__ void load_columns(const gdn::State* from, float4 (&s)[COLUMNS / 4]) {
    if constexpr (COLUMNS * sizeof(gdn::State) == 8)
      s[0] = gdn::widen(*reinterpret_cast<const uint2*>(from));
    else
      gdn::widen(gdn::load_row<1, COLUMNS / 4>(from, 0), s);
  }

  static __device__ __forceinline__ void store(gdn::State* to, const float4 (&s)[COLUMNS / 4]) {
    if constexpr (COLUMNS == gdn::PACK)
      store_state(to, s);
    else
      asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
                   "r"(gdn::pack(s[0].x, s[0].y)), "r"(gdn::pack(s[0].z, s[0].w)));
  }

  static __device__ __forceinline__ void take(Shared& shared, const Block& block) {
    const int own_slot = block.slot[lanes_zero()];  // asked for first, for the state's address waits for it
    memory_first<1>(block.batches);
    Values values;
    load_values(block.values, values);
    Head head;
    head.load(block);
    open(shared);
    memory_first<2>(block.batches);
    const int place = __shfl_sync(gdn::ALL_LANES, own_slot, 0);  // which ptxas does not do before these loads, either
    if (place <= 0) return clear(block);

    if (threadIdx.x == LOADER) load(shared, block.pool + place * SLOT_STRIDE);
    if (threadIdx.x < FINDERS) {
      typename Head::Products products = {};
      head.multiply(block.lower_bound, shared.vectors, products);
      Head::sum(products, shared.sums);
    }
    const float write = head.own_write(block.beta_limit);
    __syncthreads();  // nobody waits at a barrier that is not there, either
    Head::find_factors(shared.sums, block.scale, write, shared.factors);
    __syncthreads();
    gdn::wait(shared.arrived, 0);
    int i = 0;
#pragma unroll
    for (int tile = threadIdx.x / gdn::WARP; tile < TILES; tile += Warps, ++i)
      walk(shared, tile, values[i], block.outputs);
    if constexpr (Kept > 0) {
      __syncthreads();
      update<RowsABlock, THREADS>(shared, 0, block.kept + (IsInPlace ? place * SLOT_STRIDE : 0));
    }
  }
};

}  // namespace kda
