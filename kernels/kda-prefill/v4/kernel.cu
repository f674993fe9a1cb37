// v3 with outputs that other warps store than those which carry, with Y and W by warpgroups, and with each chunk's tokens asked for
// before the one before is solved. Where a cluster has several blocks, those beside the one that carries put what they prepare where
// that one multiplies with it, in its shared memory; only what other clusters prepare passes the L2.
#include <gdnbench/phases.cuh>

#include <gdn/cluster.cuh>

#include "../solving.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, output, read, subtract, write, decay, parts, near, rows, solve, store);

namespace {

constexpr int STAGES = 3;  // chunks in shared memory
constexpr int STATE_GROUPS = GDN_V / gdn::GROUP_ROWS, STATE_WARPS = STATE_GROUPS * gdn::GROUP_WARPS;
enum : unsigned { BRINGS = STATE_WARPS, RELEASES, EXPECTS, STORES = STATE_WARPS + gdn::GROUP_WARPS };  // warps; of STORES four
constexpr int OUTPUT_WARPS = gdn::GROUP_WARPS;

// Chunks of a block that carries are numbered in the order of its heads and sequences. Those of the first stages come from the
// cluster's other blocks, each of which has a stage; its teams take turns. Those of the others come by way of places.
constexpr int NEAR = CLUSTER - 1, FAR = STAGES - NEAR, TURNS = STAGES * kda::TEAMS;
static_assert(FAR > 0, "other clusters prepare, too");

// Of all heads and sequences that the block carries whose number in a group is given.
__device__ __forceinline__ int steps_of(int of_group, int chunks) {
  return (GDN_H - of_group + kda::HEADS - 1) / kda::HEADS * chunks;
}

__device__ __forceinline__ bool is_near(int step) { return step % STAGES < NEAR; }
__device__ __forceinline__ unsigned rank_of(int step) { return 1 + step % STAGES; }
__device__ __forceinline__ int team_of(int step) { return step / STAGES % kda::TEAMS; }

// Of those that come by way of places, how many there are among so many, and which are they.
__device__ __forceinline__ int far_among(int steps) { return steps / STAGES * FAR + max(steps % STAGES - NEAR, 0); }
__device__ __forceinline__ int step_of(int far) { return far / FAR * STAGES + NEAR + far % FAR; }

// What a block that carries has of chunks.
struct CarryMemory {
  struct alignas(1024) Stage : kda::AllReady {
  } stages[STAGES];
  // As it comes; read by the first warpgroup; its outputs in the place of W; and all read.
  gdn::Barrier full[STAGES], led[STAGES], shown[STAGES], empty[STAGES];

  // By one thread of a block, before the cluster's first barrier.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(full[i], 1);
      gdn::initialise(led[i], gdn::GROUP_WARPS);
      gdn::initialise(shown[i], STATE_WARPS);
      gdn::initialise(empty[i], OUTPUT_WARPS + 1);
    }
  }
};

// What a team hears from the block that carries: that a stage is free for its next chunk, and that its last one has come.
struct Answers {
  gdn::Barrier is_free, has_come;

  __device__ __forceinline__ void initialise() {
    gdn::initialise(is_free, OUTPUT_WARPS);
    gdn::initialise(has_come, 1);
  }
};

// Where `mine` is in another block's shared memory.
__device__ __forceinline__ unsigned address_in_block(const void* mine, unsigned rank) {
  unsigned theirs;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(gdn::shared_address(mine)), "r"(rank));
  return theirs;
}

// At the barrier that another block has where `mine` is.
__device__ __forceinline__ void arrive_in_block(const gdn::Barrier& mine, unsigned rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_in_block(&mine, rank)) : "memory");
}

