// What chunks of 64 tokens tell without the state, in the names of the op's numerics.py: the first launch of the CUDA
// kernels that take a prompt chunk by chunk.
//
// A chunk writes U = (I + A)^-1 diag(beta) R, with R_i = v_i - G_i S k_i, which alone knows the state. So there are
// prepared the matrix in front of R, the products (G_i / G_j) (q_i·k_j), and the decays.
#pragma once
#include "tensor.cuh"

namespace gdn {

constexpr int CHUNK = 64;
constexpr int SIDE = CHUNK / TILE;     // tiles along a side of a matrix [CHUNK, CHUNK]
constexpr int KEY_PIECES = GDN_K / 8;  // of 16 bytes in a key or query
constexpr float LOG2_E = 1.4426950408889634f;
static_assert(GDN_HV % GDN_HQ == 0, "value heads share query heads evenly");
static_assert(GDN_K == 128, "keys of 128 elements");

// A matrix [CHUNK, K], or a lower triangular one [CHUNK, CHUNK], in bf16 and in bands as wgmma reads them.
using Rows = __nv_bfloat16[CHUNK * GDN_K];
using Triangle = __nv_bfloat16[CHUNK * CHUNK];

// What is known of a chunk of one value head before its state is: what the state after it takes,
struct alignas(16) Carrying {
  Triangle solved;     // (I + A)^-1 diag(beta)
  float until[CHUNK];  // G_C / G_i
  float since[CHUNK];  // G_i; the last is that of the whole chunk
};

// and, in all, what its outputs take.
struct alignas(16) Prepared : Carrying {
  Triangle products;  // scale (G_i / G_j) (q_i·k_j)
};

// The keys and queries of a chunk, as a block brings them into shared memory; zeros after the sequence's end.
struct alignas(16) Loaded {
  Rows keys, queries;
};

// Stores a tile that a warp has as sums are laid out, in pairs of bf16: `half` is that of the columns.
__device__ __forceinline__ void store_tile(Triangle& to, int row, int column, const unsigned (&pairs)[2][2],
                                           unsigned lane) {
#pragma unroll
  for (int lower = 0; lower < 2; ++lower)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = banded<CHUNK>(row * TILE + lower * 8 + lane / 4, 2 * column + half) + lane % 4 * 4;
      *reinterpret_cast<unsigned*>(reinterpret_cast<char*>(to) + place) = pairs[lower][half];
    }
}

// By a warp: zeros in the 6 tiles above the diagonal.
__device__ __forceinline__ void clear_above(Triangle& to, unsigned lane) {
#pragma unroll
  for (int row = 0; row < SIDE; ++row)
#pragma unroll
    for (int column = row + 1; column < SIDE; ++column) {
      const int place = banded<CHUNK>(row * TILE + lane / 2, 2 * column + lane % 2);
      *reinterpret_cast<uint4*>(reinterpret_cast<char*>(to) + place) = make_uint4(0, 0, 0, 0);
    }
}

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
__device__ __forceinline__ void load_tile(unsigned to, const __nv_bfloat16* from, int stride, int there,
                                          unsigned thread, Place place) {
  static_assert(Threads % Pieces == 0 && CHUNK % (Threads / Pieces) == 0, "each thread copies the same column");
  const int column = thread % Pieces, first = thread / Pieces;
  const __nv_bfloat16* source = from + static_cast<long long>(first) * stride + column * 8;
  constexpr int STEP = Threads / Pieces;
  if (there >= CHUNK) {  // as nearly always: no address needs a check
#pragma unroll
    for (int i = 0; i < CHUNK / STEP; ++i)
      copy_async(to + place(first + i * STEP, column), source + static_cast<long long>(i * STEP) * stride, true);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < CHUNK / STEP; ++i) {
    // What is not there is not read, but its address must be one that may be.
    const bool is_there = first + i * STEP < there;
    copy_async(to + place(first + i * STEP, column),
               is_there ? source + static_cast<long long>(i * STEP) * stride : from, is_there);
  }
}

// Value heads that a block prepares a chunk of: they share its keys and queries, and their products.
constexpr int SHARE = GDN_HV / GDN_HQ;
constexpr int HEADS = SHARE % 2 == 0 ? 2 : 1;
constexpr int PREPARE_THREADS = 2 * SIDE * WARP;

__device__ __forceinline__ constexpr int tile_below(int row, int column) { return row * (row - 1) / 2 + column; }

// A tile [16, 16] in fp16: rows of two pieces of 16 bytes, which take turns so that any eight rows' left ones lie in
// different banks.
struct alignas(16) HalfTile {
  unsigned short places[TILE * TILE];

  static __device__ __forceinline__ constexpr int place(int row, int piece) {
    return (2 * row + (piece ^ row / 4 % 2)) * 8;
  }
};

