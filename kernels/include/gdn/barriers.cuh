// Arriving at barriers and waiting for them, from Hopper (sm_90) on.
#pragma once
#include <gdn/async.cuh>

namespace gdn {

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

// A bulk copy to shared memory, whose bytes the barrier's phase takes more; arrives there. Addresses and `bytes` are
// multiples of 16. What is read but once, L2 may give up before all else.
template <bool IsReadOnce = false>
__device__ __forceinline__ void load_in_bulk(void* to, const void* from, unsigned bytes, Barrier& arrived) {
  arrive_expecting(arrived, bytes);
  if constexpr (IsReadOnce) {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&arrived)), "l"(policy)
        : "memory");
  } else {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&arrived))
                 : "memory");
  }
}

// What a thread has initialised is a barrier to bulk copies, too.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Places in shared memory that are taken in turn: the place of what comes as number `count`, and the parity of the
// phase in which it is there.
template <unsigned Places>
struct Ring {
  static __device__ __forceinline__ unsigned place(unsigned count) { return count % Places; }
  static __device__ __forceinline__ unsigned parity(unsigned count) { return count / Places % 2; }
};

}  // namespace gdn
