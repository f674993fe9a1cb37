// v2's products of bytes, on rows that bulk copies bring into a ring of stages in shared memory: what is under way
// takes no registers and no address arithmetic. One more warp asks for rows as soon as a stage is free.
#include <gdn/barriers.cuh>

#include "bytes.cuh"

using namespace gdn;
using namespace gemv;

namespace {

constexpr int WORKERS = SPLIT * GROUPS;
constexpr int PER_SM = BLOCKS < 2 * 132 ? 1 : BLOCKS / 132;  // blocks that are to run at once
constexpr int STAGE_ROWS = GROUPS * EACH;
constexpr unsigned CODES_BYTES = GEMV_K / 2, SCALES_BYTES = GEMV_K / 16;  // of a row
constexpr unsigned STAGE_BYTES = STAGE_ROWS * (CODES_BYTES + SCALES_BYTES);
constexpr int FITTING = RING * 1024 / STAGE_BYTES;
constexpr int STAGES = FITTING < 2 ? 2 : FITTING > 16 ? 16 : FITTING;

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
        arrive_expecting(full[turn.stage], rows * (CODES_BYTES + SCALES_BYTES));
        copy(codes, a + row * CODES_BYTES, rows * CODES_BYTES, full[turn.stage]);
        copy(codes + STAGE_ROWS * CODES_BYTES, sfa + row * SCALES_BYTES, rows * SCALES_BYTES, full[turn.stage]);
      }
    }
  } else {
    const int share = warp % SPLIT, group = warp / SPLIT;
    const int piece = share * HELD * WARP + lane;  // a lane's first; the others lie WARP pieces apart
    Row of_vector = {}, rows[EACH] = {};
    load_vector(of_vector, b, sfb, matrix, piece);
    const Part part = part_of(of_vector, lane < packed ? LOW : 0);  // always LOW

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

  add_shares(parts, c + matrix * M + first, count);
}
