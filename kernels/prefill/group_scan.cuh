// The scan of scan.cuh by Hopper's warpgroups, for 64 rows of the state: four warps share each right operand.
//
// What needs the state is one chain from chunk to chunk: S K^T, R, U, S + U^T K. The first warpgroup does nothing else;
// a second one takes S and U from it through shared memory and works out the outputs, Q S^T and what U adds to them, with
// tokens as rows; a third brings the chunks.
#pragma once
#include <gdnbench/phases.cuh>
#include "scan.cuh"
#include "warpgroup.cuh"

GDNBENCH_PHASE_NAMES(narrow, full, read, subtract, decay, solve, fade, write, begun, show, written, mix, output, bring);

namespace gdn {

constexpr int GROUP = GROUP_WARPS * WARP;
constexpr int ROWS = GROUP_ROWS;  // of the state in a block
constexpr int SCAN_THREADS = 3 * GROUP;

// A chunk in shared memory: in bands as wgmma reads them, but for the values.
struct alignas(1024) GroupStage {
  __nv_bfloat16 keys[CHUNK * GDN_K];
  __nv_bfloat16 queries[CHUNK * GDN_K];
  __nv_bfloat16 solved[CHUNK * CHUNK];
  __nv_bfloat16 products[CHUNK * CHUNK];
  __nv_bfloat16 values[CHUNK * ROWS];
};

struct ChunkGates {
  float since[CHUNK], until[CHUNK];
};

// Shared memory of a block: chunks on their way, what goes from the first warpgroup to the second, and barriers. One
// that is named after what it tells of is passed when that is there, one with `free_` when it is done with.
template <int Stages>
struct Ring {
  GroupStage stages[Stages];
  alignas(1024) __nv_bfloat16 begun[ROWS * GDN_K];    // S at the chunk's beginning
  alignas(1024) __nv_bfloat16 written[ROWS * CHUNK];  // U^T
  ChunkGates gates[Stages];
  Barrier full[Stages], empty[Stages], begun_there, begun_free, written_there, written_free;
};

// By all threads of a block, which synchronise after it: barriers, and zeros above the diagonals, which stay.
template <int Stages>
__device__ __forceinline__ void initialise(Ring<Stages>& ring) {
  if (threadIdx.x < Stages) {
    initialise(ring.full[threadIdx.x], GROUP);
    initialise(ring.empty[threadIdx.x], 2 * GROUP_WARPS);
  } else if (threadIdx.x == WARP) {
    for (Barrier* barrier : {&ring.begun_there, &ring.begun_free, &ring.written_there, &ring.written_free})
      initialise(*barrier, GROUP_WARPS);
  }
  constexpr int PIECES = CHUNK * CHUNK / 8;
  for (int i = threadIdx.x; i < Stages * PIECES; i += SCAN_THREADS) {
    const int row = i % PIECES / 8, piece = i % 8;
    if (piece / 2 <= row / TILE) continue;
    GroupStage& stage = ring.stages[i / PIECES];
    reinterpret_cast<uint4*>(stage.solved)[banded<CHUNK>(row, piece) / 16] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(stage.products)[banded<CHUNK>(row, piece) / 16] = make_uint4(0, 0, 0, 0);
  }
}

// Of a warp, once all of its lanes have come.
__device__ __forceinline__ void arrive_together(Barrier& barrier, unsigned lane) {
  __syncwarp();
  if (lane == 0) arrive(barrier);
}

// A lower triangle, of which a warp copies every fourth tile from `tile` on.
__device__ __forceinline__ void bring_triangle(unsigned to, const Triangle& from, int tile, unsigned lane) {
#pragma unroll
  for (int row = 0; row < SIDE; ++row)
#pragma unroll
    for (int column = 0; column <= row; ++column) {
      const int number = tile_number(row, column);
      if (number % (GROUP_WARPS) != tile) continue;
      copy_async(to + banded<CHUNK>(row * TILE + lane / 2, 2 * column + lane % 2),
                 &from[number][piece_number(lane / 2, lane % 2)], true);
    }
}

// By the producers: `thread` is the number of this one among them. What only outputs need comes last.
__device__ __forceinline__ void bring_chunk(GroupStage& stage, ChunkGates& gates, Barrier& full,
                                            const Source& from, int chunk, int tokens, unsigned thread) {
  const long long first = static_cast<long long>(chunk) * CHUNK;
  const Prepared& prepared = from.prepared[static_cast<size_t>(chunk) * GDN_HV];
  const unsigned lane = thread % WARP, warp = thread / WARP;
  load_tile<KEY_PIECES, GROUP>(shared_address(stage.keys), from.k + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K,
                                   tokens, thread, banded<CHUNK>);
  load_tile<ROWS / 8, GROUP>(shared_address(stage.values), from.v + first * (GDN_HV * GDN_V), GDN_HV * GDN_V,
                                 tokens, thread, swizzled<ROWS / 8>);
  bring_triangle(shared_address(stage.solved), prepared.solved, warp, lane);
  if (warp == 0) copy_async(shared_address(&gates) + lane * 16, reinterpret_cast<const char*>(prepared.since) + lane * 16, true);
  load_tile<KEY_PIECES, GROUP>(shared_address(stage.queries), from.q + first * (GDN_HQ * GDN_K), GDN_HQ * GDN_K,
                                   tokens, thread, banded<CHUNK>);
  bring_triangle(shared_address(stage.products), prepared.products, warp, lane);
  arrive_after_copies(full);
}

template <int Stages>
__device__ __forceinline__ void bring_chunks(Ring<Stages>& ring, const Source& from, int length, unsigned thread) {
  GDNBENCH_PHASES_BEGIN();
  for (int chunk = 0; chunk * CHUNK < length; ++chunk) {
    const int slot = chunk % Stages, lap = chunk / Stages;
    if (lap > 0) wait(ring.empty[slot], (lap - 1) % 2);
    bring_chunk(ring.stages[slot], ring.gates[slot], ring.full[slot], from, chunk, min(length - chunk * CHUNK, CHUNK),
                thread);
    GDNBENCH_PHASE(bring);
  }
}

// Q S^T or P U, [CHUNK, ROWS]: of both operands the rows are rows in shared memory, of Columns columns.
template <int Columns, bool Adds>
__device__ __forceinline__ void multiply_rows(Sum (&sums)[ROWS / 8], Matrix a, Matrix b) {
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long left = a.descriptor(banded<CHUNK>(0, 2 * i)), right = b.descriptor(banded<ROWS>(0, 2 * i));
    if (i == 0) multiply<Adds>(sums, left, right);
    else multiply<true>(sums, left, right);
  }
}

