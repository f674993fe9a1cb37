// One launch, in which blocks that prepare chunks run beside blocks that carry states through them. What is prepared
// lies in the L2 until it is taken, so that memory moves little but the tensors.
//
// A block that carries has 64 rows of a head's state, in the registers of a warpgroup, and works out their outputs, too:
// U^T = W^T - S Y^T, S = S diag(G_C) + U^T K, and S Q^T + U^T P^T all have rows of the state for rows.
#include "../ring.cuh"

namespace {

constexpr int STAGES = 2;  // chunks in shared memory

// What a block needs of chunks, each part as it comes and goes.
struct CarryMemory {
  gdn::Rows y[STAGES], keys[STAGES], queries;
  gdn::Triangle products;
  uint4 w[STAGES][gdn::GROUP_WARPS][gdn::SIDE][gdn::WARP];
  float whole[STAGES][GDN_K];
  struct Part {
    gdn::Barrier full, empty;
  } read[STAGES], written[STAGES], shown, mixed;  // y, w and whole; keys; queries; products

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    const auto begin = [](Part& part) {
      gdn::initialise(part.full, 1);
      gdn::initialise(part.empty, gdn::GROUP_WARPS);
    };
    for (int i = 0; i < STAGES; ++i) begin(read[i]), begin(written[i]);
    begin(shown), begin(mixed);
    gdn::fence_async_proxy();
  }
};

// By one thread: the part of the chunk numbered `step` may be overwritten; `stages` are of its kind.
__device__ __forceinline__ void wait_until_empty(const CarryMemory::Part& part, int step, int stages) {
  if (step >= stages) gdn::wait(part.empty, (step / stages - 1) % 2);
}

// By one thread: what the state's chain begins with, and the queries.
__device__ __forceinline__ void bring_read(CarryMemory& memory, const kda::AllReady* places, int head, int rows,
                                           int steps) {
  for (int step = 0; step < steps; ++step) {
    const int slot = step % STAGES;
    const kda::AllReady& from = places[step % PLACES];
    CarryMemory::Part& part = memory.read[slot];
    kda::wait_until_put(head, step);
    wait_until_empty(part, step, STAGES);
    gdn::arrive_expecting(part.full, sizeof(memory.y[0]) + sizeof(memory.w[0]) + sizeof(memory.whole[0]));
    gdn::load_bulk(memory.y[slot], from.alike.y, sizeof(memory.y[0]), part.full);
    gdn::load_bulk(memory.w[slot], from.w[rows * gdn::GROUP_WARPS], sizeof(memory.w[0]), part.full);
    gdn::load_bulk(memory.whole[slot], from.alike.whole, sizeof(memory.whole[0]), part.full);
    wait_until_empty(memory.shown, step, 1);
    gdn::arrive_expecting(memory.shown.full, sizeof(memory.queries));
    gdn::load_bulk(memory.queries, from.alike.queries, sizeof(memory.queries), memory.shown.full);
  }
}

// By one thread: what is multiplied by what the chunk writes.
__device__ __forceinline__ void bring_written(CarryMemory& memory, const kda::AllReady* places, int head, int steps) {
  for (int step = 0; step < steps; ++step) {
    const int slot = step % STAGES;
    const kda::AllReady& from = places[step % PLACES];
    CarryMemory::Part& part = memory.written[slot];
    kda::wait_until_put(head, step);
    wait_until_empty(part, step, STAGES);
    gdn::arrive_expecting(part.full, sizeof(memory.keys[0]));
    gdn::load_bulk(memory.keys[slot], from.alike.keys, sizeof(memory.keys[0]), part.full);
    wait_until_empty(memory.mixed, step, 1);
    gdn::arrive_expecting(memory.mixed.full, sizeof(memory.products));
    gdn::load_bulk(memory.products, from.alike.products, sizeof(memory.products), memory.mixed.full);
  }
}

// S diag(G_C).
__device__ __forceinline__ void decay_channels(gdn::State& s, const float* kept, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * gdn::KEY_TILES; ++n) {
    const float2 by = *reinterpret_cast<const float2*>(&kept[n * 8 + lane % 4 * 2]);
    s[n][0] *= by.x, s[n][1] *= by.y, s[n][2] *= by.x, s[n][3] *= by.y;
  }
}