// Of a head, A = diag(beta) (G_i / G_j) (k_i·k_j): fp16 below the diagonal tiles, and fp32 in them, which their
// inverses overwrite.
struct Coupling {
  HalfTile below[SIDE * (SIDE - 1) / 2];
  union Diagonal {
    alignas(16) float tile[TILE][TILE + 4];
    HalfTile inverse;
  } diagonal[SIDE];
};

// Shared memory of a block that prepares a chunk. What comes of keys and queries takes their place.
struct PrepareMemory {
  union {
    alignas(1024) Loaded loaded;
    struct {
      Coupling coupling[HEADS];
      alignas(1024) Triangle products[HEADS];
    };
  };
  struct alignas(1024) Aligned : Carrying {
  } carrying[HEADS];
  struct alignas(16) Gates {
    float log_since[CHUNK], beta[CHUNK];  // log2 G_i
  } gates[HEADS];
};

// The gates of tokens 2 l and 2 l + 1. After the sequence's end nothing decays or is written.
__device__ __forceinline__ void take_gates(PrepareMemory::Gates& gates, Carrying& carrying, const __nv_bfloat16* a,
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
  reinterpret_cast<float2*>(gates.log_since)[lane] = make_float2(first, second);
  reinterpret_cast<float2*>(gates.beta)[lane] = make_float2(beta[0], beta[1]);
  reinterpret_cast<float2*>(carrying.since)[lane] = make_float2(exp2_fast(first), exp2_fast(second));
  reinterpret_cast<float2*>(carrying.until)[lane] = make_float2(exp2_fast(whole - first), exp2_fast(whole - second));
}

// The same number, of which the compiler takes nothing out of a loop that this stands in: addresses would fill
// registers.
__device__ __forceinline__ unsigned worked_out_anew(unsigned x) {
  asm volatile("" : "+r"(x));
  return x;
}

// A tile [16, 16] as mma leaves it: the left columns, then the right ones.
using TileSums = Sum[2];

// The tiles up to column `row` of one row of X Y^T, for X and Y [CHUNK, K] in shared memory.
__device__ __forceinline__ void multiply_row(TileSums (&sums)[SIDE], unsigned x, unsigned y, int row, unsigned lane) {
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
    load_matrices(left, x + banded<CHUNK>(x_row, 2 * k + x_half));
#pragma unroll
    for (int column = 0; column < SIDE; ++column) {
      if (column > row) break;
      unsigned right[4];
      load_matrices(right, y + banded<CHUNK>(column * TILE + y_row, 2 * k + y_half));
      mma_bf16(sums[column][0], left, right[0], right[1]);
      mma_bf16(sums[column][1], left, right[2], right[3]);
    }
  }
}

// The factors G_i / G_j of a lane's numbers in a tile, by way of the first token of the tile's rows where the tile lies
// below the diagonal: no exponential is of a positive number, however fast a head forgets.
struct Ratios {
  float row[2], column[2][2];

  __device__ __forceinline__ Ratios(const float* log_since, int row_tile, int column_tile, unsigned lane) {
    const float* rows = log_since + row_tile * TILE;
    const float first = rows[0];
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) row[lower] = exp2_fast(rows[lane / 4 + lower * 8] - first);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair = *reinterpret_cast<const float2*>(&log_since[column_tile * TILE + half * 8 + lane % 4 * 2]);
      column[half][0] = exp2_fast(first - pair.x);
      column[half][1] = exp2_fast(first - pair.y);
    }
  }
};

// A tile times G_i / G_j and each row times its factor; on the diagonal zeros above it, and on it unless `WithSelf`.
template <bool WithSelf>
__device__ __forceinline__ void decay_tile(TileSums& x, const TileSums& sums, const float* log_since, int row,
                                           int column, const float (&rows)[2], unsigned lane) {
  if (column < row) {
    const Ratios ratios(log_since, row, column, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[half][i] = rows[i / 2] * ratios.row[i / 2] * (ratios.column[half][i % 2] * sums[half][i]);
    return;
  }
  const float* here = log_since + row * TILE;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int to = lane / 4 + i / 2 * 8, from = half * 8 + lane % 4 * 2 + i % 2;
      const bool counts = WithSelf ? from <= to : from < to;
      x[half][i] = counts ? rows[i / 2] * exp2_fast(here[to] - here[from]) * sums[half][i] : 0.f;
    }
}

