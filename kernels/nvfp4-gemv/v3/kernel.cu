// v2's products of bytes, on rows that bulk copies bring into a ring of stages in shared memory: what is under way
// takes no registers and no address arithmetic. One more warp asks for rows as soon as a stage is free.
#include "gemv.cuh"

namespace {

constexpr int WARP = 32;
constexpr int NUMBERS = 32;  // in 16 bytes: two scales
constexpr int PIECES = GEMV_K / NUMBERS;
constexpr int SPLIT = (PIECES + WARP * HELD - 1) / (WARP * HELD);  // warps that share a row
constexpr int GROUPS = WARPS < SPLIT ? 1 : WARPS / SPLIT;          // rows that a block works on side by side
constexpr int WORKERS = SPLIT * GROUPS;
constexpr int PER_SM = BLOCKS < 2 * 132 ? 1 : BLOCKS / 132;  // blocks that are to run at once
constexpr bool IS_WHOLE = SPLIT * WARP * HELD == PIECES;
constexpr int STAGE_ROWS = GROUPS * EACH;
constexpr unsigned CODES_BYTES = GEMV_K / 2, SCALES_BYTES = GEMV_K / 16;  // of a row
constexpr unsigned STAGE_BYTES = STAGE_ROWS * (CODES_BYTES + SCALES_BYTES);
constexpr int FITTING = RING * 1024 / STAGE_BYTES;
constexpr int STAGES = FITTING < 2 ? 2 : FITTING > 16 ? 16 : FITTING;
constexpr unsigned LOW = 0x03020100, HIGH = 0x0c080604;  // twice the magnitudes of codes 0 to 3 and 4 to 7
constexpr unsigned SIGNS = 0x88888888;
constexpr int BEGIN = 0x4b400000;   // 1.5 * 2^23 as an fp32
constexpr float UNDONE = 0x1p118f;  // a row's scales are 2^120 times smaller, and products 4 times larger

struct Row {
  uint4 codes[HELD];
  unsigned scales[HELD];
};

// The vector's part of a lane, in the order in which a row's codes come.
struct Part {
  unsigned low;  // LOW
  int numbers[HELD][NUMBERS / 4];
  float scales[HELD][2];
};

// Twice the numbers of the four lower codes that are positive, and 0 for the others.
__device__ __forceinline__ unsigned positive(unsigned low, unsigned codes) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(HIGH), "r"(codes));
  return bytes;
}

// Twice the numbers of the four lower codes, as signed bytes. No byte of the difference borrows from the next.
__device__ __forceinline__ int signed_bytes(unsigned low, unsigned codes) {
  const unsigned negative = (0x80808080u - positive(low, codes ^ SIGNS)) ^ 0x80808080u;
  return static_cast<int>(positive(low, codes) | negative);
}

// The first or the second of two e4m3 that are not negative, 2^120 times smaller: its bits are those of an fp32, 20
// places further down.
__device__ __forceinline__ float scale_of(unsigned two, int which) {
  return __uint_as_float((which == 0 ? two << 20 : two << 12) & 0x07f00000u);
}

__device__ __forceinline__ int add_products(int sum, unsigned low, unsigned codes, const int* numbers) {
  sum = __dp4a(static_cast<int>(positive(low, codes)), numbers[0], sum);
  return __dp4a(static_cast<int>(positive(low, codes >> 16)), numbers[1], sum);
}

// 4 times the sum over 16 numbers without their scales.
__device__ __forceinline__ float block_sum(unsigned low, unsigned first, unsigned second, const int* numbers) {
  int of_positive = add_products(BEGIN, low, first, numbers);
  int of_negative = add_products(BEGIN, low, first ^ SIGNS, numbers);
  of_positive = add_products(of_positive, low, second, numbers + 2);
  of_negative = add_products(of_negative, low, second ^ SIGNS, numbers + 2);
  return __int_as_float(of_positive) - __int_as_float(of_negative);
}

__device__ __forceinline__ float dot(const Row& row, const Part& part) {
  float sum = 0.f;
#pragma unroll
  for (int held = 0; held < HELD; ++held) {
    const uint4 codes = row.codes[held];
    const int* numbers = part.numbers[held];
    const float scales[2] = {scale_of(row.scales[held], 0) * part.scales[held][0],
                             scale_of(row.scales[held], 1) * part.scales[held][1]};
    sum = fmaf(scales[0], block_sum(part.low, codes.x, codes.y, numbers), sum);
    sum = fmaf(scales[1], block_sum(part.low, codes.z, codes.w, numbers + 4), sum);
  }
  return sum;
}

// Of EACH sums over a warp that of number lane / (WARP / EACH): lanes hand each other the half of the sums that
// they do not keep, as long as there is more than one.
__device__ __forceinline__ float warp_sum(float (&sums)[EACH], int lane) {
  int apart = WARP / 2;
#pragma unroll
  for (int kept = EACH / 2; kept > 0; kept /= 2, apart /= 2) {
    const bool is_upper = lane & apart;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const float handed = is_upper ? sums[i] : sums[i + kept];
      sums[i] = (is_upper ? sums[i + kept] : sums[i]) + __shfl_xor_sync(0xffffffffu, handed, apart);
    }
  }
