// Composing (composition.cuh) with less on the way from one state to the next. The powers of two that rows are scaled by
// are known before the rows are: from a bound of what the step before gives, so that its sums are narrowed at once. What
// lanes take of the next transition comes to registers while tensor cores work.
//
// A bound is at most some 2^9 times what rows have, or as often as a step takes away; fp16's exponents leave room for
// 2^28.
#pragma once
#include "composition.cuh"

namespace gdn {

// Where all transitions of a sequence have places at once, a thread asks for all of them before the first, and a block has
// two tiles of rows: with so many heads there would be more blocks than SMs. Else one more warp brings them.
constexpr bool AT_ONCE = SEGMENTS * CUTS <= COMPOSE_STAGES;
constexpr int STEP_TILES = AT_ONCE ? 2 : 1, STEP_WARPS = STEP_TILES * COMPOSE_WARPS;
constexpr int STEP_THREADS = (STEP_WARPS + (AT_ONCE ? 0 : 1)) * WARP;

struct StepMemory {
  struct alignas(16) Slot {
    uint4 rest[KEY_TILES][KEY_TILES][WARP];
    float4 added[STEP_TILES][2 * KEY_TILES][WARP], diagonal[KEY_TILES][4], unit;
  } slots[COMPOSE_STAGES];
  struct alignas(16) {
    unsigned short row[GDN_K + 8];  // begin in different banks
  } narrowed[STEP_TILES][TILE];
  float4 greatest[STEP_TILES][TILE];  // of each row, a number of each warp
  Barrier there[COMPOSE_STAGES], free[COMPOSE_STAGES];
  int fates[SEGMENTS * CUTS];
  float decays[FUSED_THREADS / WARP];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < COMPOSE_STAGES; ++i) {
      gdn::initialise(there[i], 1);
      gdn::initialise(free[i], STEP_WARPS);
    }
    fence_async_proxy();
  }
  // By one thread: what number `count` of the transitions has for the block's rows, or of B alone.
  __device__ __forceinline__ void bring(const Transition& from, bool has_m, int tile, int count) {
    const int place = count % COMPOSE_STAGES;
    Slot& slot = slots[place];
    if (count >= COMPOSE_STAGES) wait(free[place], (count / COMPOSE_STAGES + 1) % 2);
    constexpr unsigned OF_DIAGONAL = sizeof(slot.diagonal) + sizeof(slot.unit);
    arrive_expecting(there[place], sizeof(slot.added) + (has_m ? OF_DIAGONAL + sizeof(slot.rest) : 0));
    load_bulk(slot.added, &from.added[tile], sizeof(slot.added), there[place]);
    if (!has_m) return;
    load_bulk(slot.diagonal, from.diagonal, OF_DIAGONAL, there[place]);
    load_bulk(slot.rest, from.rest, sizeof(slot.rest), there[place]);
  }
};

// Of a transition, what a lane takes.
struct Held {
  uint4 right[COLUMN_TILES][KEY_TILES];
  float4 d[COLUMN_TILES], b[2 * COLUMN_TILES];
  float2 unit;
};

// A block's warps, and what one of them is in it: its tile of rows and its columns.
struct Step {
  StepMemory& memory;
  int tile, columns;
  unsigned lane;

  __device__ __forceinline__ void synchronise() const {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + tile), "n"(COMPOSE_WARPS * WARP) : "memory");
  }
  __device__ __forceinline__ void hold_added(Held& held, const StepMemory::Slot& slot, bool has_m) const {
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n) held.b[n] = slot.added[tile][columns * (2 * COLUMN_TILES) + n][lane];
    if (!has_m) return;
