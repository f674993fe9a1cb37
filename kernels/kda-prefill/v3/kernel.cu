// v2 with whole SMs for the heads that are carried, of 128 rows each in two warpgroups, so that what is prepared is read once;
// all other blocks prepare two chunks at a time, each by a team of half of their warps.
#include <gdnbench/phases.cuh>

#include "../sixteens.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, read, subtract, write, output, decay, parts, near, rows, solve, store);

namespace {

constexpr int STAGES = 3;  // chunks in shared memory
constexpr int STATE_GROUPS = GDN_V / gdn::GROUP_ROWS;

// What a block that carries has of chunks.
struct CarryMemory {
  struct alignas(1024) Stage : kda::AllReady {
  } stages[STAGES];
  gdn::Barrier full[STAGES], empty[STAGES];

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(full[i], 1);
      gdn::initialise(empty[i], STATE_GROUPS * gdn::GROUP_WARPS + 1);
    }
    gdn::fence_async_proxy();
  }
};

constexpr size_t BLOCK_BYTES = 231424;
static_assert(sizeof(CarryMemory) <= BLOCK_BYTES && kda::TEAMS * sizeof(kda::TeamMemory) == BLOCK_BYTES, "as is asked for");

// By one thread: all chunks of a head. It knows that one has been put before there is a stage for it.
__device__ __forceinline__ void bring(CarryMemory& memory, const kda::AllReady* places, int head, int steps) {
  for (int step = 0; step < steps; ++step) {
    CarryMemory::Stage& to = memory.stages[step % STAGES];
    gdn::Barrier& full = memory.full[step % STAGES];
    const kda::AllReady& from = places[step % PLACES];
    kda::wait_until_put(head, step);
    if (step >= STAGES) gdn::wait(memory.empty[step % STAGES], (step / STAGES - 1) % 2);
    gdn::arrive_expecting(full, sizeof(kda::AllReady));
    gdn::load_bulk(&to.alike.y, &from.alike.y, sizeof(gdn::Rows), full);
    gdn::load_bulk(&to.w, &from.w, sizeof(from.w), full);
    gdn::load_bulk(&to.alike.queries, &from.alike.queries, 2 * sizeof(gdn::Rows), full);
    gdn::load_bulk(&to.alike.products, &from.alike.products, sizeof(gdn::Triangle) + sizeof(from.alike.whole), full);
  }
}

// By one thread: gives places in global memory back. It waits for all that its thread has stored, which takes a microsecond
// where outputs are among that.
__device__ __forceinline__ void release(CarryMemory& memory, int head, int steps) {
  for (int step = 0; step < steps; ++step) {
    gdn::wait(memory.full[step % STAGES], step / STAGES % 2);
    kda::release_place(head, step);
    gdn::arrive(memory.empty[step % STAGES]);
  }
  kda::clear_counters(head);
}

// S diag(G_C).
__device__ __forceinline__ void decay_channels(gdn::State& s, const float* kept, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * gdn::KEY_TILES; ++n) {
    const float2 by = *reinterpret_cast<const float2*>(&kept[n * 8 + lane % 4 * 2]);
    s[n][0] *= by.x, s[n][1] *= by.y, s[n][2] *= by.x, s[n][3] *= by.y;
  }
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

// The output of a chunk's tokens, [tokens, H * V] from `to` on, for a warp's rows. Of two tokens' values, which are 32 bytes each,
// two lanes exchange halves, so that each store has whole sectors.
__device__ __forceinline__ void store_output(__nv_bfloat16* to, const gdn::Sum (&sums)[gdn::TOKEN_PAIRS], int tokens,
                                             unsigned lane) {
  const bool is_second = lane & 4;
  const int first = lane / 8 * 2;
  __nv_bfloat16* const from = to + static_cast<long long>(first) * (GDN_H * GDN_V) + (is_second * 4 + lane % 4) * 2;
#pragma unroll
  for (int n = 0; n < gdn::TOKEN_PAIRS; ++n) {
    const unsigned upper = gdn::transpose(gdn::pack_bf16(sums[n][0], sums[n][1]));
    const unsigned lower = gdn::transpose(gdn::pack_bf16(sums[n][2], sums[n][3]));
    const unsigned got = __shfl_xor_sync(gdn::ALL_LANES, is_second ? upper : lower, 4);
    __nv_bfloat16* const row = from + n * (8 * GDN_H * GDN_V);
    if (n * 8 + first < tokens) *reinterpret_cast<unsigned*>(row) = is_second ? got : upper;
    if (n * 8 + first + 1 < tokens) *reinterpret_cast<unsigned*>(row + GDN_H * GDN_V) = is_second ? lower : got;
  }
}

