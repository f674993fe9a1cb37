// What a segment makes of any state S that it begins with, S M + B, and states at the beginnings of segments by way of
// it: the state before the first of them, taken through one after the other.
//
// The diagonal d of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of
// the state. What is left of M, R, is multiplied in fp16, of 11 bits, and so is S, each scaled to fp16's range by
// powers of two: S M + B = S diag(d) + S R + B.
#pragma once
#include "fused.cuh"

namespace gdn {

// Of a segment and head, in global memory.
struct alignas(128) Transition {
  unsigned short rest[GDN_K * GDN_K];  // R in fp16 times 1 / unit, in bands as wgmma reads them
  float added[ROWS * GDN_K];           // B: of each tile of rows, for each 8 columns, what each lane has of the sums
  struct Diagonal {
    float numbers[GDN_K];  // d
    float unit[4];         // a power of two, alike
  } diagonal;
};

// Segments of a sequence: the second one of two may as well begin where the first does.
constexpr int FEWEST_COMPOSED = 3;

// How sequences are cut, in chunks: for outputs, and for transitions, of which a segment has CUTS.
struct Cut {
  int chunks;  // of a transition

  explicit __device__ __forceinline__ Cut(long long all)
      : chunks(segment_chunks(static_cast<int>(all), SEGMENTS * CUTS)) {}
  __device__ __forceinline__ int of_outputs() const { return CUTS * chunks; }
  // Whether states of a sequence of so many chunks are composed.
  __device__ __forceinline__ bool composes(int sequence_chunks) const {
    return sequence_chunks > (FEWEST_COMPOSED - 1) * of_outputs();
  }
  // Where a sequence's first transition lies: two that are not last begin so many chunks apart at least.
  __device__ __forceinline__ int first_slot(int chunks_before) const { return chunks_before / chunks; }
};

// A number tells what becomes of a state over a segment: log2 of what it decays by, if it is kept. If it is forgotten,
// the state after the segment comes of the last chunks that matter: if these are more than WALKED, it is worked out
// beside the transitions; else the next segment's block begins that early.
constexpr int WALKED = 4;
constexpr float WORKED_OUT = -2.f * FORGOTTEN_BITS, FORGOTTEN_SOON = -4.f * FORGOTTEN_BITS;

__device__ __forceinline__ bool is_kept(float decay) { return decay >= -FORGOTTEN_BITS; }

__device__ __forceinline__ bool is_worked_out(float decay) { return decay >= WORKED_OUT; }

// A power of two that brings numbers up to `greatest` near fp16's largest, and its reciprocal. Smaller ones than 2^-30
// are scaled as that is: fp16 has exponents for them, and products of two scales must not overflow.
struct PowerOfTwo {
  float to, from;

  explicit __device__ __forceinline__ PowerOfTwo(float greatest) {
    constexpr int BIAS = 127, TOP = 14;
    const int exponent = min(max(static_cast<int>(__float_as_uint(greatest) >> 23), BIAS - 30), BIAS + 60);
    to = __uint_as_float(static_cast<unsigned>(2 * BIAS + TOP - exponent) << 23);
    from = __uint_as_float(static_cast<unsigned>(exponent - TOP) << 23);
  }
};

// Of each of a lane's two rows, the greatest of a warp's numbers.
template <int N>
__device__ __forceinline__ void find_greatest(float (&greatest)[2], const Sum (&s)[N]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float found = 0.f;
#pragma unroll
    for (int n = 0; n < N; ++n) found = fmaxf(found, fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
    found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 1));
    greatest[half] = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 2));
  }
}

// A block has a tile of rows of the state, and a warp a quarter of their columns.
constexpr int COMPOSE_STAGES = 4, COMPOSE_WARPS = 4, COLUMN_SUMS = 2 * KEY_TILES / COMPOSE_WARPS;
using Columns = Sum[COLUMN_SUMS];

// The first of a lane's pair in sum n of its warp, and what B adds there.
__device__ __forceinline__ int column_of(int warp, int n, unsigned lane) {
  return (warp * COLUMN_SUMS + n) * 8 + static_cast<int>(lane % 4) * 2;
}

__device__ __forceinline__ float4 added_of(const float* tile, int warp, int n, unsigned lane) {
  return reinterpret_cast<const float4*>(tile)[(warp * COLUMN_SUMS + n) * WARP + lane];
}

struct ComposeMemory {
  // A place for a transition on its way.
  struct Slot {
    alignas(1024) unsigned short rest[GDN_K * GDN_K];
    float added[TILE * GDN_K];
    Transition::Diagonal diagonal;
  } slots[COMPOSE_STAGES];
  struct alignas(16) {
    unsigned short row[GDN_K + 8];  // begin in different banks
  } narrowed[TILE];                 // the state in fp16, scaled
  float greatest[COMPOSE_WARPS][TILE];
  Barrier there[COMPOSE_STAGES];
  float decays[SEGMENTS * CUTS];  // of each segment

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (Barrier& barrier : there) gdn::initialise(barrier, 1);
    fence_async_proxy();
  }
  // By one thread: what number `count` of the transitions has for a tile of rows, or of B alone.
  __device__ __forceinline__ void bring(const Transition& from, bool has_m, int tile, int count) {
    Slot& slot = slots[count % COMPOSE_STAGES];
    Barrier& barrier = there[count % COMPOSE_STAGES];
    arrive_expecting(barrier, sizeof(slot.added) + (has_m ? sizeof(slot.diagonal) + sizeof(slot.rest) : 0));
    load_bulk(slot.added, from.added + tile * (TILE * GDN_K), sizeof(slot.added), barrier);
    if (!has_m) return;
    load_bulk(&slot.diagonal, &from.diagonal, sizeof(slot.diagonal), barrier);
    load_bulk(slot.rest, from.rest, sizeof(slot.rest), barrier);
  }
};

