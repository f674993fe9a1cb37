// A copy by the bulk copy engine, through shared memory: what floors that copy take where lanes' own loads and stores are slower.
#pragma once
#include "warp.cuh"

namespace gdn {

// By the first thread of a block: copies to `to`, so many times, each behind the last by `pitch` bytes, what `from` has; `buffer`
// has room for it. Returns when all has been read and written. Addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void copy_in_bulk(void* buffer, const void* from, void* to, unsigned bytes, int times, size_t pitch) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(8) unsigned long long arrived;
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  asm volatile(
      "{ .reg .pred done;\n"
      "  mbarrier.init.shared::cta.b64 [%0], 1;\n"
      "  fence.mbarrier_init.release.cluster;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %3;\n"
      "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], %3, [%0];\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "  @!done bra again; }" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(&arrived))),
      "r"(place), "l"(from), "r"(bytes)
      : "memory");
  for (int i = 0; i < times; ++i)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(static_cast<char*>(to) + i * pitch),
                 "r"(place), "r"(bytes)
                 : "memory");
  asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
#else  // before Hopper there are none: one thread takes all
  for (unsigned i = 0; i < bytes / sizeof(uint4); ++i) {
    const uint4 bits = static_cast<const uint4*>(from)[i];
    static_cast<uint4*>(buffer)[i] = bits;
    for (int n = 0; n < times; ++n) *reinterpret_cast<uint4*>(static_cast<char*>(to) + n * pitch + i * sizeof(bits)) = bits;
  }
#endif
}

}  // namespace gdn
