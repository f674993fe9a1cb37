// The scan of scan.cuh by warpgroups: the same rows first, but four warps share each right operand.
//
// What needs the state is one chain from chunk to chunk: S K^T, R, U, S. The outputs hang on it: S Q^T is multiplied while
// R is worked out, and the last product of a chunk while the next one's first is.
#pragma once
#include "scan.cuh"
#include "warpgroup.cuh"

namespace gdn {

constexpr int PRODUCERS = 4 * WARP;  // threads that bring chunks: a warpgroup, which registers are given to as a whole

// What a chunk's scan needs in shared memory, for `Rows` rows of the state: bands as wgmma reads them, but the values.
template <int Rows>
struct alignas(1024) GroupStage {
  __nv_bfloat16 keys[CHUNK * GDN_K];
  __nv_bfloat16 queries[CHUNK * GDN_K];
  __nv_bfloat16 solved[CHUNK * CHUNK];
  __nv_bfloat16 products[CHUNK * CHUNK];
  __nv_bfloat16 values[CHUNK * Rows];
};

struct ChunkGates {
  float since[CHUNK], until[CHUNK];
};

// Shared memory of a block: chunks on their way, and barriers that tell when one is there and when it is done with.
template <int Rows, int Stages>
struct Ring {
  GroupStage<Rows> stages[Stages];
  ChunkGates gates[Stages];
  Barrier full[Stages], empty[Stages];
};

// By all threads of a block, which synchronise after it: barriers, and zeros above the diagonals, which stay.
template <int Rows, int Stages>
__device__ __forceinline__ void initialise(Ring<Rows, Stages>& ring, int consumers) {
  if (threadIdx.x < Stages) {
    initialise(ring.full[threadIdx.x], PRODUCERS);
    initialise(ring.empty[threadIdx.x], consumers);
  }
  constexpr int PIECES = CHUNK * CHUNK / 8;
  for (int i = threadIdx.x; i < Stages * PIECES; i += blockDim.x) {
    const int row = i % PIECES / 8, piece = i % 8;
    if (piece / 2 <= row / TILE) continue;
    GroupStage<Rows>& stage = ring.stages[i / PIECES];
    reinterpret_cast<uint4*>(stage.solved)[banded<CHUNK>(row, piece) / 16] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(stage.products)[banded<CHUNK>(row, piece) / 16] = make_uint4(0, 0, 0, 0);
  }
}

// A lower triangle, of which a warp copies every fourth tile from `tile` on.
__device__ __forceinline__ void bring_triangle(unsigned to, const Triangle& from, int tile, unsigned lane) {
#pragma unroll
  for (int row = 0; row < SIDE; ++row)
#pragma unroll
    for (int column = 0; column <= row; ++column) {
      const int number = tile_number(row, column);
      if (number % (PRODUCERS / WARP) != tile) continue;
      copy_async(to + banded<CHUNK>(row * TILE + lane / 2, 2 * column + lane % 2),
                 &from[number][piece_number(lane / 2, lane % 2)], true);
    }
}

// By the producers: `thread` is the number of this one among them. What only outputs need comes last.
template <int Rows>
__device__ __forceinline__ void bring_chunk(GroupStage<Rows>& stage, ChunkGates& gates, Barrier& full,
                                            const Source& from, int chunk, int tokens, unsigned thread) {
  const long long first = static_cast<long long>(chunk) * CHUNK;
  const Prepared& prepared = from.prepared[static_cast<size_t>(chunk) * GDN_HV];
  const unsigned lane = thread % WARP, warp = thread / WARP;
  load_tile<KEY_PIECES, PRODUCERS>(shared_address(stage.keys), from.k + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K,
                                   tokens, thread, banded<CHUNK>);
  load_tile<Rows / 8, PRODUCERS>(shared_address(stage.values), from.v + first * (GDN_HV * GDN_V), GDN_HV * GDN_V,
                                 tokens, thread, swizzled<Rows / 8>);
  bring_triangle(shared_address(stage.solved), prepared.solved, warp, lane);
  if (warp == 0) copy_async(shared_address(&gates) + lane * 16, reinterpret_cast<const char*>(prepared.since) + lane * 16, true);
  load_tile<KEY_PIECES, PRODUCERS>(shared_address(stage.queries), from.q + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K,
                                   tokens, thread, banded<CHUNK>);
  bring_triangle(shared_address(stage.products), prepared.products, warp, lane);
  arrive_after_copies(full);
}

// S X^T, for X [CHUNK, K] in shared memory.
__device__ __forceinline__ void multiply_state(Sum (&sums)[TOKEN_PAIRS], const Operand (&s)[KEY_TILES], unsigned x) {
#pragma unroll
  for (int k = 0; k < KEY_TILES; ++k) {
    const unsigned long long right = descriptor(x + banded<CHUNK>(0, 2 * k));
    if (k == 0) multiply<false>(sums, s[k], right);
    else multiply<true>(sums, s[k], right);
  }
}

// X^T M^T, for X [CHUNK, rows] as operands and M [CHUNK, CHUNK] in shared memory; added to the sums if Adds.
template <bool Adds>
__device__ __forceinline__ void multiply_tokens(Sum (&sums)[TOKEN_PAIRS], const Operand (&x)[SIDE], unsigned m) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token) {
    const unsigned long long right = descriptor(m + banded<CHUNK>(0, 2 * token));
    if (token == 0) multiply<Adds>(sums, x[token], right);
    else multiply<true>(sums, x[token], right);
  }
}

