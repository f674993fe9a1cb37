// What asynchronous products of Hopper's tensor cores (wgmma) take, whatever they multiply.
#pragma once

namespace gdn {

// What all lanes of a warp hold alike, known to be so: ptxas then sees that branches on it part no warp.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }

constexpr int BAND = 128;  // bytes of a row that lie side by side in shared memory
constexpr int PIECE = 16;  // bytes that are swizzled as one

// Where a piece lies in a matrix of rows of a band, as wgmma reads it if the matrix begins at a multiple of 1024: its
// number is xored with its row's, so that those of one number in eight rows lie in different banks.
__device__ __forceinline__ constexpr int swizzled(int row, int piece) { return row * BAND + (piece ^ row % 8) * PIECE; }

// Orders what registers hold before the products that follow.
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products since the last commit are a group.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// All groups but the last `Pending` are complete.
template <int Pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Ties sums to the place where this stands: the compiler, which does not know that products run on, moves no use of
// theirs to the other side of it.
template <int Count>
__device__ __forceinline__ void keep_in_place(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

}  // namespace gdn
