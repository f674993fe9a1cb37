// What threads wait for in shared memory: mbarriers, and copies that arrive at them.
#pragma once
#include <gdn/barriers.cuh>

namespace gemm {

using namespace gdn;

constexpr int WARP = 32, GROUP_WARPS = 4, GROUP = GROUP_WARPS * WARP;

// Arrives when the copies that this lane has begun are complete.
__device__ __forceinline__ void arrive_after_copies(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

// The block's barriers by number, of which __syncthreads has 0, for so many threads.
template <int Threads>
__device__ __forceinline__ void synchronise(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

template <int Threads>
__device__ __forceinline__ void arrive_at(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

}  // namespace gemm