// S + X^T K, for X [CHUNK, rows] as operands and keys [CHUNK, K] in shared memory.
__device__ __forceinline__ void add_written(State& s, const Operand (&x)[SIDE], unsigned keys) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
    add_transposed(s, x[token], descriptor(keys + token * (TILE * BAND_BYTES), CHUNK * BAND_BYTES));
}

// By a warp of a warpgroup: takes its rows of the state through `length` tokens, and stores their output. `tile` is the
// number of its rows in the block, and `output` where they begin.
template <int Rows, int Stages>
__device__ __forceinline__ void scan_chunks(State& s, Ring<Rows, Stages>& ring, __nv_bfloat16* output, float scale,
                                            int length, int tile, unsigned lane) {
  Sum read[TOKEN_PAIRS], shown[TOKEN_PAIRS];
  const int chunks = (length + CHUNK - 1) / CHUNK;
  const auto finish_output = [&](int chunk) {
    settle(shown);
    store_output(output + static_cast<long long>(chunk) * (CHUNK * GDN_HV * GDN_V), shown, length - chunk * CHUNK, lane);
    __syncwarp();
    if (lane == 0) arrive(ring.empty[chunk % Stages]);
  };
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int slot = chunk % Stages;
    const GroupStage<Rows>& stage = ring.stages[slot];
    const ChunkGates& gates = ring.gates[slot];
    Operand begun[KEY_TILES], r[SIDE], u[SIDE], faded[SIDE];
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    wait(ring.full[slot], chunk / Stages % 2);
    show_to_tensor_cores();
    settle(begun);
    begin();
    multiply_state(read, begun, shared_address(stage.keys));
    commit();
    if (chunk > 0) {
      wait_for_groups<1>();
      finish_output(chunk - 1);
    }
    begin();
    multiply_state(shown, begun, shared_address(stage.queries));
    commit();

    wait_for_groups<1>();
    settle(read);
    subtract_read<Rows>(r, read, shared_address(stage.values), gates.since, tile, lane);
    settle(r);
    begin();
    multiply_tokens<false>(read, r, shared_address(stage.solved));
    commit();
    wait_for_groups<1>();
    settle(shown);
    scale_tokens(shown, gates.since, scale, lane);
    const float kept = gates.since[CHUNK - 1];
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= kept;

    wait_for_groups<0>();
    settle(read);
    narrow_tokens(u, read);
    scale_tokens(read, gates.until, 1.f, lane);
    narrow_tokens(faded, read);
    settle(u);
    settle(faded);
    settle(s);
    settle(shown);
    begin();
    add_written(s, faded, shared_address(stage.keys));
    commit();
    multiply_tokens<true>(shown, u, shared_address(stage.products));
    commit();
    wait_for_groups<1>();
    settle(s);
  }
  wait_for_groups<0>();
  if (chunks > 0) finish_output(chunks - 1);
}

}  // namespace gdn
