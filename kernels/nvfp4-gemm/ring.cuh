// A block's steps in a ring of stages of shared memory, which one thread fills: B comes as it is, by bulk copies of a
// tensor map, and A widened, as an earlier launch has left it. Its warpgroup gives its registers to the others, which
// widen their rows of B in registers, wgmma's left operand, and multiply.
//
// Of a step's 128 numbers of a row lane t of four has word t of each piece of 16 bytes, which is how ldmatrix gives
// them. Piece v goes to products 2 v and 2 v + 1, pairs 0 and 1 of its words to the first of these. So a thread that
// widens a piece of A has four whole pieces of a band.
#pragma once
#include <gdn/tensor_map.cuh>

#include "columns.cuh"

namespace gemm {

constexpr int WARPS = 4 * WARPGROUPS, CONSUMERS = WARPS * WARP;  // that multiply
constexpr int THREADS = CONSUMERS + 4 * WARP;

// Registers a thread that a block begins with. With 64 rows a warpgroup they leave room for blocks of the launch that
// widens A. Warpgroups that multiply take more, and the one that fills stages gives most of its own.
constexpr int REGISTERS = EACH == 2 ? 168 : WARPGROUPS == 2 ? 128 : 112;
constexpr int CONSUMER_REGISTERS = EACH == 2 ? 240 : WARPGROUPS == 2 ? 176 : 136, FILLER_REGISTERS = 24;
static_assert(WARPGROUPS * CONSUMER_REGISTERS + FILLER_REGISTERS <= (WARPGROUPS + 1) * REGISTERS);
constexpr int TILE = 64 * WARPGROUPS * EACH;  // rows of B
constexpr int PIECES = STEP_BYTES / PIECE;    // of a row's codes in a step
constexpr int SCALE_TILE = 128, SCALE_TILE_BYTES = 1024;  // rows of a tile of scales, and what a step takes of it

// Scales come in pieces of 16, those of two steps, or, where they are tiled, in the two tiles that rows lie in at most.
struct Stage {
  char left[2 * BAND_BYTES];
  unsigned char codes[TILE][STEP_BYTES];
  unsigned char scales[GEMM_TILED ? 2 * MATRICES * SCALE_TILE_BYTES : TILE * PIECE];
};

struct alignas(1024) Place : Stage {};

constexpr unsigned CODES_PLACE = sizeof(Stage::left), SCALES_PLACE = CODES_PLACE + sizeof(Stage::codes);
constexpr unsigned RIGHT_BYTES = sizeof(Stage::codes) + sizeof(Stage::scales);

struct Memory {
  Place stages[STAGES];
  Barrier there[STAGES], free[STAGES];
};

// A thread's, of 64 rows of B each.
using Sums = float[EACH][COLUMNS / 2];

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
  for (int each = 0; each < EACH; ++each)
#pragma unroll
    for (float& sum : sums[each]) sum = 0;
}

// Where a block is in the ring, step after step.
struct Turn {
  unsigned stage = 0, parity = 0;

  __device__ __forceinline__ void go_on() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
};

// By all threads, first of all: barriers, and zeros for rows that tiles of A may not have.
__device__ __forceinline__ void prepare(Memory& memory, bool are_all) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      initialise(memory.there[stage], 1);
      initialise(memory.free[stage], WARPS);
    }
    fence_barriers();
  }
  if (!are_all) {
    for (int i = threadIdx.x; i < STAGES * 2 * BAND_BYTES / PIECE; i += THREADS)
      reinterpret_cast<uint4*>(memory.stages[i / (2 * BAND_BYTES / PIECE)].left)[i % (2 * BAND_BYTES / PIECE)] = uint4{};
    fence_async_proxy();
  }
  __syncthreads();
}

__device__ __forceinline__ void synchronise_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

// The next launch may begin when every block of this one has come here.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Returns when the launches before this one have ended, and shows what they wrote.
__device__ __forceinline__ void wait_for_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

constexpr int WIDENING = GEMM_K / 64;  // threads of a row, in the launch that widens A

// A piece of a row of A, 32 numbers as they are, and their two scales.
struct LeftPiece {
  uint4 codes;
  unsigned short scales;

