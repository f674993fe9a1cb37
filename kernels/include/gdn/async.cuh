// What warps with tasks of their own have: barriers and copies in shared memory, and registers to give and to take.
#pragma once

namespace gdn {

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A phase of a barrier is complete when so many have arrived, and the bytes that they expect have. Phases are told
// apart by their parity: that of the first is 0.
using Barrier = unsigned long long;

__device__ __forceinline__ void initialise(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// The barrier's phase will take so many bytes more; arrives at it.
__device__ __forceinline__ void arrive_expecting(Barrier& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}

// 16 bytes from global to shared memory without a register; zeros if there is nothing to copy.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What threads have written to shared memory, and a barrier has shown to this one, becomes visible to bulk copies and
// to wgmma. Of shared memory alone: the fence of all memory would wait for stores of outputs, too.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A warpgroup's registers a thread from here on: what some give, others can take.
template <int Registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace gdn
