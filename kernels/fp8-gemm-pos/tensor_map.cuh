// Bulk copies of tiles, which one thread asks for: a tensor map tells where a matrix lies, and what a tile of it is. A
// kernel is given no map, so that a warp writes one for its block.
#pragma once
#include "products.cuh"

namespace gemm {

constexpr int MAP_BYTES = 128;

// By a warp: a map of a matrix [rows, columns] of bytes, in tiles of 64 rows and a band, swizzled as wgmma reads them;
// what lies outside the matrix is zero. `map` is where it stays, in global memory, and `room` as many bytes of shared
// memory; both begin at a multiple of 128.
__device__ __forceinline__ void make_map(void* map, unsigned* room, const void* matrix, unsigned rows, unsigned columns,
                                         int lane) {
  const unsigned at = shared_address(room);
  room[lane] = 0;
  __syncwarp();
  if (lane == 0) {
#define GEMM_SET(field, type, constraint, value)                                                              \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " %1;" ::"r"(at), constraint(value) \
               : "memory")
    GEMM_SET("global_address", "b64 [%0],", "l", matrix);
    GEMM_SET("rank", "b32 [%0],", "n", 2 - 1);
    GEMM_SET("box_dim", "b32 [%0], 0,", "r", BAND);
    GEMM_SET("box_dim", "b32 [%0], 1,", "r", GROUP_ROWS);
    GEMM_SET("global_dim", "b32 [%0], 0,", "r", columns);
    GEMM_SET("global_dim", "b32 [%0], 1,", "r", rows);
    GEMM_SET("global_stride", "b64 [%0], 0,", "l", static_cast<unsigned long long>(columns));
    GEMM_SET("element_stride", "b32 [%0], 0,", "r", 1);
    GEMM_SET("element_stride", "b32 [%0], 1,", "r", 1);
    GEMM_SET("elemtype", "b32 [%0],", "n", 0);           // bytes
    GEMM_SET("interleave_layout", "b32 [%0],", "n", 0);  // none
    GEMM_SET("swizzle_mode", "b32 [%0],", "n", 3);       // over 128 bytes
    GEMM_SET("fill_mode", "b32 [%0],", "n", 0);          // zeros
#undef GEMM_SET
  }
  __syncwarp();
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map),
      "r"(at)
      : "memory");
}

// By one thread: the tile from a row and a column on; the barrier's phase takes its bytes, zeros among them.
__device__ __forceinline__ void load_tile(unsigned to, const void* map, int row, int column, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}

// By one thread: into L2, of bytes a multiple of 16.
__device__ __forceinline__ void prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

}  // namespace gemm