  // The n-th of a row, whose number among those of its matrix's scales is `scale_row`. Where it stands, so that loads of
  // several pieces are not each moved to where their piece is widened.
  __device__ __forceinline__ void load(const unsigned char* row_codes, const unsigned char* matrix_scales,
                                       long long scale_row, int n) {
    const unsigned char* const two = matrix_scales + scale_place(scale_row, n / PIECES * STEP_SCALES + n % PIECES * 2);
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w)
                 : "l"(row_codes + n * PIECE));
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(scales) : "l"(two));
  }

  // To a row of the band that has it, where it is the first piece or the second.
  __device__ __forceinline__ void widen_to(char* band, int row, int place) const {
    const unsigned first = scale_pair(scales & 0xff), second = scale_pair(scales >> 8);
    unsigned pairs[4][4];
    widen(pairs[0], codes.x, first);
    widen(pairs[1], codes.y, first);
    widen(pairs[2], codes.z, second);
    widen(pairs[3], codes.w, second);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      *reinterpret_cast<uint4*>(band + swizzled(row, place * 4 + i)) = {pairs[0][i], pairs[1][i], pairs[2][i],
                                                                      pairs[3][i]};
  }
};

// Up to 128 rows of A as they are: those of a tile.
struct LeftRows {
  const unsigned char *codes, *matrix_scales;
  long long scale_row;  // of the first, among those of its matrix's scales
  int rows;

  // By all threads that multiply: widens a tile's first steps from `begin` to before `end`, a few at most, in the stages
  // themselves, so that these do not wait for an earlier launch.
  __device__ __forceinline__ void widen_first(Memory& memory, int begin, int end) const {
    static_assert(IN_PLACE <= STAGES);
    if (IN_PLACE == 0) return;
    constexpr int ALL = COLUMNS * PIECES, EACH_THREAD = IN_PLACE == 0 ? 1 : (IN_PLACE * ALL + CONSUMERS - 1) / CONSUMERS;
    const int count = min(end - begin, IN_PLACE) * ALL;
    LeftPiece pieces[EACH_THREAD];
#pragma unroll
    for (int i = 0; i < EACH_THREAD; ++i) {
      const int number = min(i * CONSUMERS + static_cast<int>(threadIdx.x), count - 1);
      const int row = min(number % ALL / PIECES, rows - 1);
      pieces[i].load(codes + static_cast<size_t>(row) * (GEMM_K / 2), matrix_scales, scale_row + row,
                     (begin + number / ALL) * PIECES + number % PIECES);
    }
#pragma unroll
    for (int i = 0; i < EACH_THREAD; ++i) {
      const int number = i * CONSUMERS + threadIdx.x, row = number % ALL / PIECES, piece = number % PIECES;
      if (number < count && row < rows)
        pieces[i].widen_to(memory.stages[number / ALL].left + piece / 2 * BAND_BYTES, row, piece % 2);
    }
    fence_async_proxy();
    synchronise_consumers();
  }
};

// The same, widened: step after step, and in each band after band, 64 numbers of each row.
struct LeftTile {
  char* bands;
  int rows;

  // Of rows from `first` on, of which `left` are there.
  __device__ __forceinline__ LeftTile(char* widened, long long first, int left)
      : bands(widened + first * GEMM_K * 2), rows(min(left, COLUMNS)) {}

  __device__ __forceinline__ unsigned step_bytes() const { return 2 * rows * BAND; }

  // By the n-th thread of a row: widens two of its pieces, the second one half a row behind the first.
  __device__ __forceinline__ void widen(int row, const unsigned char* row_codes, const unsigned char* matrix_scales,
                                        long long scale_row, int n) const {
    LeftPiece pieces[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) pieces[i].load(row_codes, matrix_scales, scale_row, n + i * WIDENING);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int piece = n + i * WIDENING;
      pieces[i].widen_to(bands + static_cast<size_t>(piece / 2) * rows * BAND, row, piece % 2);
    }
  }

  // By one thread: brings a step.
  __device__ __forceinline__ void bring(Place& stage, Barrier& there, int step) const {
    const unsigned bytes = rows * BAND, to = shared_address(stage.left);
    const char* const from = bands + static_cast<size_t>(2 * step) * bytes;
    copy_bulk(to, from, bytes, there);
    copy_bulk(to + BAND_BYTES, from + bytes, bytes, there);
  }
};

// By the thread that fills stages: steps of a tile from `begin` to before `end`. `bring(stage, barrier, step)` brings
// those of B. The first ones of the first tile are widened by others, and only those behind them wait for the launch that
// widens A.
template <typename Bring>
__device__ __forceinline__ void fill_stages(Memory& memory, Turn& turn, const LeftTile& left, int begin, int end,
                                            bool& is_first, Bring bring) {
  const int first = is_first ? min(end, begin + IN_PLACE) : begin;
  is_first = false;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    Place& stage = memory.stages[turn.stage];
    Barrier& there = memory.there[turn.stage];
    wait(memory.free[turn.stage], turn.parity ^ 1);
    arrive_expecting(there, RIGHT_BYTES + (step < first ? 0 : left.step_bytes()));
    bring(stage, there, step);
    if (step >= first) {
      wait_for_earlier();
      left.bring(stage, there, step);
    }
    turn.go_on();
  }
}