#pragma unroll
    for (int i = 0; i < COLUMN_TILES; ++i) held.d[i] = slot.diagonal[columns * COLUMN_TILES + i][lane % 4];
    held.unit = *reinterpret_cast<const float2*>(&slot.unit);
  }
  __device__ __forceinline__ void hold_rest(Held& held, const StepMemory::Slot& slot, int k) const {
#pragma unroll
    for (int i = 0; i < COLUMN_TILES; ++i) held.right[i][k] = slot.rest[columns * COLUMN_TILES + i][k][lane];
  }
  // Of each of a lane's two rows, the greatest that any of its warps has.
  __device__ __forceinline__ void share_greatest(float (&greatest)[2], float (&own)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      own[half] = fmaxf(own[half], __shfl_xor_sync(ALL_LANES, own[half], 1));
      own[half] = fmaxf(own[half], __shfl_xor_sync(ALL_LANES, own[half], 2));
      if (lane % 4 == 0) reinterpret_cast<float*>(&memory.greatest[tile][lane / 4 + half * 8])[columns] = own[half];
    }
    synchronise();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = memory.greatest[tile][lane / 4 + half * 8];
      greatest[half] = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
    }
  }
};

// S = B, and the greatest of its rows.
__device__ __forceinline__ void take_added(Columns& s, float (&bound)[2], const Step& step, const Held& held) {
  float own[2] = {0.f, 0.f};
#pragma unroll
  for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
    const float4 b = held.b[n];
    s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      own[half] = fmaxf(own[half], fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
  }
  step.synchronise();  // all have read those of the last step
  step.share_greatest(bound, own);
}

// S = S M + B for a warp's columns, and a bound of its rows; while that is worked out `next` comes to registers.
template <class Next>
__device__ __forceinline__ void take_transition(Columns& s, float (&bound)[2], const Step& step, const Held& held,
                                                Next& next_one) {
  StepMemory& memory = step.memory;
  const unsigned lane = step.lane;
  const PowerOfTwo powers[2] = {PowerOfTwo(bound[0]), PowerOfTwo(bound[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
      *reinterpret_cast<unsigned*>(
          &memory.narrowed[step.tile][lane / 4 + half * 8].row[column_of(step.columns, n, lane)]) =
          pack_fp16(powers[half].to * s[n][2 * half], powers[half].to * s[n][2 * half + 1]);
  // No product of R and S is greater than 128 times the greatest of each: R's is less than 2^15 units.
  const float of_products = held.unit.x * (GDN_K * 32768.f);
  float own[2] = {0.f, 0.f};
  Columns next;
#pragma unroll
  for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
    const float4 d = held.d[n / 2], b = held.b[n];
    const float of_columns[2] = {n % 2 == 0 ? d.x : d.z, n % 2 == 0 ? d.y : d.w}, added[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      next[n][i] = fmaf(of_columns[i % 2], s[n][i], added[i]);
      own[i / 2] = fmaxf(own[i / 2], fmaf(of_products, fabsf(s[n][i]), fabsf(next[n][i])));
    }
  }
  // Both factors' scales are those of the sums, too.
  const float scales[2] = {powers[0].to * held.unit.y, powers[1].to * held.unit.y};
  scale_rows(next, scales);
  next_one.begin();
  step.synchronise();
  Operand left[2];
  const auto load_left = [&](int k) {
    load_matrices(left[k % 2],
                  shared_address(&memory.narrowed[step.tile][lane % 16].row[k * TILE + lane / 16 * 8]));
  };
  load_left(0);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    if (k + 1 < KEY_TILES) load_left(k + 1);
    next_one.hold(k);
#pragma unroll
    for (int i = 0; i < COLUMN_TILES; ++i) {
      mma_fp16(next[2 * i], left[k % 2], held.right[i][k].x, held.right[i][k].y);
      mma_fp16(next[2 * i + 1], left[k % 2], held.right[i][k].z, held.right[i][k].w);
    }
  }
  next_one.end();
  step.share_greatest(bound, own);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    bound[half] *= 2.f;  // the greatest of sums of two may be half the sum of both's
    const float back = powers[half].from * held.unit.x;
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
      s[n][2 * half] = back * next[n][2 * half], s[n][2 * half + 1] = back * next[n][2 * half + 1];
  }
}

// Those of a sequence's transitions that are taken, one after the other.
struct Taken {
  const int* fates;
  int count, number;  // the one that is next, of so many

