// What chunks of 64 tokens tell without the state, in the names of the op's numerics.py: the first launch of the CUDA
// kernels that take a prompt chunk by chunk.
//
// A chunk writes U = (I + A)^-1 diag(beta) R, with R_i = v_i - G_i S k_i, which alone knows the state. So there are
// prepared the matrix in front of R, the products (G_i / G_j) (q_i·k_j), and the decays.
#pragma once
#include "tensor.cuh"

namespace gdn {

constexpr int CHUNK = 64;
constexpr int SIDE = CHUNK / TILE;               // tiles along a side of a matrix [CHUNK, CHUNK]
constexpr int TILES = SIDE * (SIDE + 1) / 2;     // of a lower triangular one
constexpr int KEY_PIECES = GDN_K / 8;            // of 16 bytes in a key or query
constexpr float LOG2_E = 1.4426950408889634f;
static_assert(GDN_K == 128, "keys of 128 elements");

__host__ __device__ constexpr int tile_number(int row, int column) { return row * (row + 1) / 2 + column; }

// Of a lower triangular matrix, in bf16, the tiles on and below the diagonal: each 16 rows of two pieces of 16 bytes.
using Triangle = uint4[TILES][2 * TILE];

// Where a piece lies in its tile: any eight rows' left ones lie in different banks.
__device__ __forceinline__ constexpr int piece_number(int row, int piece) { return 2 * row + (piece ^ row / 4 % 2); }

// Stores a tile that a warp has as sums are laid out, in pairs of bf16: `half` is that of the columns.
__device__ __forceinline__ void store_tile(uint4 (&to)[2 * TILE], const unsigned (&pairs)[2][2], unsigned lane) {
  unsigned* words = reinterpret_cast<unsigned*>(to);
#pragma unroll
  for (int lower = 0; lower < 2; ++lower)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      words[piece_number(lane / 4 + lower * 8, half) * 4 + lane % 4] = pairs[lower][half];
}

// What is known of a chunk of one value head before its state is.
struct alignas(16) Prepared {
  Triangle solved;     // (I + A)^-1 diag(beta), bf16
  Triangle products;   // scale (G_i / G_j) (q_i·k_j), bf16
  float since[CHUNK];  // G_i; the last is that of the whole chunk
  float until[CHUNK];  // G_C / G_i
};

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Sum over the lanes up to this one.
template <class T>
__device__ __forceinline__ T sum_to_here(T x, unsigned lane) {
#pragma unroll
  for (int distance = 1; distance < WARP; distance *= 2) {
    const T other = __shfl_up_sync(ALL_LANES, x, distance);
    if (lane >= distance) x += other;
  }
  return x;
}

__device__ __forceinline__ int chunks_of(long long begin, long long end) {
  return static_cast<int>((end - begin + CHUNK - 1) / CHUNK);
}

// Chunks of the sequences before this one.
__device__ __forceinline__ int chunks_before(const long long* cu_seqlens, int sequence, unsigned lane) {
  int count = 0;
  for (int i = lane; i < sequence; i += WARP) count += chunks_of(cu_seqlens[i], cu_seqlens[i + 1]);
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) count += __shfl_xor_sync(ALL_LANES, count, offset);
  return count;
}

// The tokens from which to which a chunk goes, where chunks are numbered through all sequences.
struct Span {
  long long begin;
  int tokens;
};

__device__ __forceinline__ Span find_chunk(const long long* cu_seqlens, int sequences, int chunk, unsigned lane) {
  for (int first = 0;; first += WARP) {
    const int sequence = min(first + static_cast<int>(lane), sequences);
    const long long begin = cu_seqlens[sequence], end = cu_seqlens[min(sequence + 1, sequences)];
    const int own = chunks_of(begin, end), through = sum_to_here(own, lane);
    const unsigned beyond = __ballot_sync(ALL_LANES, through > chunk);
    if (beyond != 0) {
      const int found = __ffs(beyond) - 1;
      const int place = chunk - __shfl_sync(ALL_LANES, through - own, found);
      const long long from = __shfl_sync(ALL_LANES, begin, found) + place * CHUNK;
      const long long left = __shfl_sync(ALL_LANES, end, found) - from;
      return {from, static_cast<int>(left < CHUNK ? left : CHUNK)};
    }
    chunk -= __shfl_sync(ALL_LANES, through, WARP - 1);
  }
}