// X M^T, for X [ROWS, Columns] as operands and M [CHUNK, Columns] in shared memory.
template <int Columns>
__device__ __forceinline__ void multiply_operands(Sum (&sums)[TOKEN_PAIRS], const Operand (&x)[Columns / TILE],
                                                  Matrix m) {
#pragma unroll
  for (int i = 0; i < Columns / TILE; ++i) {
    const unsigned long long right = m.descriptor(banded<CHUNK>(0, 2 * i));
    if (i == 0) multiply<false>(sums, x[i], right);
    else multiply<true>(sums, x[i], right);
  }
}

// S + U^T K, for U^T [ROWS, CHUNK] as operands and keys [CHUNK, K] in shared memory.
__device__ __forceinline__ void add_written(State& s, const Operand (&u)[SIDE], Matrix keys) {
#pragma unroll
  for (int token = 0; token < SIDE; ++token)
    add_transposed(s, u[token], keys.descriptor(token * (TILE * BAND_BYTES)));
}

// Operands [16, 16] side by side into a matrix of ROWS rows, for wgmma to read.
template <int Tiles>
__device__ __forceinline__ void show_rows(unsigned to, const Operand (&x)[Tiles], int warp, unsigned lane) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i)
    store_matrices(to + banded<ROWS>(warp * TILE + lane % 16, 2 * i + lane / 16), x[i]);
  show_to_tensor_cores();
}

// Each token's column times its factor, as operands.
__device__ __forceinline__ void fade_tokens(Operand (&to)[SIDE], const Sum (&sums)[TOKEN_PAIRS], const float* factors,
                                            unsigned lane) {
#pragma unroll
  for (int n = 0; n < TOKEN_PAIRS; ++n) {
    const float2 factor = *reinterpret_cast<const float2*>(&factors[n * 8 + lane % 4 * 2]);
    to[n / 2][n % 2 * 2] = pack_bf16(factor.x * sums[n][0], factor.y * sums[n][1]);
    to[n / 2][n % 2 * 2 + 1] = pack_bf16(factor.x * sums[n][2], factor.y * sums[n][3]);
  }
}