// S = S M + B, for a warp's columns.
__device__ __forceinline__ void take_transition(Columns& s, ComposeMemory& memory, const ComposeMemory::Slot& slot,
                                                int warp, unsigned lane) {
  float greatest[2], up[2], down[2];
  find_greatest(greatest, s);
  if (lane % 4 == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) memory.greatest[warp][lane / 4 + half * 8] = greatest[half];
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    for (const auto& of_warp : memory.greatest)
      greatest[half] = fmaxf(greatest[half], of_warp[lane / 4 + half * 8]);
    const PowerOfTwo power(greatest[half]);
    up[half] = power.to;
    down[half] = power.from;
#pragma unroll
    for (int n = 0; n < COLUMN_SUMS; ++n)
      *reinterpret_cast<unsigned*>(&memory.narrowed[lane / 4 + half * 8].row[column_of(warp, n, lane)]) =
          pack_fp16(up[half] * s[n][2 * half], up[half] * s[n][2 * half + 1]);
  }
  __syncthreads();
  // Both factors' scales are those of the sums, too.
  const float unit = slot.diagonal.unit[0], to_unit = 1.f / unit;
  const float scales[2] = {up[0] * to_unit, up[1] * to_unit}, back[2] = {down[0] * unit, down[1] * unit};
#pragma unroll
  for (int n = 0; n < COLUMN_SUMS; ++n) {
    const float2 d = *reinterpret_cast<const float2*>(&slot.diagonal.numbers[column_of(warp, n, lane)]);
    const float4 b = added_of(slot.added, warp, n, lane);
    s[n][0] = scales[0] * fmaf(d.x, s[n][0], b.x);
    s[n][1] = scales[0] * fmaf(d.y, s[n][1], b.y);
    s[n][2] = scales[1] * fmaf(d.x, s[n][2], b.z);
    s[n][3] = scales[1] * fmaf(d.y, s[n][3], b.w);
  }
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    Operand left;
    load_matrices(left, shared_address(&memory.narrowed[lane % 16].row[k * TILE + lane / 16 * 8]));
#pragma unroll
    for (int n = 0; n < COLUMN_SUMS; n += 2) {
      unsigned right[4];
      load_matrices_transposed(right, shared_address(slot.rest) + banded<GDN_K>(k * TILE + lane % 16,
                                                                               warp * COLUMN_SUMS + n + lane / 16));
      mma_fp16(s[n], left, right[0], right[1]);
      mma_fp16(s[n + 1], left, right[2], right[3]);
    }
  }
  scale_rows(s, back);
}

// A block: a tile of rows of the states after a sequence's transitions, `begun` [transitions, HV, V, K], as far as they
// are worked out.
__device__ __forceinline__ void compose(ComposeMemory& memory, const Transition* transitions, int count, int tile,
                                        float* begun, int warp, unsigned lane) {
  const auto keeps = [&](int number) { return number < count && is_kept(memory.decays[number]); };
  const auto shows = [&](int number) { return is_worked_out(memory.decays[number]); };
  // B alone is the state after the first one, and after one that forgets.
  const auto multiplies = [&](int number) { return number > 0 && keeps(number); };
  const auto counts = [&](int number) { return shows(number) || keeps(number + 1); };
  int brought = 0, ahead = 0;
  const auto bring_next = [&] {
    while (ahead < count && !counts(ahead)) ++ahead;
    if (ahead == count) return;
    memory.bring(transitions[static_cast<size_t>(ahead) * GDN_HV], multiplies(ahead), tile, brought++);
    ++ahead;
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < COMPOSE_STAGES - 1; ++i) bring_next();
  }
  Columns s = {};
  int taken = 0;
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    if (!counts(number)) continue;
    const ComposeMemory::Slot& slot = memory.slots[taken % COMPOSE_STAGES];
    __syncthreads();  // all warps are done with the place of the last one
    if (threadIdx.x == 0) bring_next();
    wait(memory.there[taken % COMPOSE_STAGES], taken / COMPOSE_STAGES % 2);
    if (multiplies(number)) {
      take_transition(s, memory, slot, warp, lane);
    } else {
#pragma unroll
      for (int n = 0; n < COLUMN_SUMS; ++n) {
        const float4 b = added_of(slot.added, warp, n, lane);
        s[n][0] = b.x, s[n][1] = b.y, s[n][2] = b.z, s[n][3] = b.w;
      }
    }
    ++taken;
    if (!shows(number)) continue;
    float* const rows = begun + (static_cast<size_t>(number) * GDN_HV * GDN_V + tile * TILE + lane / 4) * GDN_K;
#pragma unroll
    for (int n = 0; n < COLUMN_SUMS; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(&rows[half * 8 * GDN_K + column_of(warp, n, lane)]) =
            make_float2(s[n][2 * half], s[n][2 * half + 1]);
  }
}

}  // namespace gdn
