// By whole SMs: a head's state, of all 128 rows in two warpgroups, from chunk to chunk. One warp brings what is prepared, one
// values, one gives places back, and four store outputs.
#pragma once
#include "memory.cuh"

GDNBENCH_PHASE_NAMES(output, read, subtract, solve, write, narrow, full, last, decay, parts, near, rows, store);

namespace kda {

enum : unsigned { BRINGS = STATE_WARPS, RELEASES, VALUES, STORES = STATE_WARPS + GROUP_WARPS };  // warps; of STORES four

// Stores an operand [16, 16] transposed, as rows of two pieces; lane l tells where row l % 8 + l / 16 * 8 has its piece l / 8 % 2.
__device__ __forceinline__ void store_transposed(unsigned address, const Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

// By one thread: what is prepared of all of a head's chunks. It knows that one has been put before there is a stage for it.
__device__ __forceinline__ void bring(CarryMemory& memory, const Prepared* places, int head, int steps) {
  for (int step = 0; step < steps; ++step) {
    const int stage = step % STAGES;
    Matrices& to = memory.stages[stage];
    Barrier& full = memory.full[stage];
    const Prepared& from = places[step % PLACES];
    wait_until_put(head, step);
    if (step >= STAGES) wait(memory.empty[stage], (step / STAGES - 1) % 2);
    arrive_expecting(full, PREPARED_BYTES);
    load_bulk(&to.decayed, &from.matrices.decayed, sizeof(to.decayed), full);
    load_bulk(&memory.whole[stage], &from.whole, WHOLE_BYTES, full);
    load_bulk(&to.queries, &from.matrices.queries, sizeof(to.queries) + sizeof(to.keys), full);
    load_bulk(&to.products, &from.matrices.products, sizeof(to.products) + sizeof(to.solved), full);
  }
}

// By one thread: gives places in global memory back.
__device__ __forceinline__ void release(CarryMemory& memory, int head, int steps) {
  for (int step = 0; step < steps; ++step) {
    wait(memory.full[step % STAGES], step / STAGES % 2);
    release_place(head, step);
    arrive(memory.empty[step % STAGES]);
  }
  clear_counters(head);
}

// By one thread: the values of all chunks, where beyond a sequence's end are another one's. Asks the L2 for the next sequence's
// state.
__device__ __forceinline__ void bring_values(CarryMemory& memory, const TensorMap& values, const float* state,
                                             const long long* cu_seqlens, int sequences, int of_group) {
  constexpr int BAND = GDN_V / 2, STATE = GDN_V * GDN_K;
  int step = 0;
  for (int head = of_group; head < GDN_H; head += HEADS)
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const float* const next = state + (static_cast<size_t>(sequence + 1) * GDN_H + head) * STATE;
      if (sequence + 1 < sequences)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(next), "n"(STATE * sizeof(float)) : "memory");
      const int end = static_cast<int>(cu_seqlens[sequence + 1]);
      for (int token = static_cast<int>(cu_seqlens[sequence]); token < end; token += CHUNK, ++step) {
        const int place = step % VALUE_STAGES;
        if (step >= VALUE_STAGES) wait(memory.read[place], (step / VALUE_STAGES - 1) % 2);
        arrive_expecting(memory.come[place], sizeof(memory.values[place]));
        for (int from = 0; from < GDN_V; from += BAND)
          load_box(memory.values[place] + from * CHUNK, values, token, head, from, memory.come[place]);
      }
    }
}

// S diag(G_C).
__device__ __forceinline__ void decay_channels(State& s, const float* kept, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * KEY_TILES; ++n) {
    const float2 by = *reinterpret_cast<const float2*>(&kept[n * 8 + lane % 4 * 2]);
    s[n][0] *= by.x, s[n][1] *= by.y, s[n][2] *= by.x, s[n][3] *= by.y;
  }
}

// V for a warp's rows, from which products with keys are subtracted: keys come negated.
__device__ __forceinline__ void take_values(Sum (&to)[TOKEN_PAIRS], const __nv_bfloat16* values, int warp, unsigned lane) {
  Operand pairs[SIDE];
  load_values(pairs, shared_address(values), warp, lane, banded<CHUNK>);
#pragma unroll
  for (int i = 0; i < SIDE; ++i)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 own = unpack_bf16(pairs[i][n]);
      float* sum = &to[2 * i + n / 2][n % 2 * 2];
      sum[0] = own.x, sum[1] = own.y;
    }
}

