// Behind a sequence's first segment: a segment makes S M + B of any state S that it begins with. B is the state that its first block
// leaves of zero, and M what the second one leaves of the unit matrix without values; outputs are those of zero and S p, for what a
// token's query reads of the transitions so far, p.
//
// The diagonal of M stays in fp32, apart: where little is written M is near I, and a rounding of it would be one of the state. What
// is left of M, R, is multiplied in fp16, of 11 bits.
#pragma once
#include <gdn/power_of_two.cuh>

#include "carry.cuh"
#include "prepare.cuh"

#include "../../prefill/rows.cuh"

namespace kda {

constexpr int HEAD_STATE = GDN_V * GDN_K;

// R lies as a right operand of wgmma does, in two bands of columns.
struct alignas(128) Transition {
  unsigned short rest[GDN_K * GDN_K];  // R in fp16, times REST_SCALE
  float diagonal[GDN_K];
};

static_assert(sizeof(Transition) == TRANSITION_BYTES);

// Neither keys, of norm 1, nor betas nor decays are greater than 1, so that M makes no state longer.
constexpr float REST_SCALE = 16384.f;

// 64 tokens: what their queries read of transitions, and outputs.
struct alignas(1024) CorrectStage {
  __nv_bfloat16 reads[CHUNK * GDN_K], outputs[CHUNK * GDN_V];
};
// Where a block's stages were.
struct CorrectMemory {
  Transition transition;
  CorrectStage stages[CORRECT_STAGES];
};
static_assert(sizeof(CorrectMemory) <= sizeof(FusedMemory::stages), "no barriers are in their place");

// In scratch memory: states before segments, by heads.
struct Scratch {
  float* states;
  __nv_bfloat16* reads;
};
// By a state before a segment, how far those are who leave it or need it; 0 before and after a launch.
struct Meeting {
  int composed;  // warps that have left their rows
  int carried;   // warps, of both blocks, that have left outputs without it
  int met;       // blocks: the segment's as they begin, and those that may help as they have nothing else to do
  int left;      // blocks that do not need it any more
};
__device__ Meeting meetings[BLOCKS];
enum Met { BEGUN = 1, HELPS = 2, NEXT = 4 };  // of the first block of a cluster; of the second one times that

__device__ __forceinline__ void add_released(int& count) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(&count) : "memory");
}
__device__ __forceinline__ int add(int& count, int x) {  // and what was there before
  int before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(before) : "l"(&count), "r"(x) : "memory");
  return before;
}
__device__ __forceinline__ void wait_for_count(const int& count, int least) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(&count) : "memory");
  } while (seen < least);
}

// By one thread of a block: whether the block of the same rank that may help with a segment does. It does if the segment's has begun:
// no block waits for one that may not have.
__device__ __forceinline__ bool meet(int place, Met met, int rank) {
  const int others = add(meetings[place].met, rank == 0 ? met : NEXT * met) / (rank == 0 ? 1 : NEXT);
  return met == HELPS ? (others & BEGUN) != 0 : (others & HELPS) == 0;
}

// By one thread of a block, of so many, that does not need a meeting any more.
__device__ __forceinline__ void leave(int place, int blocks) {
  Meeting& meeting = meetings[place];
  if (add(meeting.left, 1) + 1 < blocks) return;
  meeting.composed = meeting.carried = meeting.met = meeting.left = 0;
}

// Of the warps that carry.
__device__ __forceinline__ void synchronise_carriers() {
  asm volatile("bar.sync %0, %1;" ::"n"(1 + (2 + TOLD) * PREPARERS), "n"(CARRIERS * WARP) : "memory");
}

// By a warp: its rows of M.
__device__ __forceinline__ void store_transition(Transition& to, const State& s, int warp, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp * TILE + static_cast<int>(lane / 4) + half * 8, first = n * 8 + static_cast<int>(lane % 4) * 2;
      float pair[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float own = s[n][2 * half + i];
        if (row == first + i) to.diagonal[row] = own;
        pair[i] = row == first + i ? 0.f : REST_SCALE * own;
      }
      *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(to.rest) + banded<GDN_K>(row, n) + lane % 4 * 4) =
          pack_fp16(pair[0], pair[1]);
    }
}

// S + X R for a warpgroup's rows, for X [64, 16] as operands and sixteen rows of R.
__device__ __forceinline__ void multiply_fp16(State& sums, const Operand& a, unsigned long long b) {
#define KDA_SUM(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define KDA_SUMS(n) KDA_SUM(n), KDA_SUM(n + 1), KDA_SUM(n + 2), KDA_SUM(n + 3)
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
      : KDA_SUMS(0), KDA_SUMS(4), KDA_SUMS(8), KDA_SUMS(12)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#undef KDA_SUMS
#undef KDA_SUM
}

// S M + B for a warp's rows of B, which they replace, and of S, from `before` on.
__device__ __forceinline__ void take_transition(State& b, const Transition& m, const float* before, unsigned lane) {
  State s;
  Operand narrowed[KEY_TILES];
  float back[2];
  load_state(s, before, lane);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float greatest = 0.f;
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n)
      greatest = fmaxf(greatest, fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
    greatest = fmaxf(greatest, __shfl_xor_sync(ALL_LANES, greatest, 1));
    greatest = fmaxf(greatest, __shfl_xor_sync(ALL_LANES, greatest, 2));
    const PowerOfTwo power(greatest);
    back[half] = power.from / REST_SCALE;
    const float scale = power.to * REST_SCALE;  // of the sums
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n) {
      const float2 own = make_float2(s[n][2 * half], s[n][2 * half + 1]);
      narrowed[n / 2][n % 2 * 2 + half] = pack_fp16(power.to * own.x, power.to * own.y);
      const float2 d = *reinterpret_cast<const float2*>(&m.diagonal[n * 8 + lane % 4 * 2]);
      float* const sums = &b[n][2 * half];
      sums[0] = scale * fmaf(d.x, own.x, sums[0]), sums[1] = scale * fmaf(d.y, own.y, sums[1]);
    }
  }
  keep_in_place(narrowed);
  keep_in_place(b);
  fence_warpgroup();
  const Matrix right = matrix_here(&m.rest, GDN_K * BAND_BYTES);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) multiply_fp16(b, narrowed[k], right.descriptor(k * (TILE * BAND_BYTES)));
  complete(b);
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) b[n][i] *= back[i / 2];
}

