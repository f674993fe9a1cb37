// By teams of eight warps: what of a chunk needs neither the state nor values.
#pragma once
#include "memory.cuh"

namespace kda {

// Finds chunks, numbered through all sequences, that are asked for nearly in their order: in the sequence of the last one without
// a look at memory.
struct Cursor {
  int sequence, before, own;  // a sequence, chunks of those before it, and its own
  int begin, tokens;

  __device__ __forceinline__ void start() { sequence = -1, before = own = 0; }
  __device__ __forceinline__ Span find(const long long* cu_seqlens, int chunk) {
    if (chunk < before) start();
    while (chunk - before >= own) {
      before += own, ++sequence;
      begin = static_cast<int>(cu_seqlens[sequence]);
      tokens = static_cast<int>(cu_seqlens[sequence + 1]) - begin;
      own = chunks_of(0, tokens);
    }
    const int first = (chunk - before) * CHUNK;
    return {begin + first, min(tokens - first, CHUNK)};
  }
};

// Chunks of all heads in the order in which they are taken: items are numbers in it.
struct Items {
  const long long* cu_seqlens;
  int chunks;  // of a head

  __device__ __forceinline__ int count() const { return GROUPS_OF_HEADS * chunks * HEADS; }
  __device__ __forceinline__ int head_of(int item) const { return item / HEADS / chunks * HEADS + item % HEADS; }
  __device__ __forceinline__ int chunk_of(int item) const { return item / HEADS % chunks; }
};

// Where gates come to: of each half of the channels, in places that values would have.
__device__ __forceinline__ __nv_bfloat16* gates_in(TeamMemory& memory, int half) {
  return half == 0 ? memory.values + CHUNK * GDN_V / 2 : reinterpret_cast<__nv_bfloat16*>(memory.second_w);
}
static_assert(sizeof(TeamMemory::second_w) == CHUNK * GDN_K, "half of the channels' gates");

// What a team prepares next, in shared memory.
struct Task {
  int item, head, begin, tokens;
  float rate;  // A_log of the head
  Cursor here;
  Barrier come;  // its gates

  // By one thread: asks for its gates.
  __device__ __forceinline__ void bring_gates(TeamMemory& memory, const TensorMap& gates) {
    arrive_expecting(come, CHUNK * GDN_K * sizeof(__nv_bfloat16));
    for (int half = 0; half < 2; ++half)
      load_box(gates_in(memory, half), gates, begin, min(head, GDN_H - 1), half * (GDN_K / 2), come);
  }

  // By one thread.
  __device__ __forceinline__ void set(const Items& items, int next) {
    item = next, head = items.head_of(next), begin = tokens = 0;
    if (next >= items.count()) return;
    const Span span = here.find(items.cu_seqlens, items.chunk_of(next));
    begin = static_cast<int>(span.begin), tokens = span.tokens;
  }
};

// By one thread of a team: the number of a chunk that nobody has claimed, less those that were dealt out at first. What it adds is
// hidden from the compiler, which else adds once for all threads that come there, and waits to tell them.
__device__ __forceinline__ int claim_alone() {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(&chunks_claimed), "r"(worked_out_anew(1u))
               : "memory");
  return before;
}

// The triangle's inverse lies where values would.
__device__ __forceinline__ Triangle& solved_in(TeamMemory& memory) { return reinterpret_cast<Triangle&>(memory.values); }

// By a thread, once the team has prepared a chunk, and knows that the place is free: begins to copy it, what lies where the next
// chunk's parts will be first.
__device__ __forceinline__ void put(Prepared& to, TeamMemory& memory) {
  fence_async_proxy();  // for all that the team's barrier has shown
  store_bulk(&to.matrices, &memory.queries, 3 * sizeof(Rows));
  store_bulk(&to.whole, &memory.whole, WHOLE_BYTES);
  store_bulk(&to.matrices.products, &memory.products, sizeof(Triangle));
  store_bulk(&to.matrices.solved, &solved_in(memory), sizeof(Triangle));
}

// By that thread: until all but the last copies have been read, so many of them, their places may not be written.
template <int Last>
__device__ __forceinline__ void wait_until_copied() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Last) : "memory");
}

// By a warp: what the state is multiplied with, of which keys times decays are subtracted from values.
__device__ __forceinline__ void store_multiplied(TeamMemory& memory, const Sixteen& rows, const Kept& kept, int tile, int pair) {
  const unsigned minus_before = kept.before ^ 0x80008000u;
#pragma unroll
  for (int i = 0; i < TILE; ++i) {
    const int token = tile * TILE + i;
    store_pair(memory.decayed, token, pair, times(rows.key[i], minus_before));
    store_pair(memory.queries, token, pair, times(rows.query[i], kept.before));
    store_pair(memory.keys, token, pair, times(rows.earlier[i], kept.after));
  }
}

// A lane's part of a chunk as it comes, but for gates.
struct Asked {
  Sixteen rows;
  unsigned short beta;  // minus infinity after the end
  float2 bias;

  // For the team's next chunk. Nothing waits for it but a fence, so that all have fenced before.
  __device__ __forceinline__ void ask(const Task& next, const Inputs& in, int items, unsigned thread) {
    if (next.item >= items) return;
    const int tile = uniform(thread / (2 * WARP)), head = min(next.head, GDN_H - 1), pair = thread % (2 * WARP);
    const int tokens = next.tokens - tile * TILE, own = thread % WARP;
    const long long first_token = static_cast<long long>(next.begin + tile * TILE) * GDN_H + head;  // times heads
    rows.load_tokens(in, first_token * GDN_K + 2 * pair, tokens);
    beta = 0xff80;
    if (own < min(tokens, TILE)) beta = reinterpret_cast<const unsigned short*>(in.b)[first_token + own * GDN_H];
    bias = reinterpret_cast<const float2*>(in.dt_bias + head * GDN_K)[pair];
  }
};

