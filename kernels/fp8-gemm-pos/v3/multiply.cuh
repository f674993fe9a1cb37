// How a warpgroup makes its tiles: products, in its turn, and what finishes them.
#pragma once
#include <gdnbench/phases.cuh>

#include "finish.cuh"

GDNBENCH_PHASE_NAMES(columns, turn, rows, products, last, table, finish, space, copies);

namespace gemm {

constexpr int LATE = STAGGER < BANDS ? STAGGER : BANDS;  // bands whose products are issued beside the next one's
constexpr int UNROLLED = UNROLL ? UNROLL : BANDS;
static_assert(PENDING + LATE <= STAGES, "a warpgroup waits for rows that no stage is free for");

// Where the next rows of A are in the ring: by division of their number, or with DESCRIPTORS carried along.
struct Position {
  unsigned count, carried, odd;

  explicit __device__ __forceinline__ Position(unsigned count)
      : count(count), carried(Stages::place(count)), odd(Stages::parity(count)) {}

  __device__ __forceinline__ void advance(unsigned by) {
    count += by;
    carried += by % STAGES;
    const bool wraps = carried >= STAGES;
    odd ^= (by / STAGES + wraps) % 2;
    if (wraps) carried -= STAGES;
  }

  __device__ __forceinline__ unsigned place() const { return DESCRIPTORS ? carried : Stages::place(count); }

  __device__ __forceinline__ unsigned parity() const { return DESCRIPTORS ? odd : Stages::parity(count); }
};

// A descriptor that many bytes further on: by an addition of 64 bits, or with DESCRIPTORS of 32, for an address never
// reaches the upper ones.
__device__ __forceinline__ unsigned long long further(unsigned long long descriptor, unsigned bytes) {
  if (!DESCRIPTORS) return descriptor + bytes / 16;
  const unsigned low = static_cast<unsigned>(descriptor) + bytes / 16;
  return descriptor >> 32 << 32 | low;
}

// Its tiles are every so many of the block's, and its turn comes when the one before has issued its products.
__device__ __forceinline__ void multiply_rows(Memory& memory, const __nv_fp8_e4m3* B, float scale,
                                              const __nv_bfloat16* table, __nv_bfloat16* C, const TensorMap& out,
                                              const Share& share, int rows, int group, int warp, int lane) {
  GDNBENCH_PHASES_BEGIN();
  load_columns(memory, B, share.first_column, threadIdx.x);
  GDNBENCH_PHASE(columns);
  if (GROUPS > 1 && group == GROUPS - 1) arrive_at<2 * GROUP>(TURN);
  const unsigned long long of_columns = descriptor(shared_address(memory.columns));
  const unsigned long long of_rows = descriptor(shared_address(memory.rows));
  const unsigned long long of_table = PERSIST ? stays() : 0, of_C = STREAM == 2 ? stays() : KEEPS_C ? goes() : 0;
  const int row = warp * WARP_ROWS + lane / 4, column = share.first_column + LANE_COLUMNS * (lane % 4);
  Position position(group * BANDS);
  int kept = -1;  // the place whose rows of the table are in registers
  [[maybe_unused]] int box = 0;
  Added<COLUMNS> added;
  for (int number = share.first + group; number < share.last; number += GROUPS) {
    const Tile tile = tile_of(number, share.tiles);
    const bool renews = KEEP == 0 || tile.place != kept, is_first = number == share.first + group;
    kept = tile.place;
    if (EARLY && renews) load_table(added, table, tile.first_row + row, column, of_table);
    float sums[COLUMNS / 2];
    // A barrier tells a phase from the next one alone: a stage is waited for when the rows that were in it before,
    // another warpgroup's perhaps, are known to have come, and not sooner.
    if (GROUPS > 1) synchronise<2 * GROUP>(TURN + group);
    GDNBENCH_PHASE(turn);
    unsigned before[PENDING];  // places of the last stages, whose products may run on
#pragma unroll UNROLLED
    for (int band = 0; band < BANDS; ++band) {
      if (LATE > 0 && band == BANDS - LATE) {  // the other goes on when all rows of this tile are known to have come
        Position next = position;
#pragma unroll
        for (int i = 0; i < LATE; ++i, next.advance(1)) wait(memory.there[next.place()], next.parity());
        if (GROUPS > 1 && number + 1 < share.last) arrive_at<2 * GROUP>(TURN + (group + 1) % GROUPS);
      }
      const unsigned place = position.place();
      if (LATE == 0 || band < BANDS - LATE) wait(memory.there[place], position.parity());
      if (BANDED && is_first) {
        wait(memory.columns_there[band], 0);
        fence_async_proxy();
      }
      GDNBENCH_PHASE(rows);
      fence_products();
#pragma unroll
      for (int inner = 0; inner < BAND; inner += INNER)
        multiply(sums, further(of_rows, place * STAGE_BYTES + inner),
                 further(of_columns, band * (COLUMNS * BAND) + inner), band + inner > 0);
      commit_products();
      if (band >= PENDING) {  // the products of so many stages before are complete
        wait_for_products<PENDING>();
        give_back(memory, before[PENDING - 1], lane);
      }
#pragma unroll
      for (int i = PENDING - 1; i > 0; --i) before[i] = before[i - 1];
      before[0] = place;
      position.advance(1);
      GDNBENCH_PHASE(products);
    }
    if (LATE == 0 && GROUPS > 1 && number + 1 < share.last) arrive_at<2 * GROUP>(TURN + (group + 1) % GROUPS);
    position.advance((GROUPS - 1) * BANDS);
    wait_for_products<0>();
    keep_in_place(sums);
#pragma unroll
    for (int i = PENDING - 1; i >= 0; --i)
      if (i < BANDS) give_back(memory, before[i], lane);
    GDNBENCH_PHASE(last);
    if (!EARLY && renews) load_table(added, table, tile.first_row + row, column, of_table);
    GDNBENCH_PHASE_USING(table, added);
#if STAGED
    store_boxes(memory.staged[group * GROUP_WARPS + warp], box, out, sums, scale, added,
                tile.first_row + warp * WARP_ROWS, share.first_column, lane, of_C);
#else
    store_directly(C, sums, scale, added, tile.first_row + row, column, rows, of_C);
#endif
    GDNBENCH_PHASE(finish);
  }
  if (STAGED && lane == 0) wait_for_boxes<0>();
}

}  // namespace gemm
