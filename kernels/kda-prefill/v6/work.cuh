// A block's warps over an item.
#pragma once
#include "carry.cuh"
#include "prepare.cuh"

namespace kda {

// By a warp that carries: those of all blocks come at once, the first ones before others.
__device__ __forceinline__ void ask_for_first(const Bringer& bringer, FusedMemory& memory, unsigned lane) {
  for (int step = 0; step < PREPARERS; ++step) bringer.bring(memory, step, lane);
}

// By a block, which synchronises after it: as if they had not been asked for. A second phase of the barriers, which expects nothing,
// leaves their parity as it was.
__device__ __forceinline__ void forget_first(FusedMemory& memory, bool has_asked, unsigned lane) {
  for (int step = 0; step < PREPARERS; ++step) wait(memory.come[step], 0);
  __syncthreads();
  for (int step = 0; step < PREPARERS; ++step) {
    if (has_asked && lane == 0) arrive(memory.come[step]);
    wait(memory.come[step], 1);
  }
}

// By a block, whose memory is initialised: an item, which lies in shared memory, and whose first tokens have been asked for.
// `leave` takes what a warp that carries is left with: its rows of the state.
template <class Leave>
__device__ __forceinline__ void work(FusedMemory& memory, const Tensors& in, const Item& item, const Leave& leave) {
  const unsigned lane = threadIdx.x % WARP;
  const int warp = uniform(static_cast<int>(threadIdx.x) / WARP);
  if (warp >= CARRIERS) {
    give_registers<80>();
    prepare(memory, in, item, (warp - CARRIERS) / GROUP_WARPS, warp % GROUP_WARPS, lane);
    return;
  }
  take_registers<176>();
  const Bringer bringer(in, item, warp);
  State s;
  begin_state(s, item, warp, lane);
  if (item.tokens > 0) wait(memory.come[0], 0);
  for (int step = PREPARERS; step < STAGES; ++step) bringer.bring(memory, step, lane);
  if (item.tokens > 0) carry(s, memory, bringer, item, warp, lane);
  leave(s, warp, lane);
}

}  // namespace kda
