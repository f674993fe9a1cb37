// Prepared chunks on their way from blocks that prepare them to those that carry states, in places in global memory
// that are used in turn, and so few that they stay in the L2.
//
// A head's chunks of all sequences are numbered in their order; the heads' places are apart. A place's counters tell
// how many chunks have been put there, and how many blocks are done with one. All are 0 before and after a launch.
#pragma once
#include "chunk.cuh"

namespace kda {

constexpr int GROUPS_OF_HEADS = (GDN_H + MOST_HEADS - 1) / MOST_HEADS;
constexpr int HEADS = (GDN_H + GROUPS_OF_HEADS - 1) / GROUPS_OF_HEADS;  // that are taken side by side
constexpr int READERS = GDN_V / ROWS;                                   // blocks that take a chunk

__device__ unsigned chunks_put[HEADS][PLACES], chunks_read[HEADS][PLACES];
__device__ unsigned chunks_claimed, blocks_left;

__device__ __forceinline__ unsigned load_acquire(const unsigned* count) {
  unsigned seen;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
  return seen;
}

__device__ __forceinline__ void add_released(unsigned* count) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}

__device__ __forceinline__ void wait_for_count(const unsigned* count, unsigned least) {
  while (load_acquire(count) < least) {
  }
  asm volatile("fence.proxy.async.global;" ::: "memory");  // bulk copies come after it, too
}

// By one thread: the chunk numbered `step` may be read.
__device__ __forceinline__ void wait_until_put(int head, int step) {
  wait_for_count(&chunks_put[head][step % PLACES], step / PLACES + 1);
}

// By one thread: the place of the chunk numbered `step` is free.
__device__ __forceinline__ void wait_until_read(int head, int step) {
  wait_for_count(&chunks_read[head][step % PLACES], step / PLACES * READERS);
}

// By the thread that stored a chunk: it is there for others.
__device__ __forceinline__ void tell_put(int head, int step) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
  add_released(&chunks_put[head][step % PLACES]);
}

// Adds 1, and returns what was there before.
__device__ __forceinline__ unsigned add(unsigned* count) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}

// By one thread of each block that prepares, at its end; the last one leaves what they count 0.
__device__ __forceinline__ void leave(int blocks) {
  if (add(&blocks_left) + 1 < blocks) return;
  chunks_claimed = blocks_left = 0;
}

}  // namespace kda