// By one thread: rows of B from `first` on and their scales, by maps of tensors, in which the matrix is at `at`. Tiled
// scales are at `scales`, for so many rows with what fills tiles up. `number` counts the B of a tile, of as many rows
// each.
template <typename... At>
__device__ __forceinline__ void bring_right(Place& stage, Barrier& there, const TensorMap& map,
                                                const TensorMap& scale_map, const unsigned char* scales, int scale_rows,
                                                int number, int first, int step, At... at) {
  constexpr int ROWS = TILE / MATRICES;
  load_box(stage.codes[number * ROWS], map, at..., first, step * STEP_BYTES, there);
  if (!GEMM_TILED) {
    load_box(stage.scales + number * ROWS * PIECE, scale_map, at..., first, step / 2 * PIECE, there);
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int tile = min(first / SCALE_TILE + i, scale_rows / SCALE_TILE - 1);
    copy_bulk(shared_address(stage.scales + (2 * number + i) * SCALE_TILE_BYTES),
              scales + (tile * (SCALES / 4) + step * 2) * 512, SCALE_TILE_BYTES, there);
  }
}

// What a lane multiplies of a step: a word of each piece of one row, and the scale of each word, two in a register.
struct RightWord {
  unsigned codes[4], scales[2];
};

// Where a lane finds a row of its warp's first 64, of 16 in the operand one of 0 to 7, or of the others: it names one to
// ldmatrix, and has the words of another one. Rows count those of the tile, which begins with `first`.
struct RightPlaces {
  static_assert(EACH == 1 || WARPGROUPS == 2);  // so that a lane's next rows lie in other tiles of scales, or further on
  static constexpr unsigned NEXT = 16 * WARPS / MATRICES;  // rows
  static constexpr unsigned NEXT_SCALES = !GEMM_TILED ? NEXT * PIECE : MATRICES == 1 ? SCALE_TILE_BYTES : NEXT / 32 * 4;
  unsigned codes, scales, selector;

  RightPlaces() = default;

  __device__ __forceinline__ RightPlaces(int named, int row, int first, int lane) {
    const int piece = lane / 8;
    codes = CODES_PLACE + named * STEP_BYTES + (piece ^ named / 2 % 4) * PIECE;
    selector = lane % 4 < 2 ? 0x6420 : 0x7531;
    if (GEMM_TILED) {
      constexpr int ROWS = TILE / MATRICES;
      const int number = row / ROWS, of_tiles = first % SCALE_TILE + row % ROWS, of_tile = of_tiles % SCALE_TILE;
      scales = SCALES_PLACE + (2 * number + of_tiles / SCALE_TILE) * SCALE_TILE_BYTES + of_tile % 32 * 16 +
               of_tile / 32 * 4;
    } else {
      scales = SCALES_PLACE + row * PIECE;
    }
  }

  // Returns a step's words, whose number is odd or not, by its stage's address: of the n-th 64 rows.
  __device__ __forceinline__ RightWord load(unsigned stage, unsigned odd, int n) const {
    const unsigned codes_of = stage + codes + n * NEXT * STEP_BYTES, scales_of = stage + scales + n * NEXT_SCALES;
    RightWord word;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.codes[0]), "=r"(word.codes[1]), "=r"(word.codes[2]), "=r"(word.codes[3])
                 : "r"(codes_of)
                 : "memory");
    unsigned low, high;
    if (GEMM_TILED) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(low) : "r"(scales_of) : "memory");
      asm volatile("ld.shared.u32 %0, [%1 + 512];" : "=r"(high) : "r"(scales_of) : "memory");
    } else {
      asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                   : "=r"(low), "=r"(high)
                   : "r"(scales_of + odd * STEP_SCALES)
                   : "memory");
    }
    constexpr unsigned TWICE_2_15 = 0x78007800;
    const unsigned four = __byte_perm(low, high, selector);
    word.scales[0] = multiply_pairs(__byte_perm(four, 0, 0x4140) << 7, TWICE_2_15);
    word.scales[1] = multiply_pairs(__byte_perm(four, 0, 0x4342) << 7, TWICE_2_15);
    return word;
  }
};