// A tile of CHUNK rows of Pieces times 16 bytes each into shared memory, by Threads threads of which this is one; rows
// from `there` on become zeros. `place` tells where a piece goes by its row and number.
template <int Pieces, int Threads, class Place>
__device__ __forceinline__ void load_tile(unsigned to, const __nv_bfloat16* from, int stride, int there, unsigned thread,
                                          Place place) {
  static_assert(Threads % Pieces == 0 && CHUNK % (Threads / Pieces) == 0, "each thread copies the same column");
  const int column = thread % Pieces, first = thread / Pieces;
#pragma unroll
  for (int i = 0; i < CHUNK * Pieces / Threads; ++i) {
    const int row = first + i * (Threads / Pieces);
    // What is not there is not read, but its address must be one that may be.
    const __nv_bfloat16* source = from + static_cast<long long>(row < there ? row : 0) * stride + column * 8;
    copy_async(to + place(row, column), source, row < there);
  }
}

// Shared memory of a block that prepares a chunk.
struct Workbench {
  alignas(128) __nv_bfloat16 keys[CHUNK * GDN_K];
  alignas(128) __nv_bfloat16 queries[CHUNK * GDN_K];
  alignas(16) unsigned short coupling[CHUNK][CHUNK + 8];      // A below its diagonal tiles, fp16; 8 keep banks apart
  alignas(16) float diagonal[SIDE][TILE][TILE + 4];           // A in its diagonal tiles
  alignas(16) unsigned short inverse[SIDE][TILE][TILE + 8];   // their inverses, fp16
  alignas(16) float log_since[CHUNK], beta[CHUNK];            // log2 G_i
};

constexpr int PREPARE_WARPS = SIDE;  // each has the tiles of a row
constexpr int PREPARE_THREADS = PREPARE_WARPS * WARP;

// The gates of tokens 2 l and 2 l + 1. After the sequence's end nothing decays or is written.
__device__ __forceinline__ void take_gates(Workbench& bench, Prepared& prepared, const __nv_bfloat16* a,
                                           const __nv_bfloat16* b, float A_log, float dt_bias, int tokens,
                                           unsigned lane) {
  float rate[2], beta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * lane + i;
    rate[i] = beta[i] = 0.f;
    if (token < tokens) {
      rate[i] = -LOG2_E * decay_rate(A_log, dt_bias, a[token * GDN_HV]);
      beta[i] = 1.f / (1.f + expf(-__bfloat162float(b[token * GDN_HV])));
    }
  }
  const float second = sum_to_here(rate[0] + rate[1], lane), first = second - rate[1];
  const float whole = __shfl_sync(ALL_LANES, second, WARP - 1);
  reinterpret_cast<float2*>(bench.log_since)[lane] = make_float2(first, second);
  reinterpret_cast<float2*>(bench.beta)[lane] = make_float2(beta[0], beta[1]);
  reinterpret_cast<float2*>(prepared.since)[lane] = make_float2(exp2_fast(first), exp2_fast(second));
  reinterpret_cast<float2*>(prepared.until)[lane] = make_float2(exp2_fast(whole - first), exp2_fast(whole - second));
}

// The tiles up to column `row` of one row of X Y^T, for X and Y [CHUNK, K] in shared memory.
__device__ __forceinline__ void multiply_row(Sum (&sums)[SIDE][2], unsigned x, unsigned y, int row, unsigned lane) {
#pragma unroll
  for (int column = 0; column < SIDE; ++column)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[column][half][i] = 0.f;
  // Of a tile of X the rows' halves come first, of one of Y the columns', that is the halves of k.
  const int x_row = row * TILE + lane % 16, x_half = lane / 16;
  const int y_row = lane / 16 * 8 + lane % 8, y_half = lane / 8 % 2;
#pragma unroll
  for (int k = 0; k < GDN_K / TILE; ++k) {
    Operand left;
    load_matrices(left, x + swizzled<KEY_PIECES>(x_row, 2 * k + x_half));
#pragma unroll
    for (int column = 0; column < SIDE; ++column) {
      if (column > row) break;
      unsigned right[4];
      load_matrices(right, y + swizzled<KEY_PIECES>(column * TILE + y_row, 2 * k + y_half));
      mma_bf16(sums[column][0], left, right[0], right[1]);
      mma_bf16(sums[column][1], left, right[2], right[3]);
    }
  }
}

