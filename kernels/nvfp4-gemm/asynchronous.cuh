// What threads wait for in shared memory: mbarriers, copies that arrive at them or that a lane waits for itself, and a
// cluster's other blocks.
#pragma once
#include <gdn/barriers.cuh>

namespace gemm {

using namespace gdn;

constexpr int WARP = 32;

// By one thread: bytes from global to shared memory, a multiple of 16, which the barrier's phase takes.
__device__ __forceinline__ void copy_bulk(unsigned to, const void* from, unsigned bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

// 16 or 4 bytes from global to shared memory without a register. The 16 that lie behind them are wanted soon, and come
// to L2 with them.
__device__ __forceinline__ void copy_16(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_4(unsigned to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

// The lane's copies since the last commit are a group.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All of the lane's groups but the last `Pending` are complete.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// By all threads of a cluster: what they did before, all see after it.
__device__ __forceinline__ void synchronise_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What the cluster's block of this rank has where this one has `address`.
__device__ __forceinline__ float4 load_of(int rank, unsigned address) {
  float4 four;
  asm volatile(
      "{ .reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
      : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
      : "r"(address), "r"(rank)
      : "memory");
  return four;
}

}  // namespace gemm