// scale (G_i / G_j) (q_i·k_j) of a row of tiles.
__device__ __forceinline__ void store_products(Triangle& to, const TileSums (&sums)[SIDE], const float* log_since,
                                               int row, float scale, unsigned lane) {
  const float rows[2] = {scale, scale};
#pragma unroll
  for (int column = 0; column < SIDE; ++column) {
    if (column > row) break;
    TileSums x;
    decay_tile<true>(x, sums[column], log_since, row, column, rows, lane);
    const unsigned pairs[2][2] = {{pack_bf16(x[0][0], x[0][1]), pack_bf16(x[1][0], x[1][1])},
                                  {pack_bf16(x[0][2], x[0][3]), pack_bf16(x[1][2], x[1][3])}};
    store_tile(to, row, column, pairs, lane);
  }
}

// A_ij of a row of tiles.
__device__ __forceinline__ void store_coupling(Coupling& to, const TileSums (&sums)[SIDE],
                                               const PrepareMemory::Gates& gates, int row, unsigned lane) {
  const float rows[2] = {gates.beta[row * TILE + lane / 4], gates.beta[row * TILE + lane / 4 + 8]};
#pragma unroll
  for (int column = 0; column < SIDE; ++column) {
    if (column > row) break;
    TileSums x;
    decay_tile<false>(x, sums[column], gates.log_since, row, column, rows, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const float2 pair = make_float2(x[half][2 * lower], x[half][2 * lower + 1]);
        const int r = lane / 4 + lower * 8, c = half * 8 + lane % 4 * 2;
        if (column < row)
          *reinterpret_cast<unsigned*>(to.below[tile_below(row, column)].places + HalfTile::place(r, half) +
                                       lane % 4 * 2) = pack_fp16(pair.x, pair.y);
        else
          *reinterpret_cast<float2*>(&to.diagonal[row].tile[r][c]) = pair;
      }
  }
}