// The places of a warp's first 16 rows of B where a tile has one B. Lanes 4 n to 4 n + 3 have two rows that are
// neighbours, the second one first if n is 4 or more: so ldmatrix reads rows that lie in different banks.
struct Neighbours {
  RightPlaces places[2];

  __device__ __forceinline__ Neighbours(int first_column, int warp, int lane) {
    const int named = lane % 8, own = lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      places[half] = RightPlaces(warp * 16 + 2 * named + (half ^ named / 4), warp * 16 + 2 * own + (half ^ own / 4),
                                 first_column, lane);
  }
};

// Of four sums of these rows, two neighbours in each of two rows of C.
struct Pairs {
  float2 upper, lower;

  __device__ __forceinline__ Pairs(const float4& four, int lane) : upper{four.x, four.z}, lower{four.y, four.w} {
    if (lane >= 16) upper = {four.z, four.x}, lower = {four.w, four.y};
  }
};

// Two numbers of C.
__device__ __forceinline__ unsigned rounded(float2 pair) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(pair.y), "f"(pair.x));
  return both;
}

// One half of a pair, twice.
template <int Half>
__device__ __forceinline__ unsigned twice(unsigned pair) {
  unsigned both;
  if (Half == 0)
    asm("{ .reg .b16 low, high;\n mov.b32 {low, high}, %1;\n mov.b32 %0, {low, low}; }" : "=r"(both) : "r"(pair));
  else
    asm("{ .reg .b16 low, high;\n mov.b32 {low, high}, %1;\n mov.b32 %0, {high, high}; }" : "=r"(both) : "r"(pair));
  return both;
}

using Operands = unsigned[2][8 * WORDS];  // of two groups of products, one that runs and one that is made

// By the warpgroups that multiply: a step of 64 rows of B, added to their sums. Products of so many words are a group;
// while one's run, the next one's operands are made. Groups are numbered in their step; `when_waited(group)` is called
// when all groups but the last before this one are complete. ptxas lets products run as long as there is no branch between.
template <int Columns, typename Call>
__device__ __forceinline__ void multiply_words(float (&all)[COLUMNS / 2], Operands& operands,
                                               const RightWord (&rows)[2], unsigned bands, int first_group,
                                               Call when_waited) {
  float(&sums)[Columns / 2] = reinterpret_cast<float(&)[Columns / 2]>(all);
#pragma unroll
  for (int group = 0; group < 4 / WORDS; ++group) {
    wait_for_products<1>();  // what had these registers is complete
    when_waited(first_group + group);
    unsigned(&a)[8 * WORDS] = operands[(first_group + group) % 2];
#pragma unroll
    for (int i = 0; i < 2 * WORDS; ++i) {
      const int word = group * WORDS + i / 2, row = i % 2;
      const unsigned scales = rows[row].scales[word / 2];
      unsigned pairs[4];
      widen(pairs, rows[row].codes[word], word % 2 ? twice<1>(scales) : twice<0>(scales));
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) a[i / 2 * 8 + 2 * pair + row] = pairs[pair];
    }
    keep_in_place(a);
    fence_products();
#pragma unroll
    for (int i = 0; i < 2 * WORDS; ++i) {
      const int product = group * WORDS * 2 + i;
      multiply_more<Columns>(sums, a + 4 * i,
                             descriptor(bands + (product / 4 * BAND_BYTES + product % 4 * 2 * PIECE) / 16));
    }
    commit_products();
  }
}

// By the warpgroups that multiply: steps of a tile from `begin` to before `end`, added to sums, the first ones if there
// are fewer columns.
template <int Columns>
__device__ __forceinline__ void multiply_stages(Sums& sums, Memory& memory, Turn& turn, const RightPlaces (&places)[2],
                                                int begin, int end) {
  constexpr int GROUPS = 4 / WORDS;
  static_assert(EACH * GROUPS > 1);
  Operands operands;
  const bool frees = threadIdx.x % WARP == 0;
  unsigned last = 0;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    const unsigned stage = shared_address(&memory.stages[turn.stage]), bands = low_half(stage);
    wait(memory.there[turn.stage], turn.parity);
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      const RightWord rows[2] = {places[0].load(stage, step % 2, each), places[1].load(stage, step % 2, each)};
      multiply_words<Columns>(sums[each], operands, rows, bands, each * GROUPS, [&](int group) {
        if (group == 1 && step > begin && frees) arrive(memory.free[last]);
      });
    }
    last = turn.stage;
    turn.go_on();
  }
  wait_for_products<0>();
#pragma unroll
  for (int each = 0; each < EACH; ++each) keep_in_place(sums[each]);
  if (frees) arrive(memory.free[last]);
}

}  // namespace gemm