// A warp's rows, from `to` on, for those who wait for them at a place, if there are any.
__device__ __forceinline__ void leave_state(float* to, const State& s, int place, unsigned lane) {
  store_state(to, s, lane);
  if (place < 0) return;
  __syncwarp();
  if (lane == 0) add_released(meetings[place].composed);
}

// Of every so many times 64 of a segment's tokens those that a block takes.
struct Corrected {
  const TensorMap &reads, &outputs;
  __nv_bfloat16* output;
  int head, begin, tokens, share, shares;

  __device__ __forceinline__ int first(int step) const { return (step * shares + share) * CHUNK; }
  // By one thread. Where the second half is not the segment's, the first half comes twice: others' outputs may be written.
  __device__ __forceinline__ void bring(FusedMemory& memory, CorrectMemory& places, int step) const {
    if (first(step) >= tokens) return;
    CorrectStage& to = places.stages[step % CORRECT_STAGES];
    Barrier& come = memory.corrected[step % CORRECT_STAGES];
    arrive_expecting(come, sizeof(to));
    for (int half = 0; half < CHUNK; half += TOKENS) {
      const int token = begin + first(step) + (first(step) + half < tokens ? half : 0);
      for (int band = 0; band < BANDS; ++band) {
        load_box(to.reads + (band * CHUNK + half) * BAND, reads, token, head, band * BAND, come);
        load_box(to.outputs + (band * CHUNK + half) * BAND, outputs, token, head, band * BAND, come);
      }
    }
  }
};

// By the warps that carried: adds what the state before a segment, from `before` on, makes of its tokens.
__device__ __forceinline__ void correct(FusedMemory& memory, CorrectMemory& places, const Corrected& own, const float* before, int warp,
                                        unsigned lane) {
  if (threadIdx.x == 0) {
    asm volatile("fence.proxy.async.global;" ::: "memory");  // what has been seen here is there for copies
    for (int step = 0; step < CORRECT_STAGES; ++step) own.bring(memory, places, step);
  }
  Operand begun[KEY_TILES];
  {
    State s;
    load_state(s, before + warp * TILE * GDN_K, lane);
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
  }
  keep_in_place(begun);
  const int piece = 2 * warp + lane / 16;
#pragma unroll 1
  for (int step = 0; own.first(step) < own.tokens; ++step) {
    const int first = own.first(step);
    CorrectStage& here = places.stages[step % CORRECT_STAGES];
    const unsigned place = shared_address(here.outputs);
    Sum sums[TOKEN_PAIRS];
    Operand pairs[SIDE];
    wait(memory.corrected[step % CORRECT_STAGES], step / CORRECT_STAGES % 2);
    load_values(pairs, place, warp, lane, banded<CHUNK>);
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 pair = unpack_bf16(pairs[i][n]);
        float* sum = &sums[2 * i + n / 2][n % 2 * 2];
        sum[0] = pair.x, sum[1] = pair.y;
      }
    keep_in_place(sums);
    fence_warpgroup();
    multiply_operands<GDN_K, CHUNK, true>(sums, begun, matrix_here(here.reads));
    complete(sums);
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
      narrow(pairs[i], sums[2 * i], sums[2 * i + 1]);
      store_transposed(place + banded<CHUNK>(i * TILE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2), pairs[i]);
    }
    __syncwarp();
    __nv_bfloat16* to = own.output + (static_cast<long long>(own.begin + first + lane % 16) * GDN_H + own.head) * GDN_V + piece * 8;
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
      if (first + i * TILE + static_cast<int>(lane % 16) < own.tokens)
        *reinterpret_cast<uint4*>(to + static_cast<long long>(i * TILE) * (GDN_H * GDN_V)) = *reinterpret_cast<const uint4*>(
            reinterpret_cast<const char*>(here.outputs) + banded<CHUNK>(i * TILE + lane % 16, piece));
    fence_async_proxy();
    synchronise_carriers();
    if (threadIdx.x == 0) own.bring(memory, places, step + CORRECT_STAGES);
  }
}

// By the warps that carried a segment behind the first one, whose blocks have both come to its end: the state behind it, from that
// before it. `s` is what they are left with.
__device__ __forceinline__ void compose(State& s, FusedMemory& memory, const Item& item, int rank, int warp, unsigned lane) {
  CorrectMemory& places = reinterpret_cast<CorrectMemory&>(memory.stages);
  if (rank == 1) {
    store_transition(places.transition, s, warp, lane);
    fence_async_proxy();
  }
  synchronise_carriers();
  if (threadIdx.x == 0) {
    if (rank == 1) copy_to_block(&places.transition, &places.transition, sizeof(Transition), memory.transition, 0);
    wait_for_count(meetings[item.place].composed, CARRIERS);
  }
  synchronise_carriers();
  if (rank == 1 || item.new_state == nullptr) return;
  const int rows = warp * TILE * GDN_K;
  wait(memory.transition, 0);
  take_transition(s, places.transition, item.state + rows, lane);
  leave_state(item.new_state + rows, s, item.next, lane);
}

}  // namespace kda