// V - S (G ∘ K)^T, as it was summed up, as operands; zeros after so many tokens, where others' values were.
__device__ __forceinline__ void take_rest(Operand (&rest)[SIDE], const Sum (&sums)[TOKEN_PAIRS], int tokens, unsigned lane) {
#pragma unroll
  for (int i = 0; i < SIDE; ++i)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float* sum = &sums[2 * i + n / 2][n % 2 * 2];
      rest[i][n] = pack_bf16(sum[0], sum[1]);
    }
  if (tokens >= CHUNK) return;
#pragma unroll
  for (int i = 0; i < SIDE; ++i)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int token = i * TILE + n / 2 * 8 + lane % 4 * 2;
      if (token + 1 >= tokens) rest[i][n] &= 0xffff;
      if (token >= tokens) rest[i][n] = 0;
    }
}

// A step's outputs for a warp's rows, in the place of decayed keys, which all warps have read.
__device__ __forceinline__ void show(CarryMemory& memory, int step, const Sum (&sums)[TOKEN_PAIRS], int warp, unsigned lane) {
  const unsigned to = shared_address(&memory.stages[step % STAGES].decayed) +
                      banded<CHUNK>(lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2);
  wait(memory.read[step % VALUE_STAGES], step / VALUE_STAGES % 2);
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; n += 2) {
    Operand pairs;
    narrow(pairs, sums[n], sums[n + 1]);
    store_transposed(to + n * (8 * BAND_BYTES), pairs);
  }
  arrive_together(memory.shown[step % STAGES], lane);
}

// By each of some warps: a part of the outputs of all chunks, as they are shown, [tokens, H * V] from `output` on.
__device__ __forceinline__ void store_outputs(CarryMemory& memory, __nv_bfloat16* output, const long long* cu_seqlens,
                                              int sequences, int of_group, int warp, unsigned lane) {
  const int token = 2 * warp + lane / 16, piece = lane % 16;  // half of the lanes has a token's values
  const unsigned place = banded<CHUNK>(token, piece);
  int step = 0;
#pragma unroll 1
  for (int head = of_group; head < GDN_H; head += HEADS)
#pragma unroll 1
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const long long begin = cu_seqlens[sequence];
      int left = static_cast<int>(cu_seqlens[sequence + 1] - begin) - token;
      __nv_bfloat16* to = output + ((begin + token) * GDN_H + head) * GDN_V + piece * 8;
#pragma unroll 1
      for (; left > -token; left -= CHUNK, ++step) {
        const char* const from = reinterpret_cast<const char*>(&memory.stages[step % STAGES].decayed) + place;
        wait(memory.shown[step % STAGES], step / STAGES % 2);
#pragma unroll 2
        for (int i = 0; i < CHUNK; i += 2 * OUTPUT_WARPS) {
          if (i < left)
            *reinterpret_cast<uint4*>(to + static_cast<long long>(i) * (GDN_H * GDN_V)) =
                *reinterpret_cast<const uint4*>(from + i * BAND_BYTES);
        }
        to += CHUNK * (GDN_H * GDN_V);
        fence_async_proxy();
        arrive_together(memory.empty[step % STAGES], lane);
      }
    }
}

// S Q^T, or what of it is of some tiles of channels.
template <int From, int To>
__device__ __forceinline__ void multiply_queries(Sum (&sums)[TOKEN_PAIRS], const Operand (&s)[KEY_TILES], const Rows& queries) {
#pragma unroll
  for (int i = From; i < To; ++i) {
    const unsigned long long right = matrix(queries).descriptor(banded<CHUNK>(0, 2 * i));
    if (i == 0)
      multiply<false>(sums, s[i], right);
    else
      multiply<true>(sums, s[i], right);
  }
  commit_group();
}