// By a warp: its 16 rows of a sequence's state, from its first chunk, numbered `step`, to its end. While numbers are worked out
// between products, another one is under way: that of the queries, or of the next chunk.
__device__ __forceinline__ void carry(gdn::State& s, CarryMemory& memory, int& step, int tokens, __nv_bfloat16* output,
                                      int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  gdn::Sum sums[gdn::TOKEN_PAIRS], shown[gdn::TOKEN_PAIRS];
  gdn::Operand begun[gdn::KEY_TILES], u[gdn::SIDE];
  // S Y^T of the chunk numbered `step`, and the state's decay.
  const auto begin = [&] {
    const CarryMemory::Stage& here = memory.stages[step % STAGES];
#pragma unroll
    for (int k = 0; k < gdn::KEY_TILES; ++k) gdn::narrow(begun[k], s[2 * k], s[2 * k + 1]);
    gdn::keep_in_place(begun);
    GDNBENCH_PHASE(narrow);
    gdn::wait(memory.full[step % STAGES], step / STAGES % 2);
    GDNBENCH_PHASE(full);
    gdn::fence_warpgroup();
    gdn::multiply_operands<GDN_K, gdn::CHUNK, false>(sums, begun, gdn::matrix(here.alike.y));
    gdn::commit_group();
    gdn::keep_in_place(s);
    decay_channels(s, here.alike.whole, lane);
    gdn::keep_in_place(s);
  };
  begin();
  gdn::wait_for_groups<0>();
  gdn::keep_in_place(sums);
  int left = tokens;
#pragma unroll 1
  for (;; left -= gdn::CHUNK) {
    const CarryMemory::Stage& here = memory.stages[step % STAGES];
    gdn::fence_warpgroup();
    gdn::multiply_operands<GDN_K, gdn::CHUNK, false>(shown, begun, gdn::matrix(here.alike.queries));
    gdn::commit_group();
    subtract(u, here.w[warp], sums, lane);
    gdn::keep_in_place(u);
    GDNBENCH_PHASE(subtract);
    gdn::fence_warpgroup();
    gdn::add_written(s, u, gdn::matrix(here.alike.keys, gdn::CHUNK * gdn::BAND_BYTES));
    gdn::commit_group();
    gdn::multiply_operands<gdn::CHUNK, gdn::CHUNK, true>(shown, u, gdn::matrix(here.alike.products));
    gdn::commit_group();
    gdn::wait_for_groups<0>();  // for all, or ptxas would wait for each product of the kernel
    gdn::keep_in_place(s);
    gdn::keep_in_place(shown);
    gdn::arrive_together(memory.empty[step % STAGES], lane);
    GDNBENCH_PHASE(write);
    ++step;
    if (left <= gdn::CHUNK) break;
    begin();
    store_output(output, shown, gdn::CHUNK, lane);
    output += gdn::CHUNK * (GDN_H * GDN_V);
    GDNBENCH_PHASE(output);
    gdn::wait_for_groups<0>();
    gdn::keep_in_place(sums);
    GDNBENCH_PHASE(read);
  }
  store_output(output, shown, left, lane);
}

// By a block: the states of a group's head, of all groups and sequences.
__device__ __forceinline__ void carry_all(CarryMemory& memory, const float* state, float* new_state,
                                          __nv_bfloat16* output, const long long* cu_seqlens,
                                          const kda::AllReady* ready, int sequences, int chunks, int of_group) {
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();
  if (warp >= STATE_GROUPS * gdn::GROUP_WARPS) {
    gdn::give_registers<24>();
    const int steps = (GDN_H - of_group + kda::HEADS - 1) / kda::HEADS * chunks;
    const kda::AllReady* const places = ready + static_cast<size_t>(of_group) * PLACES;
    if (lane == 0 && warp == STATE_GROUPS * gdn::GROUP_WARPS) bring(memory, places, of_group, steps);
    if (lane == 0 && warp == STATE_GROUPS * gdn::GROUP_WARPS + 1) release(memory, of_group, steps);
    return;
  }
  gdn::take_registers<232>();
  int step = 0;
#pragma unroll 1
  for (int head = of_group; head < GDN_H; head += kda::HEADS)
#pragma unroll 1
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const long long begin = cu_seqlens[sequence];
      const int tokens = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - begin));
      const int row = static_cast<int>(warp) * gdn::TILE;
      const size_t at = ((static_cast<size_t>(sequence) * GDN_H + head) * GDN_V + row) * GDN_K;
      gdn::State s;
      gdn::load_state(s, state + at, lane);
      if (tokens > 0)
        carry(s, memory, step, tokens, output + (begin * GDN_H + head) * GDN_V + row, warp, lane);
      gdn::store_state(new_state + at, s, lane);
    }
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

