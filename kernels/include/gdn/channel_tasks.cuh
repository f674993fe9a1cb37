// A step of Kimi Delta Attention over one token or several, in which the warps of a block have tasks of their own. Some
// find what all rows need (channel_tokens.cuh), and end. Each of the others has 16 rows of the state, a tile that one
// bulk copy brings; it multiplies them by tensor cores as soon as both are there, and updates and stores them, whatever
// the rest of the block does. So a block may have a whole head, for which all that is found but once.
#pragma once
#include <gdn/channel_tiles.cuh>

namespace kda {

template <int Tokens, int Kept, bool IsInPlace, int RowsABlock, int Channels>
struct TaskStep {
  static constexpr int ROW_WARPS = RowsABlock / TILE_ROWS;  // that have rows
  static constexpr int FINDERS = GDN_K / Channels;      // threads
  static constexpr int FINDER_WARPS = FINDERS / gdn::WARP;
  static constexpr int THREADS = FINDERS + ROW_WARPS * gdn::WARP;
  static constexpr int LEAST_BLOCKS = (Tokens > QUAD ? 512 : 1024) / THREADS;  // on an SM: as many as do not spill
  // What a warp does with a tile is the same; of its block that has nothing but rows.
  using Tile = TileStep<Tokens, Kept, IsInPlace, RowsABlock, (ROW_WARPS > 8 / Channels ? ROW_WARPS : 8 / Channels), Channels>;
  using Head = typename Tile::Head;
  static_assert(GDN_V % RowsABlock == 0 && RowsABlock % TILE_ROWS == 0, "a block works on one head");

  struct Shared : Tile::Shared {
    gdn::Barrier arrived_of[ROW_WARPS];
  };

  static __device__ __forceinline__ void find(Shared& shared, const Block& block) {
    __builtin_assume(threadIdx.x < FINDERS);
    Head head;
    head.load(block);
    memory_first<1>(block.batches);
    typename Head::Products products = {};
    head.multiply(block.lower_bound, shared.vectors, products);
    Head::sum(products, shared.sums);
    const float write = head.own_write(block.beta_limit);
    asm volatile("bar.sync 1, %0;" ::"n"(FINDERS) : "memory");
    Head::find_factors(shared.sums, block.scale, write, shared.factors);
  }

  // Of what is no sequence; a warp's rows.
  static __device__ __forceinline__ void clear(const Block& block, unsigned first) {
    const unsigned lane = threadIdx.x % gdn::WARP;
#pragma unroll 1
    for (unsigned i = lane; i < Tokens * TILE_ROWS; i += gdn::WARP)
      block.outputs[i / TILE_ROWS * OUTPUT_STRIDE + first + i % TILE_ROWS] = __float2bfloat16(0.f);
#pragma unroll 1
    for (int t = 0; t < (IsInPlace ? 0 : Kept); ++t)
#pragma unroll 1
      for (unsigned i = lane; i < TILE_ROWS * GDN_K / gdn::PACK; i += gdn::WARP)
        reinterpret_cast<uint4*>(block.kept + t * SLOT_STRIDE + first * GDN_K)[i] = make_uint4(0, 0, 0, 0);
  }

  static __device__ __forceinline__ void take(Shared& shared, const Block& block) {
    const unsigned warp_of_block = __shfl_sync(gdn::ALL_LANES, threadIdx.x / gdn::WARP, 0);  // known to part no warp
    const bool is_finder = warp_of_block < FINDER_WARPS;
    const unsigned warp = warp_of_block - FINDER_WARPS, first = warp * TILE_ROWS;
    const bool is_loader = threadIdx.x % gdn::WARP == 0;
    unsigned value[Tile::FOURS];
    int place = 0;
    if (is_finder) {
      find(shared, block);
    } else {
      const int own_slot = block.slot[lanes_zero()];  // asked for first, for the state's address waits for it
      memory_first<2>(block.batches);
#pragma unroll
      for (int four = 0; four < Tile::FOURS; ++four)
        value[four] = *reinterpret_cast<const unsigned*>(block.values + Tile::own_token(four) * MIXED +
                                                         Tile::own_row(warp));
      if (is_loader) gdn::initialise(shared.arrived_of[warp], 1), gdn::fence_barriers();
      memory_first<3>(block.batches);
      place = __shfl_sync(gdn::ALL_LANES, own_slot, 0);
      if (is_loader && place > 0)
        gdn::load_in_bulk<!IsInPlace>(shared.tile[first], block.pool + place * SLOT_STRIDE + first * GDN_K,
                                      TILE_ROWS * GDN_K * sizeof(gdn::State), shared.arrived_of[warp]);
    }
    __syncthreads();
    if (is_finder) return;
    if (place <= 0) return clear(block, first);
    gdn::wait(shared.arrived_of[warp], 0);
    Tile::walk(shared, warp, value, block.outputs);
    if constexpr (Kept > 0) {
      __syncwarp();
      gdn::State* const kept = block.kept + (IsInPlace ? place * SLOT_STRIDE : 0) + first * GDN_K;
      Tile::template update<TILE_ROWS, gdn::WARP>(shared, first, kept);
    }
  }
};

}  // namespace kda
