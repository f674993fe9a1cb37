// The blocks of a cluster: their barrier in two halves, and stores to each other's shared memory. Hopper or later.
//
//   gdn::begin_in_cluster();        arrives as a block begins, which orders nothing and so costs nothing
//   gdn::wait_for_cluster();        all blocks run, so that their shared memory may be written
//   gdn::store_in_block(...);
//   gdn::arrive_at_cluster();       waits for stores before it
//   gdn::wait_for_cluster();        what the others stored is here
#pragma once
#include <gdn/async.cuh>

#if __CUDA_ARCH__ < 900
#error "GPUs have clusters of blocks from Hopper on"
#endif

namespace gdn {

__device__ __forceinline__ void begin_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }

__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void meet_in_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}

// Writes to where `mine` is in the shared memory of another block of the cluster.
__device__ __forceinline__ void store_in_block(float* mine, unsigned rank, float value) {
  asm volatile(
      "{ .reg .u32 theirs;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
      "  st.shared::cluster.f32 [theirs], %2; }" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(mine))),
      "r"(rank), "f"(value)
      : "memory");
}

// Copies to where `mine` is in another block's shared memory, once that one lets it; `barrier` there takes the bytes.
__device__ __forceinline__ void copy_to_block(void* mine, const void* from, unsigned bytes, Barrier& barrier, unsigned rank) {
  asm volatile(
      "{ .reg .u32 theirs, told;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %4;\n"
      "  mapa.shared::cluster.u32 told, %3, %4;\n"
      "  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [theirs], [%1], %2, [told]; }" ::"r"(
          shared_address(mine)),
      "r"(shared_address(from)), "r"(bytes), "r"(shared_address(&barrier)), "r"(rank)
      : "memory");
}

// Arrives at another block's barrier.
__device__ __forceinline__ void arrive_in_block(Barrier& mine, unsigned rank) {
  asm volatile(
      "{ .reg .u32 theirs;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
      "  mbarrier.arrive.shared::cluster.b64 _, [theirs]; }" ::"r"(shared_address(&mine)),
      "r"(rank)
      : "memory");
}

}  // namespace gdn