#pragma unroll
  for (; apart > 0; apart /= 2) sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], apart);
  return sums[0];
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A phase of a barrier is complete when so many have arrived, and the bytes that they expect have. Phases are told
// apart by their parity: that of the first is 0.
using Barrier = unsigned long long;

__device__ __forceinline__ void initialise(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(Barrier& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void wait(const Barrier& barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "  @!done bra again; }" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void copy(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

// A stage of the ring, and the parity of the phase in which it is used.
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP*(WORKERS + 1), PER_SM) nvfp4_gemv_v3(GEMV_ARGUMENTS) {
  extern __shared__ __align__(128) unsigned char ring[];  // stages, each of the codes of its rows and then their scales
  float* const parts = reinterpret_cast<float*>(ring + STAGES * STAGE_BYTES);  // [rows of the block][SPLIT]
  __shared__ Barrier full[STAGES], empty[STAGES];
  const int lane = threadIdx.x % WARP;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / WARP, 0);  // ptxas then sees that branches on it part no warp
  const long long matrix = blockIdx.y;
  // Each block of the matrix has as many rows, or one more; in a stage its groups take them in turn.
  const int each = M / gridDim.x, more = M % gridDim.x;
  const int first = blockIdx.x * each + min(blockIdx.x, more), count = each + (blockIdx.x < more);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      initialise(full[stage], 1);
      initialise(empty[stage], WORKERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // the copy engine must see them, too
  }
  __syncthreads();  // nobody waits at a barrier that is not there yet

  Turn turn;
  int at = 0;  // a stage's first row
  if (warp == WORKERS) {
    if (lane == 0) {
      for (; at < count; at += STAGE_ROWS, turn.next()) {
        const unsigned rows = min(count - at, STAGE_ROWS);
        const size_t row = matrix * M + first + at;
        unsigned char* const codes = ring + turn.stage * STAGE_BYTES;
        wait(empty[turn.stage], turn.parity ^ 1);  // what comes before the first phase counts as complete
        arrive_and_expect(full[turn.stage], rows * (CODES_BYTES + SCALES_BYTES));
        copy(codes, a + row * CODES_BYTES, rows * CODES_BYTES, full[turn.stage]);
        copy(codes + STAGE_ROWS * CODES_BYTES, sfa + row * SCALES_BYTES, rows * SCALES_BYTES, full[turn.stage]);
      }
    }
  } else {
    const int share = warp % SPLIT, group = warp / SPLIT;
    const int piece = share * HELD * WARP + lane;  // a lane's first; the others lie WARP pieces apart
    Row of_vector = {}, rows[EACH] = {};
#pragma unroll
    for (int held = 0; held < HELD; ++held) {
      if (!IS_WHOLE && piece + held * WARP >= PIECES) continue;
      of_vector.codes[held] = reinterpret_cast<const uint4*>(b)[matrix * PIECES + piece + held * WARP];
      of_vector.scales[held] = reinterpret_cast<const unsigned short*>(sfb)[matrix * PIECES + piece + held * WARP];
    }
    Part part;
    part.low = lane < packed ? LOW : 0;  // always LOW; ptxas would move a constant to a register before each look-up
#pragma unroll
    for (int held = 0; held < HELD; ++held) {
      const uint4 four = of_vector.codes[held];
      const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < NUMBERS / 4; ++i)
        part.numbers[held][i] = signed_bytes(part.low, words[i / 2] >> (i % 2 * 16));
#pragma unroll
      for (int i = 0; i < 2; ++i) part.scales[held][i] = scale_of(of_vector.scales[held], i) * 0x1p120f * UNDONE;
    }

    const int of_lane = lane / (WARP / EACH);  // which of EACH sums it has in the end
    const bool is_first = lane % (WARP / EACH) == 0;
    do {  // a block has a row
      const unsigned char* const stage = ring + turn.stage * STAGE_BYTES;
      const uint4* const codes = reinterpret_cast<const uint4*>(stage) + group * PIECES + piece;
      const unsigned short* const scales =
          reinterpret_cast<const unsigned short*>(stage + STAGE_ROWS * CODES_BYTES) + group * PIECES + piece;
      const int left = count - at - group;
      wait(full[turn.stage], turn.parity);
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int held = 0; held < HELD; ++held) {
          // Behind the last row registers keep what they hold, and the sum is not stored.
          if (i * GROUPS >= left || (!IS_WHOLE && piece + held * WARP >= PIECES)) continue;
          rows[i].codes[held] = codes[i * GROUPS * PIECES + held * WARP];
          rows[i].scales[held] = scales[i * GROUPS * PIECES + held * WARP];
        }
      }
      __syncwarp();
      if (lane == 0) arrive(empty[turn.stage]);
      float sums[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) sums[i] = dot(rows[i], part);
      const float sum = warp_sum(sums, lane);
      if (is_first && of_lane * GROUPS < left) parts[(at + of_lane * GROUPS + group) * SPLIT + share] = sum;
      turn.next();
    } while ((at += STAGE_ROWS) < count);
  }
  __syncthreads();

  for (int row = threadIdx.x; row < count; row += blockDim.x) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < SPLIT; ++i) sum += parts[row * SPLIT + i];
    c[matrix * M + first + row] = __float2half(sum);
  }
}
