// States at the beginnings of segments, as in composition.cuh, with as little as can be on the way from one to the next.
//
// A step is S = S M + B, and the steps of a sequence are one chain. What needs no new state is done while tensor cores
// work on the last one: the next transition comes to registers, and the last state is stored. What scales a row to fp16
// is a bound of its numbers, known before they are, so that warps wait for each other once a step.
#pragma once
#include "composition.cuh"

namespace gdn {

// What warps tell each other in odd steps has places of its own.
struct ChainMemory : ComposeMemory {
  decltype(ComposeMemory::narrowed) narrowed_in_odd;
  decltype(ComposeMemory::greatest) greatest_in_odd;

  __device__ __forceinline__ auto& narrowed_in(int step) { return step % 2 == 0 ? narrowed : narrowed_in_odd; }
  __device__ __forceinline__ auto& greatest_in(int step) { return step % 2 == 0 ? greatest : greatest_in_odd; }
};

// What a warp takes of a transition, in registers; without M, B alone.
struct WarpTransition {
  static constexpr float SCALED = 32768.f;  // no number that a PowerOfTwo has scaled is greater
  float4 added[2 * COLUMN_TILES], diagonal[COLUMN_TILES];
  uint4 rest[COLUMN_TILES][KEY_TILES];
  float unit;
  float gain;           // of a lane's columns: the greatest of d, and of any column of S R for an S of ones
  float most_added[2];  // of a lane's columns, the greatest of B, in each of its rows

  __device__ __forceinline__ void load(const ComposeMemory::Slot& slot, bool has_m, int warp, unsigned lane) {
    most_added[0] = most_added[1] = 0.f;
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
      const float4 b = slot.added[warp * (2 * COLUMN_TILES) + n][lane];
      added[n] = b;
      most_added[0] = fmaxf(most_added[0], fmaxf(fabsf(b.x), fabsf(b.y)));
      most_added[1] = fmaxf(most_added[1], fmaxf(fabsf(b.z), fabsf(b.w)));
    }
    if (!has_m) return;
    gain = 0.f;
    unit = slot.unit.x;
#pragma unroll
    for (int tile = 0; tile < COLUMN_TILES; ++tile) {
      const float4 d = slot.diagonal[warp * COLUMN_TILES + tile][lane % 4];
      diagonal[tile] = d;
      gain = fmaxf(gain, fmaxf(fmaxf(fabsf(d.x), fabsf(d.y)), fmaxf(fabsf(d.z), fabsf(d.w))));
#pragma unroll
      for (int k = 0; k < KEY_TILES; ++k) rest[tile][k] = slot.rest[warp * COLUMN_TILES + tile][k][lane];
    }
    gain += GDN_K * SCALED * unit;
  }
};

// A warp's columns of the state on their way.
struct Chain {
  ChainMemory& memory;
  const int warp;
  const unsigned lane;
  int step = 0;
  Columns s = {};
  float bounds[2] = {};  // no number of the whole row is greater, of each of the lane's two

