// States before segments, and outputs of segments that began without them: outputs are a segment's own and those that it makes of
// the state before it, S p for what a token's query reads of the transitions so far, p.
#pragma once
#include "../v6/carry.cuh"
#include "cuts.cuh"
#include "transition.cuh"

#include "../../prefill/rows.cuh"

namespace kda {

constexpr int CORRECT_THREADS = CARRIERS * WARP, CORRECT_STAGES = 3;
constexpr int CORRECT_BLOCKS = 2 * BLOCKS;  // that run at once

// 64 tokens: what their queries read of transitions, and outputs; or R of a transition.
struct alignas(1024) CorrectStage {
  __nv_bfloat16 reads[CHUNK * GDN_K], outputs[CHUNK * GDN_V];
};
// A segment, some of whose tokens' outputs are corrected; without tokens the last one, when all states are composed; or none, 0.
// `place` is of the sequence's first state in scratch memory.
struct Corrected {
  int sequence, head, place, segment, begin, tokens;
};
struct CorrectMemory {
  CorrectStage stages[CORRECT_STAGES];
  float diagonals[CORRECT_STAGES][GDN_K];
  Corrected corrected;
  Barrier come[CORRECT_STAGES];
};
static_assert(sizeof(CorrectStage) == sizeof(Transition::rest), "R takes a stage");

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

// S = S M + B for a warp's rows; `added` is of the warp's rows of B.
__device__ __forceinline__ void take_transition(State& s, const CorrectStage& rest, const float* diagonal, const float* added,
                                                unsigned lane) {
  Operand narrowed[KEY_TILES];
  float back[2];
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
    const float* const from = added + (lane / 4 + half * 8) * GDN_K + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n) {
      float* const own = &s[n][2 * half];
      narrowed[n / 2][n % 2 * 2 + half] = pack_fp16(power.to * own[0], power.to * own[1]);
      const float2 d = *reinterpret_cast<const float2*>(&diagonal[n * 8 + lane % 4 * 2]);
      const float2 b = *reinterpret_cast<const float2*>(from + n * 8);
      own[0] = scale * fmaf(d.x, own[0], b.x), own[1] = scale * fmaf(d.y, own[1], b.y);
    }
  }
  keep_in_place(narrowed);
  keep_in_place(s);
  fence_warpgroup();
  const Matrix right = matrix(&rest, GDN_K * BAND_BYTES);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) multiply_fp16(s, narrowed[k], right.descriptor(k * (TILE * BAND_BYTES)));
  complete(s);
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] *= back[i / 2];
}

__device__ __forceinline__ void add_released(int* count) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(count) : "memory");
}
__device__ __forceinline__ int load_acquire(const int* count) {
  int seen;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
  return seen;
}

// By a block: a sequence's and head's states before its segments, in the place of those that segments leave of zero, and its last one.
// Transitions come into stages.
__device__ __forceinline__ void compose(CorrectMemory& memory, const Scratch& scratch, int place, int segments, float* new_state, int warp,
                                        unsigned lane) {
  const auto bring_next = [&](int segment) {
    if (threadIdx.x > 0 || segment > segments) return;
    const int stage = (segment - 1) % CORRECT_STAGES;
    const Transition& from = scratch.transitions[place + segment * GDN_H];
    arrive_expecting(memory.come[stage], sizeof(from.rest) + sizeof(from.diagonal));
    load_bulk(&memory.stages[stage], from.rest, sizeof(from.rest), memory.come[stage]);
    load_bulk(memory.diagonals[stage], from.diagonal, sizeof(from.diagonal), memory.come[stage]);
  };
  const int rows = warp * TILE * GDN_K;
  float* states = scratch.states + static_cast<size_t>(place) * HEAD_STATE + rows;
  State s;
  for (int segment = 1; segment <= CORRECT_STAGES; ++segment) bring_next(segment);
  load_state(s, states, lane);
#pragma unroll 1
  for (int segment = 1; segment <= segments; ++segment) {
    const int stage = (segment - 1) % CORRECT_STAGES;
    states += GDN_H * HEAD_STATE;
    wait(memory.come[stage], (segment - 1) / CORRECT_STAGES % 2);
    take_transition(s, memory.stages[stage], memory.diagonals[stage], states, lane);
    store_state(segment < segments ? states : new_state + rows, s, lane);
    __syncwarp();
    if (lane == 0) add_released(&scratch.composed[place + segment * GDN_H]);
    __syncthreads();
    bring_next(segment + CORRECT_STAGES);
  }
}

