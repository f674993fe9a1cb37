// v3 with outputs that other warps store than those which carry, and chunks that are put in their places without a wait for
// what their team has asked for since.
#include <gdnbench/phases.cuh>

#include "../sixteens.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, output, read, subtract, write, decay, parts, near, rows, solve, store);

namespace {

constexpr int STAGES = 3;  // chunks in shared memory
constexpr int STATE_GROUPS = GDN_V / gdn::GROUP_ROWS, STATE_WARPS = STATE_GROUPS * gdn::GROUP_WARPS;
enum : unsigned { BRINGS = STATE_WARPS, RELEASES, STORES = STATE_WARPS + gdn::GROUP_WARPS };  // warps; the last is the first of four
constexpr int OUTPUT_WARPS = gdn::GROUP_WARPS;

// What a block that carries has of chunks.
struct CarryMemory {
  struct alignas(1024) Stage : kda::AllReady {
  } stages[STAGES];
  gdn::Barrier full[STAGES], shown[STAGES], empty[STAGES];  // as it comes; its outputs in the place of W; and both read

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(full[i], 1);
      gdn::initialise(shown[i], STATE_WARPS);
      gdn::initialise(empty[i], OUTPUT_WARPS + 1);
    }
    gdn::fence_async_proxy();
  }
};

constexpr size_t BLOCK_BYTES = 231424;
static_assert(sizeof(CarryMemory) <= BLOCK_BYTES && kda::TEAMS * sizeof(kda::TeamMemory) == BLOCK_BYTES, "as is asked for");

// Stores an operand [16, 16] transposed, as rows of two pieces; lane l tells where row l % 8 + l / 16 * 8 has its piece l / 8 % 2.
__device__ __forceinline__ void store_transposed(unsigned address, const gdn::Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

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

// Where a warp's outputs of a token are in the place that W had: two pieces of 16 bytes, which eight tokens' stores, and four
// tokens' loads, find in different banks.
__device__ __forceinline__ unsigned output_place(int token, int piece) {
  return token * (gdn::TILE * 2) + (piece ^ token / 4 % 2) * 16;
}

// The outputs of the chunk numbered `step` for a warp's rows, in the place of the warp's part of W.
__device__ __forceinline__ void show(CarryMemory& memory, int step, const gdn::Sum (&sums)[gdn::TOKEN_PAIRS], int warp,
                                     unsigned lane) {
  const unsigned to = gdn::shared_address(&memory.stages[step % STAGES].w[warp]) + output_place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  __syncwarp();  // all lanes have read W
#pragma unroll
  for (int n = 0; n < gdn::TOKEN_PAIRS; n += 2) {
    gdn::Operand pairs;
    gdn::narrow(pairs, sums[n], sums[n + 1]);
    store_transposed(to + n * (8 * gdn::TILE * 2), pairs);
  }
  gdn::arrive_together(memory.shown[step % STAGES], lane);
}

// By each of some warps: a part of the outputs of all chunks, as they are shown, [tokens, H * V] from `output` on.
__device__ __forceinline__ void store_outputs(CarryMemory& memory, __nv_bfloat16* output, const long long* cu_seqlens,
                                              int sequences, int of_group, int warp, unsigned lane) {
  // Of four warps' outputs, which are 128 bytes of a token: a quarter of the lanes has four tokens of one.
  const int first = warp % 2 * 4 + lane / 8, token = warp / 2 * 4 + lane / 2 % 4, piece = lane % 2;
  const unsigned place = output_place(token, piece);
  int step = 0;
#pragma unroll 1
  for (int head = of_group; head < GDN_H; head += kda::HEADS)
#pragma unroll 1
    for (int sequence = 0; sequence < sequences; ++sequence) {
      const long long begin = cu_seqlens[sequence];
      int left = static_cast<int>(cu_seqlens[sequence + 1] - begin) - token;
      __nv_bfloat16* to = output + ((begin + token) * GDN_H + head) * GDN_V + first * gdn::TILE + piece * 8;
#pragma unroll 1
      for (; left > -token; left -= gdn::CHUNK, ++step) {
        const char* const from = reinterpret_cast<const char*>(memory.stages[step % STAGES].w[first]) + place;
        gdn::wait(memory.shown[step % STAGES], step / STAGES % 2);
#pragma unroll 2
        for (int i = 0; i < gdn::CHUNK; i += 8) {
          if (i < left)
            *reinterpret_cast<uint4*>(to + static_cast<long long>(i) * (GDN_H * GDN_V)) =
                *reinterpret_cast<const uint4*>(from + i * (gdn::TILE * 2));
        }
        to += gdn::CHUNK * (GDN_H * GDN_V);
        gdn::fence_async_proxy();
        gdn::arrive_together(memory.empty[step % STAGES], lane);
      }
    }
}

// By a warp: its 16 rows of a sequence's state, from its first chunk, numbered `step`, to its end. While numbers are worked out
// between products, another one is under way: that of the queries, or of the next chunk.
__device__ __forceinline__ void carry(gdn::State& s, CarryMemory& memory, int& step, int tokens, int warp, unsigned lane) {
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
    ++step;
    GDNBENCH_PHASE(write);
    if (left <= gdn::CHUNK) break;
    begin();
    show(memory, step - 1, shown, warp, lane);
    GDNBENCH_PHASE(output);
    gdn::wait_for_groups<0>();
    gdn::keep_in_place(sums);
    GDNBENCH_PHASE(read);
  }
  show(memory, step - 1, shown, warp, lane);
}