  // S = B.
  __device__ __forceinline__ void begin(const WarpTransition& taken) {
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
      const float4 b = taken.added[n];
      s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
    }
    share(taken.most_added);
    find_bounds();
  }
  // Begins S R, in two sums that tensor cores work on side by side. Of S, scaled, and R without its unit.
  __device__ __forceinline__ void multiply(Columns (&sums)[2], const PowerOfTwo (&scales)[2], const WarpTransition& taken) {
    auto& narrowed = memory.narrowed_in(step);
    float next[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = 0.f;
#pragma unroll
      for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
        const float low = s[n][2 * half], high = s[n][2 * half + 1];
        most = fmaxf(most, fmaxf(fabsf(low), fabsf(high)));
        *reinterpret_cast<unsigned*>(&narrowed[lane / 4 + half * 8].row[column_of(warp, n, lane)]) =
            pack_fp16(scales[half].to * low, scales[half].to * high);
      }
      // Of a number of S diag(d) + S R + B each part is at most half of what is shared, from some lane.
      next[half] = 2.f * fmaf(taken.gain, most, taken.most_added[half]);
    }
    share(next);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) {
      Operand left;
      load_matrices(left, shared_address(&narrowed[lane % 16].row[k * TILE + lane / 16 * 8]));
#pragma unroll
      for (int tile = 0; tile < COLUMN_TILES; ++tile) {
        const uint4 right = taken.rest[tile][k];
        mma_fp16(sums[k % 2][2 * tile], left, right.x, right.y);
        mma_fp16(sums[k % 2][2 * tile + 1], left, right.z, right.w);
      }
    }
  }
  // S = S diag(d) + B.
  __device__ __forceinline__ void take_diagonal(const WarpTransition& taken) {
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n) {
      const float4 d = taken.diagonal[n / 2], b = taken.added[n];
      const float first = n % 2 == 0 ? d.x : d.z, second = n % 2 == 0 ? d.y : d.w;
      s[n][0] = fmaf(first, s[n][0], b.x);
      s[n][1] = fmaf(second, s[n][1], b.y);
      s[n][2] = fmaf(first, s[n][2], b.z);
      s[n][3] = fmaf(second, s[n][3], b.w);
    }
  }
  // And + S R.
  __device__ __forceinline__ void add(const Columns (&sums)[2], const PowerOfTwo (&scales)[2], float unit) {
    const float back[2] = {scales[0].from * unit, scales[1].from * unit};
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = fmaf(back[i / 2], sums[0][n][i] + sums[1][n][i], s[n][i]);
    find_bounds();
  }
  // A number for each of a lane's rows, of which all lanes get to know the greatest. Waits for the other warps.
  __device__ __forceinline__ void share(const float (&numbers)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(numbers[half], __shfl_xor_sync(ALL_LANES, numbers[half], 1));
      most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, 2));
      if (lane % 4 == 0) reinterpret_cast<float*>(&memory.greatest_in(step)[lane / 4 + half * 8])[warp] = most;
    }
    synchronise_composing();
  }
  __device__ __forceinline__ void find_bounds() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = memory.greatest_in(step)[lane / 4 + half * 8];
      bounds[half] = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
    }
    ++step;
  }
  // The rows of tile `tile`, to a state [V, K].
  __device__ __forceinline__ void store(float* state, int tile) const {
    float* const rows = state + (tile * TILE + lane / 4) * GDN_K + column_of(warp, 0, lane);
#pragma unroll
    for (int n = 0; n < 2 * COLUMN_TILES; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(rows + half * 8 * GDN_K + n * 8) = make_float2(s[n][2 * half], s[n][2 * half + 1]);
  }
};

// A block: a tile of rows of the states after a sequence's transitions, `begun` [transitions, HV, V, K], as far as they
// are worked out.
__device__ __forceinline__ void compose(ChainMemory& memory, const Transition* transitions, int count, int tile,
                                        float* begun, int warp, unsigned lane) {
  const auto keeps = [&](int number) { return number < count && memory.fates[number] == KEPT; };
  const auto shows = [&](int number) { return is_worked_out(memory.fates[number]); };
  // B alone is the state after the first one, and after one that forgets.
  const auto multiplies = [&](int number) { return number > 0 && keeps(number); };
  const auto next = [&](int number) {
    do ++number;
    while (number < count && !shows(number) && !keeps(number + 1));
    return number;
  };
  if (warp == COMPOSE_WARPS) {
    if (lane > 0) return;
    int taken = 0;
#pragma unroll 1
    for (int number = next(-1); number < count; number = next(number))
      memory.bring(transitions[static_cast<size_t>(number) * GDN_HV], multiplies(number), tile, taken++);
    return;
  }
  Chain chain = {memory, warp, lane};
  WarpTransition transition;
  int taken = 0;
  const auto load = [&](int number) {
    if (number == count) return;
    const int place = taken % COMPOSE_STAGES;
    wait(memory.there[place], taken++ / COMPOSE_STAGES % 2);
    transition.load(memory.slots[place], multiplies(number), warp, lane);
    arrive_together(memory.free[place], lane);
  };
  const auto store = [&](int number) {
    if (number >= 0 && shows(number)) chain.store(begun + static_cast<size_t>(number) * GDN_HV * GDN_V * GDN_K, tile);
  };
  int last = -1, following;
  load(next(-1));
#pragma unroll 1
  for (int number = next(-1); number < count; last = number, number = following) {
    following = next(number);
    if (multiplies(number)) {
      const PowerOfTwo scales[2] = {PowerOfTwo(chain.bounds[0]), PowerOfTwo(chain.bounds[1])};
      const float unit = transition.unit;
      Columns sums[2] = {};
      chain.multiply(sums, scales, transition);
      store(last);
      chain.take_diagonal(transition);
      load(following);
      chain.add(sums, scales, unit);
    } else {
      store(last);
      chain.begin(transition);
      load(following);
    }
  }
  store(last);
}

}  // namespace gdn