// By a team: asks the L2 for a chunk's tokens, 64 rows of four tensors.
__device__ __forceinline__ void prefetch(const kda::Inputs& in, int head, const gdn::Span& span, unsigned thread) {
  static_assert(kda::TEAM == 4 * gdn::CHUNK && GDN_K == GDN_V, "a thread for each row");
  const int token = thread % gdn::CHUNK, which = thread / gdn::CHUNK;
  if (token >= span.tokens) return;
  const __nv_bfloat16* const tensor = which < 2 ? (which == 0 ? in.q : in.k) : (which == 2 ? in.v : in.g);
  const __nv_bfloat16* const row = tensor + ((span.begin + token) * GDN_H + head) * GDN_K;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(row));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(row + GDN_K / 2));
}

// By a team: chunks of all heads in the order in which they are taken, each by whichever team is free.
__device__ __forceinline__ void prepare_all(kda::TeamMemory& memory, int& next, const kda::Inputs& in,
                                            const long long* cu_seqlens, kda::AllReady* ready, int chunks, int team,
                                            int first, int teams) {
  GDNBENCH_PHASES_BEGIN();
  const int items = kda::GROUPS_OF_HEADS * chunks * kda::HEADS;
  const auto head_of = [&](int item) { return item / kda::HEADS / chunks * kda::HEADS + item % kda::HEADS; };
  const auto chunk_of = [&](int item) { return item / kda::HEADS % chunks; };
  const auto tell = [](int item) { kda::tell_put(item % kda::HEADS, item / kda::HEADS); };
  // Lanes of the last warps, which have the least to do, speak with other blocks: one stores chunks and tells it, one claims.
  const auto is_lane_of = [](int warp) { return threadIdx.x % kda::TEAM == warp * gdn::WARP; };
  Cursor here, ahead;
  int stored = -1, claimed = 0, item = first;
  kda::Sixteen rows;
  gdn::Span span;
  long long first_token = 0;  // of the warp's, times heads
  int tokens = 0;
  // Asks for a chunk's keys and queries.
  const auto ask = [&](int item, unsigned thread) {
    if (item >= items) return;
    span = here.find(cu_seqlens, chunk_of(item));
    const int tile = gdn::uniform(thread / (2 * gdn::WARP)), head = min(head_of(item), GDN_H - 1);
    tokens = span.tokens - tile * gdn::TILE;
    first_token = (span.begin + tile * gdn::TILE) * GDN_H + head;
    rows.load_tokens(in, first_token * GDN_K + thread % (2 * gdn::WARP) * 2, tokens);
  };
  ask(item, threadIdx.x % kda::TEAM);
  while (item < items) {
    // Addresses are worked out for each chunk: all of them would fill registers.
    const unsigned thread = __shfl_xor_sync(gdn::ALL_LANES, gdn::worked_out_anew(threadIdx.x % kda::TEAM), 0);
    const unsigned lane = thread % gdn::WARP, warp = gdn::uniform(thread / gdn::WARP);
    const bool tells = is_lane_of(6), claims = is_lane_of(7);
    const int tile = warp / 2, half = warp % 2, pair = half * gdn::WARP + lane, head = min(head_of(item), GDN_H - 1);
    rows.load_gates(in, first_token * GDN_K + 2 * pair, tokens);
    float beta = __uint_as_float(0xff800000u);  // after the end
    if (half == 0 && static_cast<int>(lane) < min(tokens, gdn::TILE))
      beta = __bfloat162float(in.b[first_token + lane * GDN_H]);
    gdn::load_tile<GDN_V / 8, kda::TEAM>(gdn::shared_address(memory.values), in.v + (span.begin * GDN_H + head) * GDN_V,
                                         GDN_H * GDN_V, span.tokens, thread, gdn::banded<gdn::CHUNK>);
    memory.squares[half][tile][kda::Sixteen::square_of(lane)] = rows.take_squares(lane);
    rows.decay(in.A_log + head, in.dt_bias + head * GDN_K + 2 * pair, in.lower_bound);
    memory.kept[tile][pair] = rows.whole;
    if (half == 0 && lane < gdn::TILE) memory.beta[tile * gdn::TILE + lane] = kda::sigmoid(beta);
    if (tells) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    kda::synchronise(team);
    GDNBENCH_PHASE(decay);

    if (claims) claimed = teams + kda::claim();
    const float square = memory.squares[0][tile][lane] + memory.squares[1][tile][lane];
    const kda::Kept kept(memory, tile, pair);
    const float norm = (lane < gdn::TILE ? 1.f : in.scale) * rsqrtf(square + kda::EPS);
    memory.norms[warp][lane % gdn::TILE][lane / gdn::TILE] = gdn::pack_bf16(norm, norm);
    __syncwarp();
    rows.normalise(memory.norms[warp]);
    kda::store_parts(memory, rows, kept, tile, pair);
    gdn::fence_async_proxy();
    kda::synchronise(team);
    GDNBENCH_PHASE(parts);

    const auto speak = [&] {
      if (tells && stored >= 0) tell(stored);
      const int later = item + teams;  // some team's next one
      if (AHEAD && later < items && head_of(later) < GDN_H)
        prefetch(in, head_of(later), ahead.find(cu_seqlens, chunk_of(later)), thread);
    };
    kda::take_products(memory, warp, lane, speak);
    if (claims) next = claimed;
    kda::synchronise(team);
    GDNBENCH_PHASE(near);

    kda::store_decayed(memory, rows, kept, tile, pair);
    if (warp < gdn::SIDE)
      gdn::solve_row(memory.solved, memory.coupling, memory.beta, warp, lane);
    else if (warp == gdn::SIDE)
      gdn::clear_above(memory.solved, lane);
    else if (warp == gdn::SIDE + 1)
      gdn::clear_above(memory.products, lane);
    else if (claims && head_of(item) < GDN_H)
      kda::wait_until_read(item % kda::HEADS, item / kda::HEADS);
    gdn::wait_for_copies();
    kda::synchronise(team);
    GDNBENCH_PHASE(rows);

    kda::solve_both(memory, warp, lane);
    const int following = next;
    ask(following, thread);
    kda::synchronise(team);
    GDNBENCH_PHASE(solve);

    stored = head_of(item) < GDN_H ? item : -1;
    if (tells && stored >= 0) {
      kda::store_prepared(ready[item % kda::HEADS * PLACES + item / kda::HEADS % PLACES], memory);
      if (item == first) tell(stored), stored = -1;  // blocks that carry wait for it; later ones wait for a calmer moment
    }
    item = following;
    GDNBENCH_PHASE(store);
  }
  if (!is_lane_of(6)) return;
  if (stored >= 0) tell(stored);
  kda::leave(teams);
}

}  // namespace