// Of a tile's sums, those of this lane: `half` is that of the columns, `i` the place in a Sum.
__device__ __forceinline__ int row_of(unsigned lane, int i) { return lane / 4 + i / 2 * 8; }
__device__ __forceinline__ int column_of(unsigned lane, int half, int i) { return half * 8 + lane % 4 * 2 + i % 2; }

// scale (G_i / G_j) (q_i·k_j) of a row of tiles.
__device__ __forceinline__ void store_products(Triangle& to, const Sum (&sums)[SIDE][2], const Workbench& bench,
                                               int row, float scale, unsigned lane) {
#pragma unroll
  for (int column = 0; column < SIDE; ++column) {
    if (column > row) break;
    float x[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int to_token = row * TILE + row_of(lane, i), from_token = column * TILE + column_of(lane, half, i);
        // Never the exponential of a positive number, however fast a head forgets.
        const float ratio = exp2_fast(fminf(bench.log_since[to_token] - bench.log_since[from_token], 0.f));
        x[half][i] = from_token <= to_token ? scale * ratio * sums[column][half][i] : 0.f;
      }
    const unsigned pairs[2][2] = {{pack_bf16(x[0][0], x[0][1]), pack_bf16(x[1][0], x[1][1])},
                                  {pack_bf16(x[0][2], x[0][3]), pack_bf16(x[1][2], x[1][3])}};
    store_tile(to[tile_number(row, column)], pairs, lane);
  }
}

// A_ij = beta_i (G_i / G_j) (k_i·k_j), below the diagonal of a row of tiles.
__device__ __forceinline__ void store_coupling(Workbench& bench, const Sum (&sums)[SIDE][2], int row, unsigned lane) {
#pragma unroll
  for (int column = 0; column < SIDE; ++column) {
    if (column > row) break;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int r = row_of(lane, i), c = column_of(lane, half, 0), to_token = row * TILE + r;
        const float log_since = bench.log_since[to_token], beta = bench.beta[to_token];
        float x[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float ratio = exp2_fast(fminf(log_since - bench.log_since[column * TILE + c + j], 0.f));
          x[j] = beta * ratio * sums[column][half][i + j];
        }
        if (column < row) {
          *reinterpret_cast<unsigned*>(&bench.coupling[to_token][column * TILE + c]) = pack_fp16(x[0], x[1]);
        } else {
          bench.diagonal[row][r][c] = c < r ? x[0] : 0.f;
          bench.diagonal[row][r][c + 1] = c + 1 < r ? x[1] : 0.f;
        }
      }
  }
}

// (I + A)^-1 of one diagonal tile, a column a lane from the first row down: t_i = e_i - Σ_{k<i} A_ik t_k. The upper
// half of the warp does the same as the lower.
__device__ __forceinline__ void invert_tile(unsigned short (&to)[TILE][TILE + 8], const float (&from)[TILE][TILE + 4],
                                            unsigned lane) {
  const unsigned column = lane % TILE;
  float t[TILE];
#pragma unroll
  for (int i = 0; i < TILE; ++i) {
    t[i] = column == i ? 1.f : 0.f;
#pragma unroll
    for (int k = 0; k < i; ++k) t[i] = fmaf(-from[i][k], t[k], t[i]);
  }
  if (lane < TILE) {
#pragma unroll
    for (int i = 0; i < TILE; ++i) to[i][column] = static_cast<unsigned short>(pack_fp16(t[i], 0.f));
  }
}

__device__ __forceinline__ float2 unpack_fp16(unsigned pair) {
  float2 x;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(x.x), "=f"(x.y)
      : "r"(pair));
  return x;
}

// A tile of (I + A)^-1, given as an operand in fp16: its columns times beta_j, as the chunk's R will be multiplied.
__device__ __forceinline__ void store_solved(Triangle& to, const Operand& tile, const Workbench& bench, int row,
                                             int column, unsigned lane) {
  const float2 left = *reinterpret_cast<const float2*>(&bench.beta[column * TILE + column_of(lane, 0, 0)]);
  const float2 right = *reinterpret_cast<const float2*>(&bench.beta[column * TILE + column_of(lane, 1, 0)]);
  unsigned pairs[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_fp16(tile[i]), beta = i < 2 ? left : right;
    pairs[i % 2][i / 2] = pack_bf16(pair.x * beta.x, pair.y * beta.y);
  }
  store_tile(to[tile_number(row, column)], pairs, lane);
}

