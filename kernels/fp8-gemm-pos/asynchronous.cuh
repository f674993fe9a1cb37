// What threads wait for in shared memory: mbarriers, and copies that arrive at them.
#pragma once

namespace gemm {

constexpr int WARP = 32, GROUP_WARPS = 4, GROUP = GROUP_WARPS * WARP;

// What all lanes of a warp hold alike, known to be so: ptxas then sees that branches on it part no warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A phase of a barrier is complete when so many have arrived, and the next one begins. Phases are told apart by their
// parity: that of the first is 0.
using Barrier = unsigned long long;

__device__ __forceinline__ void initialise(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
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

// 16 bytes from global to shared memory without a register; zeros if there is nothing to copy.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Arrives when the copies that this lane has begun are complete.
__device__ __forceinline__ void arrive_after_copies(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

// What was written to shared memory, and a barrier has shown to this thread, becomes visible to wgmma. Of shared memory
// alone: the fence of all memory would wait for stores of outputs, too.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The block's barriers by number, of which __syncthreads has 0, for so many threads.
template <int Threads>
__device__ __forceinline__ void synchronise(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

template <int Threads>
__device__ __forceinline__ void arrive_at(int number) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

// A warpgroup's registers a thread from here on: what some give, others can take.
template <int Registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace gemm