// For what other blocks of the cluster have done.
__device__ __forceinline__ void wait_for_others(const gdn::Barrier& barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "  @!done bra again; }" ::"r"(gdn::shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

constexpr size_t BLOCK_BYTES = 231424;
static_assert(sizeof(CarryMemory) <= BLOCK_BYTES && kda::TEAMS * sizeof(kda::TeamMemory) == BLOCK_BYTES, "as is asked for");

// Stores an operand [16, 16] transposed, as rows of two pieces; lane l tells where row l % 8 + l / 16 * 8 has its piece l / 8 % 2.
__device__ __forceinline__ void store_transposed(unsigned address, const gdn::Operand& a) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

// By one thread: the chunks that come by way of places. It knows that one has been put before there is a stage for it.
__device__ __forceinline__ void bring(CarryMemory& memory, const kda::AllReady* places, int head, int steps) {
  for (int far = 0; far < far_among(steps); ++far) {
    const int step = step_of(far);
    CarryMemory::Stage& to = memory.stages[step % STAGES];
    gdn::Barrier& full = memory.full[step % STAGES];
    const kda::AllReady& from = places[far % PLACES];
    kda::wait_until_put(head, far);
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
  for (int far = 0; far < far_among(steps); ++far) {
    const int step = step_of(far);
    gdn::wait(memory.full[step % STAGES], step / STAGES % 2);
    kda::release_place(head, far);
    gdn::arrive(memory.empty[step % STAGES]);
  }
  kda::clear_counters(head);
}

// By one thread: expects the chunks of the cluster's other blocks, and tells their teams that they have come.
__device__ __forceinline__ void expect(CarryMemory& memory, const Answers* answers, int steps) {
  constexpr unsigned BYTES = 3 * sizeof(gdn::Rows) + sizeof(gdn::Triangle) + GDN_K * sizeof(float) + sizeof(kda::AllReady::w);
  for (int step = 0; step < min(NEAR, steps); ++step) gdn::arrive_expecting(memory.full[step], BYTES);
  for (int step = 0; step < steps; ++step) {
    if (!is_near(step)) continue;
    gdn::wait(memory.full[step % STAGES], step / STAGES % 2);
    arrive_in_block(answers[team_of(step)].has_come, rank_of(step));
    if (step + STAGES < steps) gdn::arrive_expecting(memory.full[step % STAGES], BYTES);
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
__device__ __forceinline__ void store_outputs(CarryMemory& memory, const Answers* answers, __nv_bfloat16* output,
                                              const long long* cu_seqlens, int sequences, int of_group, int steps, int warp,
                                              unsigned lane) {
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
        if (!is_near(step)) {
          gdn::arrive_together(memory.empty[step % STAGES], lane);
        } else {
          const int next = step + STAGES;
          __syncwarp();
          if (lane == 0 && next < steps) arrive_in_block(answers[team_of(next)].is_free, rank_of(next));
        }
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
    if (STAGGER && warp >= gdn::GROUP_WARPS) gdn::wait(memory.led[step % STAGES], step / STAGES % 2);
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
    if (STAGGER && warp < gdn::GROUP_WARPS) gdn::arrive_together(memory.led[step % STAGES], lane);
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
__device__ __forceinline__ void carry_all(CarryMemory& memory, const Answers* answers, const float* state,
                                          float* new_state, __nv_bfloat16* output, const long long* cu_seqlens,
                                          const kda::AllReady* ready, int sequences, int steps, int of_group) {
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  if (warp >= STATE_WARPS) {
    gdn::give_registers<24>();
    const kda::AllReady* const places = ready + static_cast<size_t>(of_group) * PLACES;
    if (lane == 0 && warp == BRINGS) bring(memory, places, of_group, steps);
    if (lane == 0 && warp == RELEASES) release(memory, of_group, steps);
    if (lane == 0 && warp == EXPECTS) expect(memory, answers, steps);
    if (warp >= STORES)
      store_outputs(memory, answers, output, cu_seqlens, sequences, of_group, steps, warp - STORES, lane);
    __syncwarp();
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

// By a thread: begins to copy what is in shared memory to where `to` is in the cluster's first block, whose `full` expects it.
__device__ __forceinline__ void copy_to_first(const void* to, const void* from, unsigned bytes, const gdn::Barrier& full) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   address_in_block(to, 0)),
               "r"(gdn::shared_address(from)), "r"(bytes), "r"(address_in_block(&full, 0))
               : "memory");
}

// The same into a stage of the cluster's first block.
__device__ __forceinline__ void put_near(const CarryMemory& first, int stage, const kda::TeamMemory& memory) {
  const CarryMemory::Stage& to = first.stages[stage];
  const gdn::Barrier& full = first.full[stage];
  copy_to_first(&to.alike.y, &memory.y, sizeof(gdn::Rows), full);
  copy_to_first(&to.w, &memory.first_w, sizeof(memory.first_w), full);
  copy_to_first(&to.w[gdn::SIDE], &memory.second_w, sizeof(memory.second_w), full);
  copy_to_first(&to.alike.whole, &memory.whole, sizeof(memory.whole), full);
  copy_to_first(&to.alike.queries, &memory.queries, 2 * sizeof(gdn::Rows), full);
  copy_to_first(&to.alike.products, &memory.products, sizeof(gdn::Triangle), full);
}

// By a team: chunks of the block that carries in its cluster if IsNear, in turn with its block's other team; else of all, in the
// order in which they are taken, each by whichever team is free.
template <bool IsNear>
__device__ __forceinline__ void prepare_all(kda::TeamMemory& memory, int& next, const CarryMemory& carried,
                                            const Answers& answers, const kda::Inputs& in, const long long* cu_seqlens,
                                            kda::AllReady* ready, int chunks, int team, int first, int teams) {
  GDNBENCH_PHASES_BEGIN();
  const auto step = [](int item) { return IsNear ? item : step_of(item / kda::HEADS); };
  const auto of_group = [](int item) { return IsNear ? static_cast<int>(blockIdx.x) / CLUSTER : item % kda::HEADS; };
  // Items are numbers of chunks if IsNear, else those of places' chunks, of all heads in turn.
  const int items = IsNear ? steps_of(of_group(0), chunks) : far_among(kda::GROUPS_OF_HEADS * chunks) * kda::HEADS;
  const auto head_of = [&](int item) { return of_group(item) + step(item) / chunks * kda::HEADS; };
  const auto tell = [](int item) { kda::tell_put(item % kda::HEADS, item / kda::HEADS); };
  // Lanes of the last warps, which have the least to do, speak with other blocks: one stores chunks and tells it, one claims.
  const auto is_lane_of = [](int warp) { return threadIdx.x % kda::TEAM == warp * gdn::WARP; };
  Cursor here;
  int stored = -1, claimed = 0, item = first, parity = 0;
  kda::Sixteen rows;
  gdn::Span span;
  long long first_token = 0;  // of the warp's, times heads
  int tokens = 0;
  // Asks for a chunk's keys and queries, and for its gates if there are registers.
  const auto ask = [&](int item, unsigned thread) {
    if (item >= items) return;
    span = here.find(cu_seqlens, step(item) % chunks);
    const int tile = gdn::uniform(thread / (2 * gdn::WARP)), head = min(head_of(item), GDN_H - 1);
    tokens = span.tokens - tile * gdn::TILE;
    first_token = (span.begin + tile * gdn::TILE) * GDN_H + head;
    rows.load_tokens(in, first_token * GDN_K + thread % (2 * gdn::WARP) * 2, tokens);
    if (EARLY == 2) rows.load_gates(in, first_token * GDN_K + thread % (2 * gdn::WARP) * 2, tokens);
  };
  ask(item, threadIdx.x % kda::TEAM);
  while (item < items) {
    // Addresses are worked out for each chunk: all of them would fill registers.
    const unsigned thread = __shfl_xor_sync(gdn::ALL_LANES, gdn::worked_out_anew(threadIdx.x % kda::TEAM), 0);
    const unsigned lane = thread % gdn::WARP, warp = gdn::uniform(thread / gdn::WARP);
    const bool tells = is_lane_of(6), claims = !IsNear && is_lane_of(7);
    const int tile = warp / 2, half = warp % 2, pair = half * gdn::WARP + lane, head = min(head_of(item), GDN_H - 1);
    if (EARLY == 1) rows.load_gates(in, first_token * GDN_K + 2 * pair, tokens);
    float beta = __uint_as_float(0xff800000u);  // after the end
    if (half == 0 && static_cast<int>(lane) < min(tokens, gdn::TILE))
      beta = __bfloat162float(in.b[first_token + lane * GDN_H]);
    gdn::load_tile<GDN_V / 8, kda::TEAM>(gdn::shared_address(memory.values), in.v + (span.begin * GDN_H + head) * GDN_V,
                                         GDN_H * GDN_V, span.tokens, thread, gdn::banded<gdn::CHUNK>);
    memory.squares[half][tile][kda::Sixteen::square_of(lane)] = rows.take_squares(lane);
    rows.decay(in.A_log + head, in.dt_bias + head * GDN_K + 2 * pair, in.lower_bound);
    memory.kept[tile][pair] = rows.whole;
    if (half == 0 && lane < gdn::TILE) memory.beta[tile * gdn::TILE + lane] = kda::sigmoid(beta);
    // Until what was put before has been read its places may not be written.
    if (!IsNear && tells) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    if (IsNear && tells && item != first) wait_for_others(answers.has_come, parity ^ 1);
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
      if (!IsNear && tells && stored >= 0) tell(stored);
    };
    kda::take_products(memory, warp, lane, speak);
    if (claims) next = claimed;
    kda::synchronise(team);
    GDNBENCH_PHASE(near);

    const int following = IsNear ? item + TURNS : next;
    kda::store_decayed(memory, rows, kept, tile, pair);
    if (warp < gdn::SIDE)
      gdn::solve_row(memory.solved, memory.coupling, memory.beta, warp, lane);
    else if (warp == gdn::SIDE)
      gdn::clear_above(memory.solved, lane);
    else if (warp == gdn::SIDE + 1)
      gdn::clear_above(memory.products, lane);
    else if (claims && head_of(item) < GDN_H)
      kda::wait_until_read(of_group(item), item / kda::HEADS);
    gdn::wait_for_copies();
    gdn::fence_async_proxy();
    kda::synchronise(team);
    GDNBENCH_PHASE(rows);

    ask(following, thread);
    kda::solve_by_groups(memory, warp, lane);
    gdn::fence_async_proxy();
    kda::synchronise(team);
    GDNBENCH_PHASE(solve);

    if (IsNear) {
      // The first stages are free; later ones are once what is there has been taken.
      if (tells) {
        if (item >= STAGES) wait_for_others(answers.is_free, parity ^ (first < STAGES));
        put_near(carried, item % STAGES, memory);
      }
      parity ^= 1;
    } else {
      stored = head_of(item) < GDN_H ? item : -1;
      if (tells && stored >= 0) {
        put(ready[of_group(item) * PLACES + item / kda::HEADS % PLACES], memory);
        if (item == first) tell(stored), stored = -1;  // blocks that carry wait for it; later ones wait for a calmer moment
      }
    }
    item = following;
    GDNBENCH_PHASE(store);
  }
  if (!IsNear && is_lane_of(6)) {
    if (stored >= 0) tell(stored);
    kda::leave(teams);
  }
  __syncwarp();
}

}  // namespace

// Clusters that carry a head come first: they and any other one can finish. All others prepare.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(kda::THREADS, 1)
    kda_prefill(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                const __nv_bfloat16* __restrict__ v, const __nv_bfloat16* __restrict__ g,
                const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                const float* __restrict__ dt_bias, const float* __restrict__ state,
                const long long* __restrict__ cu_seqlens, const float scale, const float lower_bound,
                __nv_bfloat16* __restrict__ output, float* __restrict__ new_state, kda::AllReady* ready,
                const long long sequences, const long long chunks) {
  extern __shared__ __align__(1024) char bytes[];
  __shared__ int next[kda::TEAMS];
  __shared__ Answers answers[kda::TEAMS];
  constexpr int CARRYING = kda::HEADS * CLUSTER;
  CarryMemory& carried = *reinterpret_cast<CarryMemory*>(bytes);
  const int block = static_cast<int>(blockIdx.x), rank = block % CLUSTER, of_group = block / CLUSTER;
  if (threadIdx.x == 0) {
    if (rank == 0 && block < CARRYING) carried.initialise();
    for (Answers& each : answers) each.initialise();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    gdn::fence_async_proxy();
  }
  __syncwarp();
  gdn::arrive_at_cluster();
  gdn::wait_for_cluster();
  const int team = gdn::uniform(static_cast<int>(threadIdx.x) / kda::TEAM);
  kda::TeamMemory& memory = reinterpret_cast<kda::TeamMemory*>(bytes)[team];
  const kda::Inputs in = {q, k, v, g, b, A_log, dt_bias, scale, lower_bound};
  const int own = static_cast<int>(chunks);
  if (block >= CARRYING) {
    const int preparing = static_cast<int>(gridDim.x) - CARRYING;
    prepare_all<false>(memory, next[team], carried, answers[team], in, cu_seqlens, ready, own, team,
                       team * preparing + block - CARRYING, kda::TEAMS * preparing);
  } else if (rank > 0) {
    prepare_all<true>(memory, next[team], carried, answers[team], in, cu_seqlens, ready, own, team,
                      team * STAGES + rank - 1, kda::TEAMS);
  } else {
    carry_all(carried, answers, state, new_state, output, cu_seqlens, ready, static_cast<int>(sequences),
              steps_of(of_group, own), of_group);
  }
  gdn::arrive_at_cluster();  // no block ends while another one may speak to it
  gdn::wait_for_cluster();
}
