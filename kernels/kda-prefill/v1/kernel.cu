// Two launches, as in prefill-v1: what each chunk tells without the state, all chunks at once; then the states, chunk
// after chunk, in the registers of the warps that own their rows, on tensor cores. Other warps write the outputs.
#include "chunk.cuh"

namespace {

constexpr int ROWS = WARPS * gdn::TILE;  // of the state in a block
static_assert(GDN_V % ROWS == 0, "a block works on one head");

using Chunk = kda::Ready<WARPS>;

// What a warp of the state hands on to that of its rows' outputs, as operands in lanes' order.
struct Handed {
  uint4 begun[gdn::KEY_TILES][gdn::WARP], u[gdn::SIDE][gdn::WARP];
};

struct Memory {
  Chunk stages[STAGES];
  Handed handed[WARPS][2];
  gdn::Barrier full[STAGES], empty[STAGES], there[WARPS][2], free[WARPS][2];
};

template <int Tiles>
__device__ __forceinline__ void hand_on(uint4 (&to)[Tiles][gdn::WARP], const gdn::Operand (&x)[Tiles], unsigned lane) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i) to[i][lane] = make_uint4(x[i][0], x[i][1], x[i][2], x[i][3]);
}

template <int Tiles>
__device__ __forceinline__ void take_over(gdn::Operand (&x)[Tiles], const uint4 (&from)[Tiles][gdn::WARP],
                                          unsigned lane) {
#pragma unroll
  for (int i = 0; i < Tiles; ++i) {
    const uint4 bits = from[i][lane];
    x[i][0] = bits.x, x[i][1] = bits.y, x[i][2] = bits.z, x[i][3] = bits.w;
  }
}

// U = W - Y S^T of a chunk and a warp's rows, as operands.
__device__ __forceinline__ void write_values(gdn::Operand (&u)[gdn::SIDE], const gdn::Operand (&begun)[gdn::KEY_TILES],
                                             const Chunk& chunk, int tile, unsigned lane) {
  gdn::Sum sums[gdn::TOKEN_PAIRS];
  gdn::multiply_state(sums, begun, gdn::shared_address(chunk.alike.y), lane);
  take_over(u, chunk.w[tile], lane);
#pragma unroll
  for (int i = 0; i < gdn::SIDE; ++i)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 w = gdn::unpack_bf16(u[i][n]);
      const float* read = &sums[2 * i + n / 2][n % 2 * 2];
      u[i][n] = gdn::pack_bf16(w.x - read[0], w.y - read[1]);
    }
}

__device__ __forceinline__ void decay_channels(gdn::State& s, const float* kept, unsigned lane) {
#pragma unroll
  for (int n = 0; n < 2 * gdn::KEY_TILES; ++n) {
    const float2 by = *reinterpret_cast<const float2*>(&kept[n * 8 + lane % 4 * 2]);
    s[n][0] *= by.x, s[n][1] *= by.y, s[n][2] *= by.x, s[n][3] *= by.y;
  }
}

__device__ __forceinline__ void arrive_together(gdn::Barrier& barrier, unsigned lane) {
  __syncwarp();
  if (lane == 0) gdn::arrive(barrier);
}

// The state of a warp's rows, chunk after chunk.
__device__ __forceinline__ void carry(Memory& memory, const float* state, float* new_state, int chunks, int tile,
                                      unsigned lane) {
  gdn::State s;
  gdn::load_state(s, state, lane);
  for (int i = 0; i < chunks; ++i) {
    const int slot = i % STAGES, place = i % 2;
    Handed& handed = memory.handed[tile][place];
    gdn::Operand begun[gdn::KEY_TILES], u[gdn::SIDE];
#pragma unroll
    for (int k = 0; k < gdn::KEY_TILES; ++k) gdn::narrow(begun[k], s[2 * k], s[2 * k + 1]);
    gdn::wait(memory.full[slot], i / STAGES % 2);
    const Chunk& chunk = memory.stages[slot];
    write_values(u, begun, chunk, tile, lane);
    if (i >= 2) gdn::wait(memory.free[tile][place], (i / 2 - 1) % 2);
    hand_on(handed.begun, begun, lane);
    hand_on(handed.u, u, lane);
    arrive_together(memory.there[tile][place], lane);
    decay_channels(s, chunk.alike.whole, lane);
    gdn::add_written(s, u, gdn::shared_address(chunk.alike.keys), lane);
    arrive_together(memory.empty[slot], lane);
  }
  gdn::store_state(new_state, s, lane);
}