// Sums [64, 64] of A [64, 16] and B [16, 64], whose rows are rows in shared memory. Where threads begin with few registers,
// ptxas has none of [64, 128].
__device__ __forceinline__ void add_product(gdn::Sum (&sums)[8], const gdn::Operand& a, unsigned long long b) {
#define KDA_SUM(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
      : KDA_SUM(0), KDA_SUM(1), KDA_SUM(2), KDA_SUM(3), KDA_SUM(4), KDA_SUM(5), KDA_SUM(6), KDA_SUM(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#undef KDA_SUM
}

// S + U^T K, for U^T as operands.
__device__ __forceinline__ void add_by_bands(gdn::State& s, const gdn::Operand (&u)[gdn::SIDE], gdn::Matrix keys) {
#pragma unroll
  for (int token = 0; token < gdn::SIDE; ++token)
#pragma unroll
    for (int band = 0; band < 2; ++band)
      add_product(*reinterpret_cast<gdn::Sum(*)[8]>(&s[8 * band]), u[token],
                  keys.descriptor(band * (gdn::CHUNK * gdn::BAND_BYTES) + token * (gdn::TILE * gdn::BAND_BYTES)));
}

// W - Y S^T as operands.
__device__ __forceinline__ void subtract(gdn::Operand (&u)[gdn::SIDE], const uint4 (&w)[gdn::SIDE][gdn::WARP],
                                         const gdn::Sum (&read)[gdn::TOKEN_PAIRS], unsigned lane) {
#pragma unroll
  for (int i = 0; i < gdn::SIDE; ++i) {
    const uint4 bits = w[i][lane];
    const unsigned pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 own = gdn::unpack_bf16(pairs[n]);
      const float* sum = &read[2 * i + n / 2][n % 2 * 2];
      u[i][n] = gdn::pack_bf16(own.x - sum[0], own.y - sum[1]);
    }
  }
}

// By a warp: its 16 rows of a sequence's state, from its first chunk, numbered `step`, to its end.
__device__ __forceinline__ void carry(gdn::State& s, CarryMemory& memory, int head, int step, int tokens,
                                      __nv_bfloat16* output, int warp, unsigned lane) {
#pragma unroll 1
  for (int token = 0; token < tokens; token += gdn::CHUNK, ++step) {
    const int slot = step % STAGES, parity = step / STAGES % 2;
    CarryMemory::Part &read = memory.read[slot], &written = memory.written[slot];
    gdn::Sum sums[gdn::TOKEN_PAIRS], shown[gdn::TOKEN_PAIRS];
    gdn::Operand begun[gdn::KEY_TILES], u[gdn::SIDE];
#pragma unroll
    for (int k = 0; k < gdn::KEY_TILES; ++k) gdn::narrow(begun[k], s[2 * k], s[2 * k + 1]);
    gdn::keep_in_place(begun);
    gdn::wait(read.full, parity);
    gdn::fence_warpgroup();
    gdn::multiply_operands<GDN_K, gdn::CHUNK, false>(sums, begun, gdn::matrix(memory.y[slot]));
    gdn::commit_group();
    gdn::keep_in_place(s);
    decay_channels(s, memory.whole[slot], lane);
    gdn::keep_in_place(s);
    gdn::wait_for_groups<0>();
    gdn::keep_in_place(sums);
    subtract(u, memory.w[slot][warp], sums, lane);
    gdn::keep_in_place(u);
    gdn::arrive_together(read.empty, lane);
    gdn::wait(memory.shown.full, step % 2);
    gdn::fence_warpgroup();
    gdn::multiply_operands<GDN_K, gdn::CHUNK, false>(shown, begun, gdn::matrix(memory.queries));
    gdn::wait(written.full, parity);
    add_by_bands(s, u, gdn::matrix(memory.keys[slot]));
    gdn::commit_group();
    gdn::wait(memory.mixed.full, step % 2);
    gdn::multiply_operands<gdn::CHUNK, gdn::CHUNK, true>(shown, u, gdn::matrix(memory.products));
    gdn::commit_group();
    if (warp == 0 && lane == 0) kda::add_released(&kda::chunks_read[head][step % PLACES]);
    gdn::wait_for_groups<0>();
    gdn::keep_in_place(s);
    gdn::keep_in_place(shown);
    gdn::arrive_together(memory.shown.empty, lane);
    gdn::arrive_together(written.empty, lane);
    gdn::arrive_together(memory.mixed.empty, lane);
    gdn::store_output(output, shown, min(tokens - token, gdn::CHUNK), lane);
    output += gdn::CHUNK * (GDN_H * GDN_V);
  }
}

// By a block: rows of the states of a group's head, of all groups and sequences.
__device__ __forceinline__ void carry_all(CarryMemory& memory, const float* state, float* new_state,
                                          __nv_bfloat16* output, const long long* cu_seqlens,
                                          const kda::AllReady* ready, int sequences, int chunks, int place) {
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int of_group = place / kda::READERS, rows = place % kda::READERS;
  const int groups = (GDN_H - of_group + kda::HEADS - 1) / kda::HEADS, steps = groups * chunks;
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();
  if (warp >= gdn::GROUP_WARPS) {
    gdn::give_registers<24>();
    const kda::AllReady* const places = ready + static_cast<size_t>(of_group) * PLACES;
    if (lane == 0 && warp == gdn::GROUP_WARPS) bring_read(memory, places, of_group, rows, steps);
    if (lane == 0 && warp == gdn::GROUP_WARPS + 1) bring_written(memory, places, of_group, steps);
    return;
  }
  gdn::take_registers<184>();
  int step = 0;
#pragma unroll 1
  for (int head = of_group; head < GDN_H; head += kda::HEADS)
#pragma unroll 1
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const long long begin = cu_seqlens[sequence];
      const int tokens = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - begin));
      const int row = rows * gdn::ROWS + static_cast<int>(warp) * gdn::TILE;
      const size_t at = ((static_cast<size_t>(sequence) * GDN_H + head) * GDN_V + row) * GDN_K;
      gdn::State s;
      gdn::load_state(s, state + at, lane);
      carry(s, memory, of_group, step, tokens, output + (begin * GDN_H + head) * GDN_V + row, warp, lane);
      gdn::store_state(new_state + at, s, lane);
      step += gdn::chunks_of(0, tokens);
    }
  if (threadIdx.x == 0) kda::finish(of_group);
}

