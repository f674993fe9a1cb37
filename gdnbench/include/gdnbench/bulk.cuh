// Bulk asynchronous copies between global and shared memory: a tile costs one instruction of one thread, no registers
// and no address arithmetic. Sizes and addresses are multiples of 16 bytes. All threads of a block call each of these;
// before Hopper (sm_90), where there are no such copies, all of them copy.
//
//   __shared__ __align__(8) unsigned long long arrived;      an mbarrier
//   gdnbench::begin_load(tile, source, bytes, &arrived);     makes the barrier, and asks for the copy
//   __syncthreads();                                         nobody waits at a barrier that is not there yet
//   gdnbench::wait_for_load(&arrived);                       then the tile is there
//
//   gdnbench::publish_stores();                              what this thread wrote to the tile, for the copy engine
//   __syncthreads();
//   gdnbench::store(target, tile, bytes);                    ends when the tile has been read, so that the block may go
#pragma once

namespace gdnbench {

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The barrier's phase ends when the one thread has arrived and the copy's bytes have.
__device__ __forceinline__ void begin_load(void* tile, const void* source, unsigned bytes,
                                           unsigned long long* arrived) {
  if (threadIdx.x != 0) return;
  const unsigned barrier = shared_address(arrived);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // the copy engine must see it, too
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(tile)),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void wait_for_load(const unsigned long long* arrived) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "  @!done bra again; }" ::"r"(shared_address(arrived))
      : "memory");
}

__device__ __forceinline__ void publish_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void store(void* target, const void* tile, unsigned bytes) {
  if (threadIdx.x != 0) return;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target), "r"(shared_address(tile)),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

#else

__device__ __forceinline__ void copy_together(void* target, const void* source, unsigned bytes) {
  for (unsigned i = threadIdx.x; i < bytes / 16; i += blockDim.x)
    static_cast<uint4*>(target)[i] = static_cast<const uint4*>(source)[i];
}

__device__ __forceinline__ void begin_load(void* tile, const void* source, unsigned bytes, unsigned long long*) {
  copy_together(tile, source, bytes);
}

__device__ __forceinline__ void wait_for_load(const unsigned long long*) {}

__device__ __forceinline__ void publish_stores() {}

__device__ __forceinline__ void store(void* target, const void* tile, unsigned bytes) {
  copy_together(target, tile, bytes);
}

#endif

}  // namespace gdnbench
