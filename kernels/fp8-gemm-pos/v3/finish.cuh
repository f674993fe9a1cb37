// How a tile of C is finished: the table's rows, the arithmetic, and the way to memory.
#pragma once
#include "memory.cuh"

namespace gemm {

constexpr int PARTS = COLUMNS / 32;  // of a thread's sums, 16 each: 8 columns of two rows

constexpr bool KEEPS_C = STREAM == 1 || STREAM == 2;  // has a policy for C

// With EARLY no load of read-only memory, which compilers may move behind barriers and products, to where it is used.
__device__ __forceinline__ uint4 load_of_table(const __nv_bfloat16* from, unsigned long long policy) {
  uint4 found;
  if (PERSIST)
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
                 : "l"(from), "l"(policy)
                 : "memory");
  else if (EARLY)
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
                 : "l"(from)
                 : "memory");
  else
    found = __ldg(reinterpret_cast<const uint4*>(from));
  return found;
}

// A thread's part of the table; `row` and `column` are those of the thread's first number.
__device__ __forceinline__ void load_table(Added<COLUMNS>& added, const __nv_bfloat16* table, int row, int column,
                                           unsigned long long policy) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __nv_bfloat16* const from = table + (row + 8 * half) % GEMM_P * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < PARTS; ++i)
      added[half][i] =
          column + column_of_part(i) < GEMM_N ? load_of_table(from + column_of_part(i), policy) : uint4{};
  }
}

__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Two sums, scaled, and two numbers of the table, in bf16. Packed arithmetic rounds a sum before the table is added.
__device__ __forceinline__ unsigned finish_pair(float low, float high, float scale, unsigned added) {
  if (PACKED == 0) return finish(low, high, scale, added);
  unsigned pair;
  if (PACKED == 1)
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(rounded(scale * low, scale * high)), "r"(added));
  else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(pair)
        : "r"(rounded(low, high)), "r"(rounded(scale, scale)), "r"(added));
  return pair;
}

// Part i of row l / 4 + 8 half.
__device__ __forceinline__ uint4 finish_part(const float (&sums)[COLUMNS / 2], float scale,
                                             const Added<COLUMNS>& added, int half, int i) {
  const float* const x = sums + 16 * i + 2 * half;
  const uint4 more = added[half][i];
  return {finish_pair(x[0], x[1], scale, more.x), finish_pair(x[4], x[5], scale, more.y),
          finish_pair(x[8], x[9], scale, more.z), finish_pair(x[12], x[13], scale, more.w)};
}

__device__ __forceinline__ void store_part(__nv_bfloat16* to, uint4 eight, unsigned long long policy) {
  if (!KEEPS_C)
    *reinterpret_cast<uint4*>(to) = eight;
  else
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(eight.x), "r"(eight.y),
                 "r"(eight.z), "r"(eight.w), "l"(policy)
                 : "memory");
}

// Each thread stores its own.
__device__ __forceinline__ void store_directly(__nv_bfloat16* C, const float (&sums)[COLUMNS / 2], float scale,
                                               const Added<COLUMNS>& added, int row, int column, int rows,
                                               unsigned long long policy) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= rows) break;
    __nv_bfloat16* const to = C + static_cast<size_t>(row + 8 * half) * GEMM_N + column;
#pragma unroll
    for (int i = 0; i < PARTS; ++i)
      if (column + column_of_part(i) < GEMM_N)
        store_part(to + column_of_part(i), finish_part(sums, scale, added, half, i), policy);
  }
}

// The box at this row and column, as far as it lies in C, in a group of its own. By one thread.
__device__ __forceinline__ void store_box(const gdn::TensorMap& map, int row, int column, const void* from,
                                          unsigned long long policy) {
  const unsigned address = shared_address(from);
  if (!KEEPS_C)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                 "r"(column), "r"(row), "r"(address)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2}], [%3], %4;" ::"l"(
                     &map),
                 "r"(column), "r"(row), "r"(address), "l"(policy)
                 : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// All boxes that this thread has stored but the last `Pending` have left shared memory.
template <int Pending>
__device__ __forceinline__ void wait_for_boxes() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

#if STAGED
// A warp's 16 rows by boxes of 64 columns, swizzled in shared memory, where a warp has room for so many: a box's is
// taken again when its copy has read it. `box` is the place of the next one.
__device__ __forceinline__ void store_boxes(char (&staged)[STAGED][BOX_BYTES], int& box, const gdn::TensorMap& map,
                                            const float (&sums)[COLUMNS / 2], float scale, const Added<COLUMNS>& added,
                                            int first_row, int first_column, int lane, unsigned long long policy) {
#pragma unroll
  for (int i = 0; i < PARTS; i += 2) {
    if (lane == 0) wait_for_boxes<STAGED - 1>();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int side = 0; side < 2; ++side)
        *reinterpret_cast<uint4*>(staged[box] + swizzled(lane / 4 + 8 * half, lane % 4 * 2 + side)) =
            finish_part(sums, scale, added, half, i + side);
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) store_box(map, first_row, first_column + i / 2 * BOX_COLUMNS, staged[box], policy);
    box = box + 1 == STAGED ? 0 : box + 1;
  }
}
#endif

}  // namespace gemm