// Finds chunks, numbered through all sequences, that are asked for nearly in their order.
struct Cursor {
  int sequence = 0, before = 0;  // chunks of the sequences before it

  __device__ __forceinline__ gdn::Span find(const long long* cu_seqlens, int chunk) {
    if (chunk < before) sequence = before = 0;
    for (;; ++sequence) {
      const long long begin = cu_seqlens[sequence];
      const int tokens = static_cast<int>(cu_seqlens[sequence + 1] - begin), own = gdn::chunks_of(0, tokens);
      const int first = (chunk - before) * gdn::CHUNK;
      if (chunk - before < own) return {begin + first, min(tokens - first, gdn::CHUNK)};
      before += own;
    }
  }
};

// By a block: asks the L2 for a chunk's tokens, 64 rows of four tensors.
__device__ __forceinline__ void prefetch(const kda::Inputs& in, int head, const gdn::Span& span) {
  static_assert(kda::THREADS == 8 * gdn::CHUNK && GDN_K == GDN_V, "a thread for each half of a row");
  const int token = threadIdx.x / 2 % gdn::CHUNK, which = threadIdx.x / (2 * gdn::CHUNK);
  if (token >= span.tokens) return;
  const __nv_bfloat16* const tensor = which < 2 ? (which == 0 ? in.q : in.k) : (which == 2 ? in.v : in.g);
  const __nv_bfloat16* const row = tensor + ((span.begin + token) * GDN_H + head) * GDN_K;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(row + threadIdx.x % 2 * (GDN_K / 2)));
}

// By a block: chunks of all heads in the order in which they are taken, each by whichever block is free.
__device__ __forceinline__ void prepare_all(kda::ChunkMemory& memory, int& next, const kda::Inputs& in,
                                            const long long* cu_seqlens, kda::AllReady* ready, int chunks,
                                            int first, int blocks) {
  const int items = kda::GROUPS_OF_HEADS * chunks * kda::HEADS;
  const auto head_of = [&](int item) { return item / kda::HEADS / chunks * kda::HEADS + item % kda::HEADS; };
  const auto chunk_of = [&](int item) { return item / kda::HEADS % chunks; };
  const auto tell = [](int item) { kda::tell_put(item % kda::HEADS, item / kda::HEADS); };
  Cursor here, ahead;
  int stored = -1, claimed = 0, item = first;
  while (item < items) {
    const auto early = [&] {
      if (threadIdx.x == 0) {
        if (stored >= 0) tell(stored);
        claimed = blocks + static_cast<int>(kda::add(&kda::chunks_claimed));
      }
      const int later = item + blocks;  // some block's next one
      if (AHEAD && later < items && head_of(later) < GDN_H)
        prefetch(in, head_of(later), ahead.find(cu_seqlens, chunk_of(later)));
    };
    const auto late = [&] {
      if (threadIdx.x == 0) next = claimed;
    };
    const gdn::Span span = here.find(cu_seqlens, chunk_of(item));
    kda::prepare_chunk(memory, in, min(head_of(item), GDN_H - 1), span, early, late);
    if (head_of(item) < GDN_H) {
      const int of_group = item % kda::HEADS, step = item / kda::HEADS;
      if (threadIdx.x == 0) kda::wait_until_read(of_group, step);
      kda::store_chunk(ready[of_group * PLACES + step % PLACES], memory);
      stored = item;
    }
    item = next;
  }
  if (threadIdx.x != 0) return;
  if (stored >= 0) tell(stored);
  kda::leave(blocks);
}

}  // namespace

// A head's blocks of 64 rows follow each other, and come first: they and any other one can finish. All others prepare.
extern "C" __global__ void __launch_bounds__(kda::THREADS, 2)
    kda_prefill(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                const __nv_bfloat16* __restrict__ v, const __nv_bfloat16* __restrict__ g,
                const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state,
                const long long* __restrict__ cu_seqlens, const float scale, const float lower_bound,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, kda::AllReady* ready,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  __shared__ int next;
  constexpr int CARRYING = kda::HEADS * kda::READERS;
  const int block = static_cast<int>(blockIdx.x), preparing = static_cast<int>(gridDim.x) - CARRYING;
  if (block >= CARRYING)
    prepare_all(*reinterpret_cast<kda::ChunkMemory*>(bytes), next, {q, k, v, g, b, A_log, dt_bias, scale, lower_bound},
                cu_seqlens, ready, static_cast<int>(chunks), block - CARRYING, preparing);
  else
    carry_all(*reinterpret_cast<CarryMemory*>(bytes), state, new_state, output, cu_seqlens, ready,
              static_cast<int>(sequences), static_cast<int>(chunks), block);
}