// A row of tiles of T = (I + A)^-1 from its diagonal tile to the left: T_ij = -(Σ_{j<k≤i} T_ik A_kj) T_jj. No entry is
// larger than those of T itself, which those of powers of A would be, so that fp16 holds them.
__device__ __forceinline__ void solve_row(Triangle& to, const Workbench& bench, int row, unsigned lane) {
  Operand tiles[SIDE];  // T_i,i-n
  const auto inverse = [&](int tile) {
    return shared_address(&bench.inverse[tile][lane % 16][lane / 16 * 8]);
  };
  load_matrices(tiles[0], inverse(row));
  store_solved(to, tiles[0], bench, row, row, lane);
#pragma unroll
  for (int left = 1; left < SIDE; ++left) {
    const int column = row - left;
    if (column < 0) break;
    Sum sums[2] = {};
#pragma unroll
    for (int n = 0; n < left; ++n) {
      unsigned right[4];
      load_matrices_transposed(
          right, shared_address(&bench.coupling[(row - n) * TILE + lane % 16][column * TILE + lane / 16 * 8]));
      mma_fp16(sums[0], tiles[n], right[0], right[1]);
      mma_fp16(sums[1], tiles[n], right[2], right[3]);
    }
    const Operand narrow = {pack_fp16(-sums[0][0], -sums[0][1]), pack_fp16(-sums[0][2], -sums[0][3]),
                            pack_fp16(-sums[1][0], -sums[1][1]), pack_fp16(-sums[1][2], -sums[1][3])};
    Sum found[2] = {};
    unsigned right[4];
    load_matrices_transposed(right, inverse(column));
    mma_fp16(found[0], narrow, right[0], right[1]);
    mma_fp16(found[1], narrow, right[2], right[3]);
    tiles[left][0] = pack_fp16(found[0][0], found[0][1]);
    tiles[left][1] = pack_fp16(found[0][2], found[0][3]);
    tiles[left][2] = pack_fp16(found[1][0], found[1][1]);
    tiles[left][3] = pack_fp16(found[1][2], found[1][3]);
    store_solved(to, tiles[left], bench, row, column, lane);
  }
}

// Block (h, i): chunk i of value head h.
__device__ __forceinline__ void prepare(Workbench& bench, const __nv_bfloat16* q, const __nv_bfloat16* k,
                                        const float* A_log, const float* dt_bias, const __nv_bfloat16* a,
                                        const __nv_bfloat16* b, const long long* cu_seqlens, float scale,
                                        Prepared* prepared, int sequences) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  const int head = blockIdx.x, chunk = blockIdx.y, key_head = head / (GDN_HV / GDN_HQ);
  const Span span = find_chunk(cu_seqlens, sequences, chunk, lane);
  Prepared& to = prepared[static_cast<size_t>(chunk) * GDN_HV + head];
  const long long first_row = span.begin * GDN_HQ + key_head;
  const unsigned keys = shared_address(bench.keys), queries = shared_address(bench.queries);
  load_tile<KEY_PIECES, PREPARE_THREADS>(keys, k + first_row * GDN_K, GDN_HQ * GDN_K, span.tokens, threadIdx.x,
                                         swizzled<KEY_PIECES>);
  load_tile<KEY_PIECES, PREPARE_THREADS>(queries, q + first_row * GDN_K, GDN_HQ * GDN_K, span.tokens, threadIdx.x,
                                         swizzled<KEY_PIECES>);
  if (warp == 0) {
    const long long first_gate = span.begin * GDN_HV + head;
    take_gates(bench, to, a + first_gate, b + first_gate, A_log[head], dt_bias[head], span.tokens, lane);
  }
  wait_for_copies();
  __syncthreads();

  Sum sums[SIDE][2];
  multiply_row(sums, keys, keys, warp, lane);
  store_coupling(bench, sums, warp, lane);
  __syncwarp();
  invert_tile(bench.inverse[warp], bench.diagonal[warp], lane);
  // The warp that has the fewest tiles of A has the most of the products.
  const int row = SIDE - 1 - warp;
  multiply_row(sums, queries, keys, row, lane);
  store_products(to.products, sums, bench, row, scale, lane);
  __syncthreads();
  solve_row(to.solved, bench, warp, lane);
}

}  // namespace gdn
