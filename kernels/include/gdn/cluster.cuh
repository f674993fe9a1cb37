// The blocks of a cluster: their barrier in two halves, and stores to each other's shared memory. Hopper or later.
//
//   gdn::begin_in_cluster();        arrives as a block begins, which orders nothing and so costs nothing
//   gdn::wait_for_cluster();        all blocks run, so that their shared memory may be written
//   gdn::store_in_block(...);
//   gdn::arrive_at_cluster();       waits for stores before it
//   gdn::wait_for_cluster();        what the others stored is here
#pragma once

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

// Writes to where `mine` is in the shared memory of another block of the cluster.
__device__ __forceinline__ void store_in_block(float* mine, unsigned rank, float value) {
  asm volatile(
      "{ .reg .u32 theirs;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
      "  st.shared::cluster.f32 [theirs], %2; }" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(mine))),
      "r"(rank), "f"(value)
      : "memory");
}

}  // namespace gdn
