// What threads wait for in shared memory: mbarriers, copies that arrive at them or that a lane waits for itself, and a
// cluster's other blocks.
#pragma once

namespace gemm {

constexpr int WARP = 32;

// What all lanes of a warp hold alike, known to be so: ptxas then sees that branches on it part no warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A phase of a barrier is complete when so many have arrived, and the bytes that they expect have. Phases are told
// apart by their parity: that of the first is 0.
using Barrier = unsigned long long;

__device__ __forceinline__ void initialise(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// What a thread has initialised is a barrier to bulk copies, too.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

// The barrier's phase will take so many bytes more; arrives at it.
__device__ __forceinline__ void arrive_expecting(Barrier& barrier, unsigned bytes) {
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

// Places in shared memory that are taken in turn: the place of what comes as number `count`, and the parity of the
// phase in which it is there.
template <unsigned Places>
struct Ring {
  static __device__ __forceinline__ unsigned place(unsigned count) { return count % Places; }
  static __device__ __forceinline__ unsigned parity(unsigned count) { return count / Places % 2; }
};

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

// What was written to shared memory, and a barrier has shown to this thread, becomes visible to wgmma.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

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