// A lane's gates of its warp's sixteen tokens, of which there are so many; after these, minus infinity.
__device__ __forceinline__ void take_gates(Sixteen& rows, TeamMemory& memory, int tokens, int tile, int half, unsigned lane) {
  const unsigned* const from = reinterpret_cast<const unsigned*>(gates_in(memory, half)) + tile * TILE * WARP + lane;
#pragma unroll
  for (int i = 0; i < TILE; ++i) rows.earlier[i] = from[i * WARP];
  if (tokens >= TILE) return;
#pragma unroll
  for (int i = 0; i < TILE; ++i)
    if (i >= tokens) rows.earlier[i] = 0xff80ff80u;
}

// By a team: chunks of all heads, each by whichever team is free.
__device__ __forceinline__ void prepare_all(TeamMemory& memory, Task& next, const Inputs& in, const TensorMap& gates,
                                            const Items& items, Prepared* ready, int team, int first, int teams) {
  GDNBENCH_PHASES_BEGIN();
  constexpr int SPEAKS = 6, CLAIMS = 7;  // warps with the least to do, of which a lane speaks with other blocks
  const auto is_lane_of = [](int warp) { return threadIdx.x % TEAM == warp * WARP; };
  const auto tell = [](int item) { tell_put(item % HEADS, item / HEADS); };
  if (is_lane_of(CLAIMS)) {
    next.here.start();
    next.set(items, first);
    initialise(next.come, 1);
    fence_async_proxy();
    if (first < items.count()) next.bring_gates(memory, gates);
    next.rate = in.A_log[min(next.head, GDN_H - 1)];
  }
  synchronise(team);
  int item = next.item, head = next.head, tokens = next.tokens, stored = -1, claimed = 0;
  unsigned parity = 0;
  Asked asked;
  asked.ask(next, in, items.count(), threadIdx.x % TEAM);
  while (item < items.count()) {
    // Addresses are worked out for each chunk: all of them would fill registers.
    const unsigned thread = __shfl_xor_sync(ALL_LANES, worked_out_anew(threadIdx.x % TEAM), 0);
    const unsigned lane = thread % WARP, warp = uniform(thread / WARP);
    const bool speaks = is_lane_of(SPEAKS), claims = is_lane_of(CLAIMS);
    const int tile = warp / 2, half = warp % 2, pair = half * WARP + lane;
    memory.squares[half][tile][Sixteen::square_of(lane)] = asked.rows.take_squares(lane);
    wait(next.come, parity);
    parity ^= 1;
    take_gates(asked.rows, memory, tokens - tile * TILE, tile, half, lane);
    asked.rows.decay(&next.rate, &asked.bias.x, in.lower_bound);
    memory.kept[tile][pair] = asked.rows.whole;
    if (half == 0 && lane < TILE)
      memory.beta[tile * TILE + lane] = sigmoid(__uint_as_float(static_cast<unsigned>(asked.beta) << 16));
    if (speaks) wait_until_copied<2>();  // of triangles
    synchronise(team);
    GDNBENCH_PHASE(decay);

    const float square = memory.squares[0][tile][lane] + memory.squares[1][tile][lane];
    const Kept kept(memory, tile, pair);
    const float norm = (lane < TILE ? 1.f : in.scale) * rsqrtf(square + EPS);
    memory.norms[warp][lane % TILE][lane / TILE] = pack_bf16(norm, norm);
    __syncwarp();
    asked.rows.normalise(memory.norms[warp]);
    store_parts(memory, asked.rows, kept, tile, pair);
    fence_async_proxy();
    if (claims) claimed = teams + claim_alone();
    if (speaks) wait_until_copied<0>();
    synchronise(team);
    GDNBENCH_PHASE(parts);

    const auto speak = [&] {
      if (speaks && stored >= 0) tell(stored);
    };
    take_products(memory, warp, lane, speak);
    if (claims) {
      next.set(items, claimed);
      if (claimed < items.count()) next.bring_gates(memory, gates);
    }
    synchronise(team);
    GDNBENCH_PHASE(near);

    // A number that is the same in all lanes would be waited for where it is loaded.
    float rate = 0.f;
    if (claims) rate = in.A_log[min(next.head, GDN_H - 1)];
    store_multiplied(memory, asked.rows, kept, tile, pair);
    if (warp != SPEAKS) asked.ask(next, in, items.count(), thread);
    if (warp < SIDE)
      solve_row(solved_in(memory), memory.coupling, memory.beta, warp, lane);
    else if (warp == SIDE)
      clear_above(solved_in(memory), lane);
    else if (warp == SIDE + 1)
      clear_above(memory.products, lane);
    else if (speaks && head < GDN_H)
      wait_until_read(item % HEADS, item / HEADS);
    if (claims) next.rate = rate;
    synchronise(team);
    GDNBENCH_PHASE(rows);

    stored = head < GDN_H ? item : -1;
    if (speaks && stored >= 0) {
      put(ready[item % HEADS * PLACES + item / HEADS % PLACES], memory);
      if (item == first) tell(stored), stored = -1;  // blocks that carry wait for it; later ones wait for a calmer moment
    }
    if (warp == SPEAKS) {  // not before, or its fence would wait
      __syncwarp();
      asked.ask(next, in, items.count(), thread);
    }
    item = next.item, head = next.head, tokens = next.tokens;
    GDNBENCH_PHASE(store);
  }
  if (!is_lane_of(SPEAKS)) return;
  if (stored >= 0) tell(stored);
  leave(teams);
}

}  // namespace kda
