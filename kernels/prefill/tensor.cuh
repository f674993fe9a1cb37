// Tensor cores by warps: products of 16-bit numbers added up in fp32, and what brings their operands.
//
// mma multiplies A [16, 16] by B [16, 8]. Of both, and of the sum [16, 8], lane l holds pairs of neighbours: of A,
// whose rows are split into 8 and 8 and its columns, too, the pair (l % 4) of row l / 4 of each of the four quarters;
// of B the pair (l % 4) of column l / 4 of the upper and the lower half; of the sum as of A. So two sums side by side
// are, once they are narrowed, the next product's A, and no number changes its lane.
#pragma once
#include "prefill.cuh"

namespace gdn {

constexpr int TILE = 16;  // rows, and columns, of what mma takes

using Sum = float[4];         // [16, 8]: a pair of the upper rows, then one of the lower
using Operand = unsigned[4];  // A [16, 16]: upper left, lower left, upper right, lower right

__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ unsigned pack_fp16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// A pair of bf16, the low one first.
__device__ __forceinline__ float2 unpack_bf16(unsigned pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ void mma_bf16(Sum& sum, const Operand& a, unsigned b_upper, unsigned b_lower) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
}

__device__ __forceinline__ void mma_fp16(Sum& sum, const Operand& a, unsigned b_upper, unsigned b_lower) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_upper), "r"(b_lower));
}

// Four matrices [8, 8] of 16 bits in shared memory: lanes 0 to 7 tell where the rows of the first begin, the next eight
// where those of the second do, and so on. A lane gets the pair (l % 4) of row l / 4 of each; `transposed`, of each
// matrix turned over.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// A matrix [8, 8] of 16 bits that a warp holds, turned over.
__device__ __forceinline__ unsigned transpose(unsigned pair) {
  unsigned turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

// Arrives at a barrier, at once or when the copies that this lane began are complete.
__device__ __forceinline__ void arrive_after_copies(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

#if __CUDA_ARCH__ >= 900
// One thread's copy of many bytes, a multiple of 16, into shared memory.
__device__ __forceinline__ void load_bulk(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

// And out of shared memory, which was written before a fence_async_proxy(). Until the thread waits for it, that may not
// be written.
__device__ __forceinline__ void store_bulk(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n cp.async.bulk.commit_group;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
#endif

// A block's copy of shared memory to global memory, of a multiple of 16 bytes; what is copied was written before the
// block's last barrier. Until wait_for_block_stores, shared memory may not be written.
template <int Threads>
__device__ __forceinline__ void store_block(void* to, const void* from, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x != 0) return;
  fence_async_proxy();
  store_bulk(to, from, bytes);
#else
  for (unsigned i = threadIdx.x; i < bytes / 16; i += Threads)
    static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
#endif
}

// By all threads, which synchronise after it.
__device__ __forceinline__ void wait_for_block_stores() {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// Where the 16 bytes numbered `piece` of a row lie, in a tile whose rows have Pieces of them: any eight rows' pieces of
// one number lie in different banks, for the piece's number is xored with the row's.
template <int Pieces>
__device__ __forceinline__ constexpr int swizzled(int row, int piece) {
  constexpr int SPREAD = Pieces < 8 ? 8 / Pieces : 1;
  return (row * Pieces + (piece ^ (row / SPREAD % (Pieces < 8 ? Pieces : 8)))) * 16;
}

constexpr int BAND_BYTES = 128;  // of a row, in a matrix that is swizzled in units of 16 bytes over 8 rows
constexpr int EIGHT_ROWS = 8 * BAND_BYTES;

// Where piece `piece` of 16 bytes lies in a matrix of Rows rows that are cut into bands of 128 bytes, one after the
// other; as wgmma reads it, if the matrix begins at a multiple of 1024. Any eight neighbouring rows' pieces of one
// number lie in different banks.
template <int Rows>
__device__ __forceinline__ constexpr int banded(int row, int piece) {
  return piece / 8 * (Rows * BAND_BYTES) + row * BAND_BYTES + (piece % 8 ^ row % 8) * 16;
}

}  // namespace gdn