// A warp's 16 rows of a state.
struct Carried {
  State s;
  Operand begun[KEY_TILES];  // the state where the chunk begins

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    keep_in_place(begun);
  }

  // Over a sequence's chunks, the first of which is `step`. While numbers are worked out between two products of the chain, one of
  // outputs is under way; ptxas lets it be where no branch stands between them, so that the first chunk has code of its own.
  __device__ __forceinline__ void carry(CarryMemory& memory, int& step, int tokens, int warp, unsigned lane) {
    GDNBENCH_PHASES_BEGIN();
    Sum sums[TOKEN_PAIRS], outputs[TOKEN_PAIRS];
    Operand rest[SIDE], u[SIDE];
    int left = tokens;
    const auto await_next = [&] {
      wait(memory.come[step % VALUE_STAGES], step / VALUE_STAGES % 2);
      take_values(sums, memory.values[step % VALUE_STAGES], warp, lane);
      keep_in_place(sums);
      wait(memory.full[step % STAGES], step / STAGES % 2);
    };
    const auto take = [&](bool shows) {
      const int stage = uniform(step % STAGES), place = uniform(step % VALUE_STAGES);
      const Matrices& here = memory.stages[stage];
      fence_warpgroup();
      multiply_operands<GDN_K, CHUNK, true>(sums, begun, matrix(here.decayed));
      commit_group();
      if (shows) show(memory, step - 1, outputs, warp, lane);
      GDNBENCH_PHASE(output);
      fence_warpgroup();
      multiply_queries<0, KEY_TILES / 2>(outputs, begun, here.queries);
      wait_for_groups<1>();
      keep_in_place(sums);
      GDNBENCH_PHASE(read);
      take_rest(rest, sums, left, lane);
      keep_in_place(rest);
      arrive_together(memory.read[place], lane);
      GDNBENCH_PHASE(subtract);
      fence_warpgroup();
      multiply_operands<CHUNK, CHUNK, false>(sums, rest, matrix(here.solved));
      commit_group();
      multiply_queries<KEY_TILES / 2, KEY_TILES>(outputs, begun, here.queries);
      keep_in_place(s);
      decay_channels(s, memory.whole[stage], lane);
      keep_in_place(s);
      wait_for_groups<1>();
      keep_in_place(sums);
#pragma unroll
      for (int i = 0; i < SIDE; ++i) narrow(u[i], sums[2 * i], sums[2 * i + 1]);
      keep_in_place(u);
      GDNBENCH_PHASE(solve);
      fence_warpgroup();
      add_written(s, u, matrix(here.keys, CHUNK * BAND_BYTES));
      commit_group();
      multiply_operands<CHUNK, CHUNK, true>(outputs, u, matrix(here.products));
      commit_group();
      ++step;
      wait_for_groups<1>();
      keep_in_place(s);
      GDNBENCH_PHASE(write);
      begin();
      GDNBENCH_PHASE(narrow);
      if (left > CHUNK) await_next();
      GDNBENCH_PHASE(full);
      wait_for_groups<0>();
      keep_in_place(outputs);
      GDNBENCH_PHASE(last);
    };
    begin();
    await_next();
    take(false);
#pragma unroll 1
    for (left -= CHUNK; left > 0; left -= CHUNK) take(true);
    show(memory, step - 1, outputs, warp, lane);
  }
};

// By a block: the states of a group's head, of all groups and sequences.
__device__ __forceinline__ void carry_all(CarryMemory& memory, const TensorMap& values, const float* state, float* new_state,
                                          __nv_bfloat16* output, const long long* cu_seqlens, const Prepared* ready,
                                          int sequences, int chunks, int of_group) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();
  if (warp >= STATE_WARPS) {
    give_registers<24>();
    const int steps = (GDN_H - of_group + HEADS - 1) / HEADS * chunks;
    if (lane == 0 && warp == BRINGS) bring(memory, ready + static_cast<size_t>(of_group) * PLACES, of_group, steps);
    if (lane == 0 && warp == RELEASES) release(memory, of_group, steps);
    if (lane == 0 && warp == VALUES) bring_values(memory, values, state, cu_seqlens, sequences, of_group);
    if (warp >= STORES) store_outputs(memory, output, cu_seqlens, sequences, of_group, warp - STORES, lane);
    return;
  }
  take_registers<232>();
  int step = 0;
#pragma unroll 1
  for (int head = of_group; head < GDN_H; head += HEADS)
#pragma unroll 1
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const int tokens = uniform(static_cast<int>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]));
      const int row = static_cast<int>(warp) * TILE;
      const size_t at = ((static_cast<size_t>(sequence) * GDN_H + head) * GDN_V + row) * GDN_K;
      Carried rows;
      load_state(rows.s, state + at, lane);
      if (tokens > 0) rows.carry(memory, step, tokens, warp, lane);
      store_state(new_state + at, rows.s, lane);
    }
}

}  // namespace kda