// By a warp: what a block has to do, by its number in a row.
__device__ __forceinline__ Corrected find_corrected(const long long* cu_seqlens, int sequences, int head, int row, unsigned lane) {
  const Plan plan(cu_seqlens, sequences, lane);
  const int segments = count_before(cu_seqlens, sequences, lane, [&](int steps) { return plan.behind(steps); });
  const int parts = max(CORRECT_BLOCKS / (GDN_H * max(segments, 1)), 1);
  const Numbered own = find_numbered(cu_seqlens, sequences, row, lane,
                                     [&](int steps) { return plan.behind(steps) > 0 ? plan.behind(steps) * parts + 1 : 0; });
  if (own.sequence < 0) return {0, 0, 0, 0, 0, 0};
  const int place = first_place(plan, cu_seqlens, own.sequence, head, lane), steps = steps_of(cu_seqlens, own.sequence);
  if (own.number == 0) return {own.sequence, head, place, plan.behind(steps), 0, 0};
  const int segment = 1 + (own.number - 1) / parts, part = (own.number - 1) % parts, size = plan.known.size;
  const int of_part = (size + parts - 1) / parts, first = plan.known.begin(segment) + part * of_part;
  const int last = min(plan.known.begin(segment) + min((part + 1) * of_part, size), steps);
  if (first >= last) return {0, 0, 0, 0, 0, 0};
  const int begin = static_cast<int>(cu_seqlens[own.sequence]), end = static_cast<int>(cu_seqlens[own.sequence + 1]);
  return {own.sequence, head, place, segment, begin + first * TOKENS, min(end - begin, last * TOKENS) - first * TOKENS};
}

// By one thread: 64 of them. Where the second half is another block's, the first half comes twice: others' outputs may be written.
__device__ __forceinline__ void bring(CorrectMemory& memory, const TensorMap& reads, const TensorMap& outputs, const Corrected& own,
                                      int step) {
  if (step * CHUNK >= own.tokens) return;
  CorrectStage& to = memory.stages[step % CORRECT_STAGES];
  Barrier& come = memory.come[step % CORRECT_STAGES];
  arrive_expecting(come, sizeof(to));
  for (int half = 0; half < CHUNK; half += TOKENS) {
    const int token = own.begin + step * CHUNK + (step * CHUNK + half < own.tokens ? half : 0);
    for (int band = 0; band < BANDS; ++band) {
      load_box(to.reads + (band * CHUNK + half) * BAND, reads, token, own.head, band * BAND, come);
      load_box(to.outputs + (band * CHUNK + half) * BAND, outputs, token, own.head, band * BAND, come);
    }
  }
}

// By a block: adds what the state before a segment makes of its tokens.
__device__ __forceinline__ void correct(CorrectMemory& memory, const Scratch& scratch, const TensorMap& reads, const TensorMap& outputs,
                                        __nv_bfloat16* output, const Corrected& own, int warp, unsigned lane) {
  const int place = own.place + (own.segment - 1) * GDN_H;
  if (threadIdx.x == 0) {
    for (int step = 0; step < CORRECT_STAGES; ++step) bring(memory, reads, outputs, own, step);
    while (own.segment > 1 && load_acquire(&scratch.composed[place]) < CARRIERS) {
    }
  }
  __syncthreads();
  State s;
  Operand begun[KEY_TILES];
  load_state(s, scratch.states + static_cast<size_t>(place) * HEAD_STATE + warp * TILE * GDN_K, lane);
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
  keep_in_place(begun);
  const int piece = 2 * warp + lane / 16;
  __nv_bfloat16* to = output + (static_cast<long long>(own.begin + lane % 16) * GDN_H + own.head) * GDN_V + piece * 8;
#pragma unroll 1
  for (int step = 0; step * CHUNK < own.tokens; ++step) {
    CorrectStage& here = memory.stages[step % CORRECT_STAGES];
    const unsigned place = shared_address(here.outputs);
    Sum sums[TOKEN_PAIRS];
    Operand pairs[SIDE];
    wait(memory.come[step % CORRECT_STAGES], step / CORRECT_STAGES % 2);
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
    multiply_operands<GDN_K, CHUNK, true>(sums, begun, matrix(here.reads));
    complete(sums);
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
      narrow(pairs[i], sums[2 * i], sums[2 * i + 1]);
      store_transposed(place + banded<CHUNK>(i * TILE + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2), pairs[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
      if (step * CHUNK + i * TILE + static_cast<int>(lane % 16) < own.tokens)
        *reinterpret_cast<uint4*>(to + static_cast<long long>(i * TILE) * (GDN_H * GDN_V)) = *reinterpret_cast<const uint4*>(
            reinterpret_cast<const char*>(here.outputs) + banded<CHUNK>(i * TILE + lane % 16, piece));
    to += CHUNK * GDN_H * GDN_V;
    fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) bring(memory, reads, outputs, own, step + CORRECT_STAGES);
  }
}

}  // namespace kda