// By a warp of the first warpgroup: takes its 16 rows of the state through so many chunks.
template <int Stages>
__device__ __forceinline__ void carry_state(State& s, Ring<Stages>& ring, int chunks, int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int slot = chunk % Stages;
    const GroupStage& stage = ring.stages[slot];
    const ChunkGates& gates = ring.gates[slot];
    Sum sums[TOKEN_PAIRS];
    Operand begun[KEY_TILES], r[SIDE], u[SIDE];
#pragma unroll
    for (int k = 0; k < KEY_TILES; ++k) narrow(begun[k], s[2 * k], s[2 * k + 1]);
    settle(begun);
    GDNBENCH_PHASE_USING(narrow, begun);
    wait(ring.full[slot], chunk / Stages % 2);
    show_to_tensor_cores();
    GDNBENCH_PHASE(full);
    begin();
    multiply_operands<GDN_K>(sums, begun, matrix(stage.keys));
    commit();
    if (chunk > 0) wait(ring.begun_free, (chunk - 1) % 2);
    show_rows(shared_address(ring.begun), begun, warp, lane);
    arrive_together(ring.begun_there, lane);
    wait_for_groups<0>();
    settle(sums);
    GDNBENCH_PHASE(read);
    subtract_read<ROWS>(r, sums, shared_address(stage.values), gates.since, warp, lane);
    settle(r);
    GDNBENCH_PHASE_USING(subtract, r);
    begin();
    multiply_operands<CHUNK>(sums, r, matrix(stage.solved));
    commit();
    settle(s);  // or what follows would be issued between the products, and delay them
    const float kept = gates.since[CHUNK - 1];
#pragma unroll
    for (int n = 0; n < 2 * KEY_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= kept;
    GDNBENCH_PHASE_USING(decay, s);
    wait_for_groups<0>();
    settle(sums);
    GDNBENCH_PHASE(solve);
    fade_tokens(u, sums, gates.until, lane);
    settle(u);
    settle(s);
    GDNBENCH_PHASE_USING(fade, u);
    begin();
    add_written(s, u, matrix(stage.keys, CHUNK * BAND_BYTES));
    commit();
    narrow_tokens(r, sums);
    if (chunk > 0) wait(ring.written_free, (chunk - 1) % 2);
    show_rows(shared_address(ring.written), r, warp, lane);
    arrive_together(ring.written_there, lane);
    wait_for_groups<0>();
    settle(s);
    arrive_together(ring.empty[slot], lane);
    GDNBENCH_PHASE(write);
  }
}

// By a warp of the second warpgroup: the outputs of `length` tokens, of which a warp has 16 of every chunk. `output` is
// where those of the block's rows begin.
template <int Stages>
__device__ __forceinline__ void write_outputs(Ring<Stages>& ring, __nv_bfloat16* output, float scale, int length,
                                              int warp, unsigned lane) {
  GDNBENCH_PHASES_BEGIN();
  const int row = warp * TILE + lane / 4;
  for (int chunk = 0; chunk * CHUNK < length; ++chunk) {
    const int slot = chunk % Stages;
    const GroupStage& stage = ring.stages[slot];
    wait(ring.full[slot], chunk / Stages % 2);
    show_to_tensor_cores();
    wait(ring.begun_there, chunk % 2);
    GDNBENCH_PHASE(begun);
    Sum sums[ROWS / 8];
    begin();
    multiply_rows<GDN_K, false>(sums, matrix(stage.queries), matrix(ring.begun));
    commit();
    const float since[2] = {scale * ring.gates[slot].since[row], scale * ring.gates[slot].since[row + 8]};
    wait_for_groups<0>();
    settle(sums);
    arrive_together(ring.begun_free, lane);
    GDNBENCH_PHASE(show);
#pragma unroll
    for (int n = 0; n < ROWS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= since[i / 2];
    settle(sums);
    wait(ring.written_there, chunk % 2);
    GDNBENCH_PHASE(written);
    begin();
    multiply_rows<CHUNK, true>(sums, matrix(stage.products), matrix(ring.written));
    commit();
    wait_for_groups<0>();
    settle(sums);
    arrive_together(ring.written_free, lane);
    arrive_together(ring.empty[slot], lane);
    GDNBENCH_PHASE(mix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = chunk * CHUNK + row + half * 8;
      if (token >= length) continue;
      __nv_bfloat16* to = output + static_cast<long long>(token) * (GDN_HV * GDN_V) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < ROWS / 8; ++n)
        *reinterpret_cast<unsigned*>(to + n * 8) = pack_bf16(sums[n][2 * half], sums[n][2 * half + 1]);
    }
    GDNBENCH_PHASE(output);
  }
}

}  // namespace gdn