// By a block: the states of a group's head, of all groups and sequences.
__device__ __forceinline__ void carry_all(CarryMemory& memory, const float* state, float* new_state,
                                          __nv_bfloat16* output, const long long* cu_seqlens,
                                          const kda::AllReady* ready, int sequences, int chunks, int of_group) {
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  if (threadIdx.x == 0) memory.initialise();
  __syncthreads();
  if (warp >= STATE_WARPS) {
    gdn::give_registers<24>();
    const int steps = (GDN_H - of_group + kda::HEADS - 1) / kda::HEADS * chunks;
    const kda::AllReady* const places = ready + static_cast<size_t>(of_group) * PLACES;
    if (lane == 0 && warp == BRINGS) bring(memory, places, of_group, steps);
    if (lane == 0 && warp == RELEASES) release(memory, of_group, steps);
    if (warp >= STORES) store_outputs(memory, output, cu_seqlens, sequences, of_group, warp - STORES, lane);
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
      if (tokens > 0) carry(s, memory, step, tokens, warp, lane);
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

// By a thread, once the team has prepared a chunk, and knows that the place is free: begins to copy it. The team's threads have
// fenced what they wrote before they asked for the next chunk: a fence after that would wait for it.
__device__ __forceinline__ void put(kda::AllReady& to, const kda::TeamMemory& memory) {
  gdn::store_bulk(&to.alike.y, &memory.y, 3 * sizeof(gdn::Rows));
  gdn::store_bulk(&to.alike.products, &memory.products, sizeof(gdn::Triangle));
  gdn::store_bulk(&to.alike.whole, &memory.whole, sizeof(memory.whole));
  gdn::store_bulk(&to.w, &memory.first_w, sizeof(memory.first_w));
  gdn::store_bulk(&to.w[gdn::SIDE], &memory.second_w, sizeof(memory.second_w));
}

// By a warp: asks the L2 for a chunk's rows of one of four tensors.
__device__ __forceinline__ void prefetch(const kda::Inputs& in, int head, const gdn::Span& span, int which, unsigned lane) {
  static_assert(GDN_K == GDN_V, "rows are as long");
  const __nv_bfloat16* const tensor = which < 2 ? (which == 0 ? in.q : in.k) : (which == 2 ? in.v : in.g);
  for (int token = lane; token < span.tokens; token += gdn::WARP) {
    const __nv_bfloat16* const row = tensor + ((span.begin + token) * GDN_H + head) * GDN_K;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + GDN_K / 2));
  }
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
  unsigned short beta = 0;
  // Asks for a chunk's keys, queries and betas.
  const auto ask = [&](int item, unsigned thread) {
    if (item >= items) return;
    span = here.find(cu_seqlens, chunk_of(item));
    const int tile = gdn::uniform(thread / (2 * gdn::WARP)), head = min(head_of(item), GDN_H - 1);
    tokens = span.tokens - tile * gdn::TILE;
    first_token = (span.begin + tile * gdn::TILE) * GDN_H + head;
    rows.load_tokens(in, first_token * GDN_K + thread % (2 * gdn::WARP) * 2, tokens);
    // Left as it comes, so that nothing waits for it: minus infinity after the end.
    beta = 0xff80;
    if (const int own = thread % gdn::WARP; own < min(tokens, gdn::TILE))
      beta = reinterpret_cast<const unsigned short*>(in.b)[first_token + own * GDN_H];
  };
  ask(item, threadIdx.x % kda::TEAM);
  while (item < items) {
    // Addresses are worked out for each chunk: all of them would fill registers.
    const unsigned thread = __shfl_xor_sync(gdn::ALL_LANES, gdn::worked_out_anew(threadIdx.x % kda::TEAM), 0);
    const unsigned lane = thread % gdn::WARP, warp = gdn::uniform(thread / gdn::WARP);
    const bool tells = is_lane_of(6), claims = is_lane_of(7);
    const int tile = warp / 2, half = warp % 2, pair = half * gdn::WARP + lane, head = min(head_of(item), GDN_H - 1);
    rows.load_gates(in, first_token * GDN_K + 2 * pair, tokens);
    gdn::load_tile<GDN_V / 8, kda::TEAM>(gdn::shared_address(memory.values), in.v + (span.begin * GDN_H + head) * GDN_V,
                                         GDN_H * GDN_V, span.tokens, thread, gdn::banded<gdn::CHUNK>);
    memory.squares[half][tile][kda::Sixteen::square_of(lane)] = rows.take_squares(lane);
    rows.decay(in.A_log + head, in.dt_bias + head * GDN_K + 2 * pair, in.lower_bound);
    memory.kept[tile][pair] = rows.whole;
    if (half == 0 && lane < gdn::TILE)
      memory.beta[tile * gdn::TILE + lane] = kda::sigmoid(__uint_as_float(static_cast<unsigned>(beta) << 16));
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
    };
    kda::take_products(memory, warp, lane, speak);
    if (claims) next = claimed;
    kda::synchronise(team);
    GDNBENCH_PHASE(near);

    const int following = next;
    if (AHEAD && warp >= gdn::SIDE && following < items && head_of(following) < GDN_H)
      prefetch(in, head_of(following), ahead.find(cu_seqlens, chunk_of(following)), warp - gdn::SIDE, lane);
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
    gdn::fence_async_proxy();
    ask(following, thread);
    kda::synchronise(team);
    GDNBENCH_PHASE(solve);

    stored = head_of(item) < GDN_H ? item : -1;
    if (tells && stored >= 0) {
      put(ready[item % kda::HEADS * PLACES + item / kda::HEADS % PLACES], memory);
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