// The outputs of a warp's rows.
__device__ __forceinline__ void write_outputs(Memory& memory, __nv_bfloat16* output, int tokens, int tile,
                                              unsigned lane) {
  for (int i = 0; i * gdn::CHUNK < tokens; ++i, output += gdn::CHUNK * (GDN_H * GDN_V)) {
    const int slot = i % STAGES, place = i % 2;
    gdn::Operand begun[gdn::KEY_TILES], u[gdn::SIDE];
    gdn::wait(memory.there[tile][place], i / 2 % 2);
    take_over(begun, memory.handed[tile][place].begun, lane);
    take_over(u, memory.handed[tile][place].u, lane);
    arrive_together(memory.free[tile][place], lane);
    gdn::wait(memory.full[slot], i / STAGES % 2);
    const kda::Alike& chunk = memory.stages[slot].alike;
    gdn::Sum sums[gdn::TOKEN_PAIRS];
    gdn::multiply_state(sums, begun, gdn::shared_address(chunk.queries), lane);
    gdn::add_triangle(sums, u, chunk.products, lane);
    arrive_together(memory.empty[slot], lane);
    gdn::store_output(output, sums, tokens - i * gdn::CHUNK, lane);
  }
}

// By one lane: chunks into shared memory, as far ahead as there are places for.
__device__ __forceinline__ void bring(Memory& memory, const kda::AllReady* from, int chunks, int first_tile) {
  for (int i = 0; i < chunks; ++i, from += GDN_H) {
    const int slot = i % STAGES, lap = i / STAGES;
    if (lap > 0) gdn::wait(memory.empty[slot], (lap - 1) % 2);
    gdn::arrive_expecting(memory.full[slot], sizeof(Chunk));
    gdn::load_bulk(&memory.stages[slot], from, sizeof(kda::Alike), memory.full[slot]);
    gdn::load_bulk(&memory.stages[slot].w, &from->w[first_tile], sizeof(Chunk::w), memory.full[slot]);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kda::THREADS, 2)
    kda_prefill_prepare(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                        const __nv_bfloat16* __restrict__ v, const __nv_bfloat16* __restrict__ g,
                        const __nv_bfloat16* __restrict__ b, const float* __restrict__ A_log,
                        const float* __restrict__ dt_bias, const long long* __restrict__ cu_seqlens,
                        const float scale, const float lower_bound, kda::AllReady* ready, const long long sequences) {
  extern __shared__ __align__(1024) char bytes[];
  auto& memory = *reinterpret_cast<kda::ChunkMemory*>(bytes);
  const int head = blockIdx.x, chunk = blockIdx.y;
  const gdn::Span span = gdn::find_chunk(cu_seqlens, static_cast<int>(sequences), chunk, threadIdx.x % gdn::WARP);
  kda::prepare_chunk(memory, {q, k, v, g, b, A_log, dt_bias, scale, lower_bound}, head, span, [] {}, [] {});
  kda::store_chunk(ready[static_cast<size_t>(chunk) * GDN_H + head], memory);
  gdn::wait_for_block_stores();
}

// Block (i, h, n): rows i * ROWS … of the state of head h and sequence n, by a warp for each 16 of them; as many warps
// write outputs, and one brings chunks.
extern "C" __global__ void __launch_bounds__((2 * WARPS + 1) * gdn::WARP, 1)
    kda_prefill_scan(const float* __restrict__ state, const long long* __restrict__ cu_seqlens,
                     __nv_bfloat16* __restrict__ output, float* __restrict__ new_state,
                     const kda::AllReady* __restrict__ ready) {
  extern __shared__ __align__(128) char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  const unsigned lane = threadIdx.x % gdn::WARP, warp = gdn::uniform(threadIdx.x / gdn::WARP);
  const int head = blockIdx.y, sequence = blockIdx.z;
  const long long begin = cu_seqlens[sequence];
  const int length = gdn::uniform(static_cast<int>(cu_seqlens[sequence + 1] - begin));
  const int chunks = (length + gdn::CHUNK - 1) / gdn::CHUNK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(memory.full[i], 1);
      gdn::initialise(memory.empty[i], 2 * WARPS);
    }
    for (int i = 0; i < 2 * WARPS; ++i) {
      gdn::initialise(memory.there[i / 2][i % 2], 1);
      gdn::initialise(memory.free[i / 2][i % 2], 1);
    }
    gdn::fence_async_proxy();
  }
  __syncthreads();

  if (warp == 2 * WARPS) {
    const int before = gdn::chunks_before(cu_seqlens, sequence, lane);
    if (lane == 0)
      bring(memory, ready + static_cast<size_t>(before) * GDN_H + head, chunks, blockIdx.x * WARPS);
    return;
  }
  const int tile = warp % WARPS, row = blockIdx.x * ROWS + tile * gdn::TILE;
  const size_t place = ((static_cast<size_t>(sequence) * GDN_H + head) * GDN_V + row) * GDN_K;
  if (warp < WARPS)
    carry(memory, state + place, new_state + place, chunks, tile, lane);
  else
    write_outputs(memory, output + (begin * GDN_H + head) * GDN_V + row, length, tile, lane);
}