// (I + A)^-1 of one diagonal tile of each head, a column a lane from the first row down: t_i = e_i - Σ_{k<i} A_ik t_k.
template <int Heads>
__device__ __forceinline__ void invert_tiles(Coupling* heads, int tile, unsigned lane) {
  const unsigned column = lane % TILE;
  Coupling::Diagonal& diagonal = heads[lane / TILE % Heads].diagonal[tile];
  float t[TILE];
#pragma unroll
  for (int i = 0; i < TILE; ++i) {
    t[i] = column == i ? 1.f : 0.f;
    const float4* row = reinterpret_cast<const float4*>(diagonal.tile[i]);
#pragma unroll
    for (int quad = 0; quad < (i + 3) / 4; ++quad) {
      const float4 x = row[quad];  // zeros from the diagonal on
      t[i] = fmaf(-x.x, t[4 * quad], t[i]);
      if (4 * quad + 1 < i) t[i] = fmaf(-x.y, t[4 * quad + 1], t[i]);
      if (4 * quad + 2 < i) t[i] = fmaf(-x.z, t[4 * quad + 2], t[i]);
      if (4 * quad + 3 < i) t[i] = fmaf(-x.w, t[4 * quad + 3], t[i]);
    }
  }
  __syncwarp();
  if (lane < Heads * TILE) {
#pragma unroll
    for (int i = 0; i < TILE; ++i)
      (diagonal.inverse.places + HalfTile::place(i, column / 8))[column % 8] =
          static_cast<unsigned short>(pack_fp16(t[i], 0.f));
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
__device__ __forceinline__ void store_solved(Triangle& to, const Operand& tile, const float* beta, int row, int column,
                                             unsigned lane) {
  unsigned pairs[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_fp16(tile[i]);
    const float2 factor = *reinterpret_cast<const float2*>(&beta[column * TILE + i / 2 * 8 + lane % 4 * 2]);
    pairs[i % 2][i / 2] = pack_bf16(pair.x * factor.x, pair.y * factor.y);
  }
  store_tile(to, row, column, pairs, lane);
}

// A row of tiles of T = (I + A)^-1 from its diagonal tile to the left: T_ij = -(Σ_{j<k≤i} T_ik A_kj) T_jj. No entry is
// larger than those of T itself, which those of powers of A would be, so that fp16 holds them.
__device__ __forceinline__ void solve_row(Triangle& to, const Coupling& coupling, const float* beta, int row,
                                          unsigned lane) {
  Operand tiles[SIDE];  // T_i,i-n
  const auto address = [&](const HalfTile& tile) {
    return shared_address(tile.places + HalfTile::place(lane % 16, lane / 16));
  };
  load_matrices(tiles[0], address(coupling.diagonal[row].inverse));
  store_solved(to, tiles[0], beta, row, row, lane);
#pragma unroll
  for (int left = 1; left < SIDE; ++left) {
    const int column = row - left;
    if (column < 0) break;
    TileSums sums = {};
#pragma unroll
    for (int n = 0; n < left; ++n) {
      unsigned right[4];
      load_matrices_transposed(right, address(coupling.below[tile_below(row - n, column)]));
      mma_fp16(sums[0], tiles[n], right[0], right[1]);
      mma_fp16(sums[1], tiles[n], right[2], right[3]);
    }
    const Operand narrow = {pack_fp16(-sums[0][0], -sums[0][1]), pack_fp16(-sums[0][2], -sums[0][3]),
                            pack_fp16(-sums[1][0], -sums[1][1]), pack_fp16(-sums[1][2], -sums[1][3])};
    TileSums found = {};
    unsigned right[4];
    load_matrices_transposed(right, address(coupling.diagonal[column].inverse));
    mma_fp16(found[0], narrow, right[0], right[1]);
    mma_fp16(found[1], narrow, right[2], right[3]);
    tiles[left][0] = pack_fp16(found[0][0], found[0][1]);
    tiles[left][1] = pack_fp16(found[0][2], found[0][3]);
    tiles[left][2] = pack_fp16(found[1][0], found[1][1]);
    tiles[left][3] = pack_fp16(found[1][2], found[1][3]);
    store_solved(to, tiles[left], beta, row, column, lane);
  }
}

// Block (h, i): chunk i of the value heads from h * HEADS on. `kept` is where the chunk's keys and queries of each key
// head go, or null.
__device__ __forceinline__ void prepare(PrepareMemory& memory, const __nv_bfloat16* q, const __nv_bfloat16* k,
                                        const float* A_log, const float* dt_bias, const __nv_bfloat16* a,
                                        const __nv_bfloat16* b, const long long* cu_seqlens, float scale,
                                        Prepared* prepared, Loaded* kept, int sequences) {
  const unsigned lane = threadIdx.x % WARP, warp = uniform(threadIdx.x / WARP);
  const int first_head = blockIdx.x * HEADS, key_head = first_head / SHARE, chunk = blockIdx.y;
  const Span span = find_chunk(cu_seqlens, sequences, chunk, lane);
  const long long first_key = (span.begin * GDN_HQ + key_head) * GDN_K;
  const unsigned keys = shared_address(memory.loaded.keys), queries = shared_address(memory.loaded.queries);
  load_tile<KEY_PIECES, PREPARE_THREADS>(keys, k + first_key, GDN_HQ * GDN_K, span.tokens, threadIdx.x, banded<CHUNK>);
  load_tile<KEY_PIECES, PREPARE_THREADS>(queries, q + first_key, GDN_HQ * GDN_K, span.tokens, threadIdx.x,
                                         banded<CHUNK>);
  if (warp < HEADS) {
    const int head = first_head + warp;
    const long long first_gate = span.begin * GDN_HV + head;
    take_gates(memory.gates[warp], memory.carrying[warp], a + first_gate, b + first_gate, A_log[head], dt_bias[head],
               span.tokens, lane);
  }
  const int row = warp % SIDE;
  const bool is_for_keys = warp < SIDE;
  if (is_for_keys && row < HEADS) clear_above(memory.carrying[row].solved, lane);
  wait_for_copies();
  __syncthreads();
  const bool keeps = kept != nullptr && first_head % SHARE == 0;
  if (keeps)
    store_block<PREPARE_THREADS>(kept + static_cast<size_t>(chunk) * GDN_HQ + key_head, &memory.loaded, sizeof(Loaded));

  // Four warps have a row each of K K^T, the others of Q K^T. No head is unrolled: the code would outgrow its cache.
  TileSums sums[SIDE];
  multiply_row(sums, is_for_keys ? keys : queries, keys, row, lane);
  if (keeps) wait_for_block_stores();
  __syncthreads();
  if (is_for_keys) {
#pragma unroll 1
    for (int head = 0; head < HEADS; ++head) store_coupling(memory.coupling[head], sums, memory.gates[head], row, lane);
    __syncwarp();
    invert_tiles<HEADS>(memory.coupling, row, lane);
  } else {
    if (row < HEADS) clear_above(memory.products[row], lane);
#pragma unroll 1
    for (int head = 0; head < HEADS; ++head)
      store_products(memory.products[head], sums, memory.gates[head].log_since, row, scale, worked_out_anew(lane));
  }
  __syncthreads();
  if (const int head = warp / SIDE; head < HEADS)
    solve_row(memory.carrying[head].solved, memory.coupling[head], memory.gates[head].beta, row, lane);
  __syncthreads();
  Prepared* to = prepared + static_cast<size_t>(chunk) * GDN_HV + first_head;
#pragma unroll
  for (int head = 0; head < HEADS; ++head) {
    store_block<PREPARE_THREADS>(&to[head].solved, &memory.carrying[head], sizeof(Carrying));
    store_block<PREPARE_THREADS>(&to[head].products, &memory.products[head], sizeof(Triangle));
  }
  wait_for_block_stores();
}

}  // namespace gdn