// Blocks that carry a head come first, and are alone on their SMs: they and any other one can finish. All others prepare.
extern "C" __global__ void __launch_bounds__(kda::THREADS, 1)
    kda_prefill(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                const __nv_bfloat16* __restrict__ v, const __nv_bfloat16* __restrict__ g,
                const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state,
                const long long* __restrict__ cu_seqlens, const float scale, const float lower_bound,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, kda::AllReady* ready,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  __shared__ int next[kda::TEAMS];
  const int block = static_cast<int>(blockIdx.x) - kda::HEADS, preparing = static_cast<int>(gridDim.x) - kda::HEADS;
  if (block < 0) {
    carry_all(*reinterpret_cast<CarryMemory*>(bytes), state, new_state, output, cu_seqlens, ready,
              static_cast<int>(sequences), static_cast<int>(chunks), static_cast<int>(blockIdx.x));
    return;
  }
  const int team = gdn::uniform(static_cast<int>(threadIdx.x) / kda::TEAM);
  prepare_all(reinterpret_cast<kda::TeamMemory*>(bytes)[team], next[team],
              {q, k, v, g, b, A_log, dt_bias, scale, lower_bound}, cu_seqlens, ready, static_cast<int>(chunks), team,
              team * preparing + block, kda::TEAMS * preparing);
}