  __device__ __forceinline__ bool keeps(int at) const { return at < count && fates[at] == KEPT; }
  __device__ __forceinline__ bool is_shown() const { return is_worked_out(fates[number]); }
  // B alone is the state after the first one, and after one that forgets.
  __device__ __forceinline__ bool is_multiplied() const { return number > 0 && keeps(number); }
  __device__ __forceinline__ bool is_there() const { return number < count; }
  __device__ __forceinline__ void find() {
    while (is_there() && !is_shown() && !keeps(number + 1)) ++number;
  }
  __device__ __forceinline__ void go_on() {
    ++number;
    find();
  }
};

// The transition that is brought to registers while the one before it is taken.
struct Next {
  const Step& step;
  Held& held;
  Taken& taken;
  int place;  // among all that are taken
  bool is_there, is_multiplied;

  __device__ __forceinline__ int slot() const { return place % COMPOSE_STAGES; }
  __device__ __forceinline__ void begin() {
    if (!is_there) return;
    wait(step.memory.there[slot()], place / COMPOSE_STAGES % 2);
    step.hold_added(held, step.memory.slots[slot()], is_multiplied);
  }
  __device__ __forceinline__ void hold(int k) {
    if (is_multiplied) step.hold_rest(held, step.memory.slots[slot()], k);
  }
  __device__ __forceinline__ void end() {
    if (!is_there) return;
    arrive_together(step.memory.free[slot()], step.lane);
    taken.go_on();
  }
};

// A block: tiles of rows, from `tile` on, of the states after a sequence's transitions, `begun` [transitions, HV, V, K],
// as far as they are worked out.
__device__ __forceinline__ void compose(StepMemory& memory, const Transition* transitions, int count, int tile,
                                        float* begun, int warp, unsigned lane) {
  Taken taken = {memory.fates, count, 0};
  taken.find();
  if (warp == (AT_ONCE ? 0 : STEP_WARPS)) {
    Taken brought = taken;
#pragma unroll 1
    for (int place = 0; lane == 0 && brought.is_there(); ++place, brought.go_on())
      memory.bring(transitions[static_cast<size_t>(brought.number) * GDN_HV], brought.is_multiplied(), tile, place);
    if (!AT_ONCE) return;
    __syncwarp();
  }
  const Step step = {memory, warp / COMPOSE_WARPS, warp % COMPOSE_WARPS, lane};
  float* const rows =
      begun + static_cast<size_t>((tile + step.tile) * TILE + lane / 4) * GDN_K + column_of(step.columns, 0, lane);
  Columns s = {};
  float bound[2] = {0.f, 0.f};
  Held held[2];
  int place = 0, number = taken.number;
  bool is_there = taken.is_there(), is_multiplied = false, is_shown = is_there && taken.is_shown();
  Next first = {step, held[0], taken, 0, is_there, false};  // nothing is multiplied first
  first.begin();
  first.end();
  const auto take = [&](const Held& own, Held& other) {
    const int next_number = taken.number;
    const bool has_next = taken.is_there(), shows_next = has_next && taken.is_shown();
    Next next = {step, other, taken, ++place, has_next, has_next && taken.is_multiplied()};
    if (is_multiplied) {
      take_transition(s, bound, step, own, next);
    } else {
      next.begin();
#pragma unroll
      for (int k = 0; k < KEY_TILES; ++k) next.hold(k);
      next.end();
      take_added(s, bound, step, own);
    }
    if (is_shown) {
      float* const to = rows + static_cast<size_t>(number) * GDN_HV * GDN_V * GDN_K;
#pragma unroll
      for (int n = 0; n < 2 * COLUMN_TILES; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<float2*>(to + half * 8 * GDN_K + n * 8) = make_float2(s[n][2 * half], s[n][2 * half + 1]);
    }
    number = next_number, is_there = has_next, is_multiplied = next.is_multiplied, is_shown = shows_next;
  };
#pragma unroll 1
  while (is_there) {
    take(held[0], held[1]);
    if (!is_there) break;
    take(held[1], held[0]);
  }
}

}  // namespace gdn
