// Bulk copies of boxes of a tensor, from Hopper (sm_90) on, by a map that the launch gives: `TensorMap("k", box=...)` in
// variant.py, and here a parameter `const __grid_constant__ gdn::TensorMap k`. Each of these is called by one thread.
#pragma once
#include <gdn/async.cuh>

namespace gdn {

struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

// What a copy needs of the map comes near, so that the first one does not wait for it.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The box from these elements on, by axes of the tensor in its own order; they may lie outside, also before it, where
// there are zeros. `to` is a multiple of 128 bytes, with a swizzle of 8 times that. The barrier's phase takes the bytes
// of the whole box, zeros among them.
__device__ __forceinline__ void load_box(void* to, const TensorMap& map, int c0, int c1, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(c1), "r"(c0), "r"(shared_address(&barrier))
      : "memory");
}

__device__ __forceinline__ void load_box(void* to, const TensorMap& map, int c0, int c1, int c2, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(to)),
      "l"(&map), "r"(c2), "r"(c1), "r"(c0), "r"(shared_address(&barrier))
      : "memory");
}

}  // namespace gdn
