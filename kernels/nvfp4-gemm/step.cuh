// A step of C transposed, B A^T: B is the left operand of wgmma, and each warpgroup widens its own 64 rows of it in
// registers. The right one is A, widened, in a stage of shared memory.
//
// In which order the numbers of a step are summed is free, so long as both operands agree. Of a step's 128 lane t of
// four has 32 that lie side by side, in four words. Word v goes to products 2 v and 2 v + 1, pairs 0 and 1 of it to the
// first of these and pairs 2 and 3 to the second; an operand's inner numbers 2 t and 2 t + 1 are then the first pair of
// lane t, and 2 t + 8 and 2 t + 9 its second.
//
// Nor need B's rows come in order: the two of a warp's 16 that a lane has of the operands are neighbours, and so are
// their columns of C.
#pragma once
#include "products.cuh"
#include "widen.cuh"

namespace gemm {

// A warp's 16 rows of B in a step. Each lane reads the codes that it has copied, and scales that others have.
struct RightRows {
  uint4 codes[2][WARP];
  unsigned scales[WARP];
};

// Where a lane copies B from: a piece of each of two rows, and 4 scales of one of them.
struct RightSource {
  const unsigned char *codes, *scales;

  __device__ __forceinline__ void copy(RightRows& to, int lane) {
    copy_16(shared_address(&to.codes[0][lane]), codes);
    copy_16(shared_address(&to.codes[1][lane]), codes + GEMM_K / 2);
    copy_4(shared_address(&to.scales[lane]), scales);
    codes += STEP_BYTES;
    scales += NEXT_SCALES;
  }
};

// What a lane multiplies of a warp's rows in a step: the four words of two rows, and a scale for each two of these.
struct RightWords {
  unsigned codes[2][4], scales[2][2];

  __device__ __forceinline__ RightWords(const RightRows& rows, int lane) {
    const uint4 first = rows.codes[0][lane], second = rows.codes[1][lane];
    const auto* const from = reinterpret_cast<const unsigned char*>(rows.scales) + lane / 4 * 16 + lane % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint4 words = row == 0 ? first : second;
      codes[row][0] = words.x, codes[row][1] = words.y, codes[row][2] = words.z, codes[row][3] = words.w;
      scales[row][0] = scale_pair(from[8 * row]), scales[row][1] = scale_pair(from[8 * row + 1]);
    }
  }
};

// By a warpgroup: a step's products, added to the sums or the first of these. `bands` is the low half of the descriptor
// of A's stage, and `when_last_is_read` is called when no product of the step before runs any more. While a word's
// products run, the next one is widened; ptxas lets them run as long as there is no branch between.
template <typename Call>
__device__ __forceinline__ void multiply_step(float (&sums)[COLUMNS / 2], unsigned (&operands)[2][8],
                                              const RightWords& words, unsigned bands, bool adds,
                                              Call when_last_is_read) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    wait_for_products<1>();  // what had these registers is complete
    if (word == 1) when_last_is_read();
    unsigned(&a)[8] = operands[word % 2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      unsigned pairs[4];
      widen(pairs, words.codes[row][word], words.scales[row][word / 2]);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[2 * i + row] = pairs[i];
    }
    keep_in_place(a);
    fence_products();
    const unsigned b = bands + (word / 2 * BAND_BYTES + word % 2 * 4 * PIECE) / 16;
    multiply(sums, a, descriptor(b), adds || word > 0);
    multiply(sums, a + 4, descriptor(b + 2 * PIECE / 16), true);
    commit_products();
  }
}

}  // namespace gemm
