// fp8-gemm-pos-v4's own source, with what it calls replaced.
#define FLOATS 1
#define ORDER 1
#define APART 0
#define PAST_L1 0
#define BLOCKS 132
#define fp8_gemm_pos_v4 fp8_gemm_pos_without

#include "v4/finish.cuh"

namespace gemm {

constexpr int FEW = 16384;  // rows of A and of C that the L2 holds

// As bring(), and A's rows come once, or are a few ones.
__device__ __forceinline__ void bring_without(Memory& memory, const gdn::TensorMap& of_rows,
                                              const gdn::TensorMap& of_columns, const Share& share) {
  unsigned place = 0, parity = 0, count = 0;
  for (int i = 0; i < share.count; ++i) {
    const int row = share.tile(i).first_row;
#pragma unroll 1
    for (int band = 0; band < BANDS; ++band, ++count) {
      Barrier& there = memory.there[place];
      wait(memory.free[place], parity ^ 1);
      if (LEFT & 2 && count >= STAGES) {
        arrive(there);
      } else {
        arrive_expecting(there, i == 0 ? STAGE_BYTES + COLUMNS_BYTES : STAGE_BYTES);
        if (i == 0) bring_columns(memory, of_columns, share.first_column, band, there);
        load_box(memory.rows[place], of_rows, LEFT & 8 ? row % FEW : row, band * BAND, there);
      }
      if (++place == STAGES) place = 0, parity ^= 1;
    }
  }
}

// C's numbers are made and not stored, or are stored into a few rows.
__device__ __forceinline__ void store_rows_without(__nv_bfloat16* C, const float (&sums)[COLUMNS / 2], float scale,
                                                   const Kept& kept, int row, int column, int rows) {
  if (!(LEFT & 1)) return store_rows(C, sums, scale, kept, LEFT & 16 ? row % FEW : row, column, rows);
  unsigned all = 0;
#pragma unroll
  for (int i = 0; i < COLUMNS / 4; ++i) all ^= finish_pair(sums + 2 * i, scale, kept, i);
  if (all == 0x12345678) C[column] = __float2bfloat16(1.f);
}

// No product, and sums that are not known before.
template <int Count>
__device__ __forceinline__ void multiply_without(float (&sums)[Count], unsigned long long a, unsigned long long b,
                                                 bool adds) {
  if (adds) return;
#pragma unroll
  for (int i = 0; i < Count; ++i) sums[i] = static_cast<float>(static_cast<unsigned>(a) + i);
}

}  // namespace gemm

#define bring bring_without
#define store_rows store_rows_without
#if LEFT & 4
#define multiply multiply_without
#endif

#include "v4/kernel.cu"
