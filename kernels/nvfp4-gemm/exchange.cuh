// Parts of K that the blocks of a cluster have summed up. Each has a part of a thread's sums to add up, which the others
// store in its shared memory, where the stages were; its own stay in registers. The last steps of all tiles may be
// those of helpers, clusters of their own, which leave sums in memory.
#pragma once
#include "ring.cuh"

namespace gemm {

constexpr int MOST_HELPED = HELPERS > 0 && STEPS / 2 >= HELP_PARTS ? STEPS / 2 : 0;
constexpr int HELPED_STEPS = HELPED < MOST_HELPED ? HELPED : MOST_HELPED;
constexpr int OWN_STEPS = STEPS - HELPED_STEPS;
constexpr int PARTS = SPLIT < OWN_STEPS ? SPLIT : OWN_STEPS;  // each has a step

// Of K.
struct Part {
  int begin, end;  // steps

  explicit __device__ __forceinline__ Part(int number) {
    constexpr int EVEN = OWN_STEPS / PARTS, MORE = OWN_STEPS % PARTS;  // the first parts have a step more
    begin = number * EVEN + min(number, MORE);
    end = begin + EVEN + (number < MORE);
  }
};

constexpr int FOURS = EACH * COLUMNS / 8;  // of a thread's sums
constexpr int OWN_FOURS = (FOURS + PARTS - 1) / PARTS;  // that a block adds up, or what is left

struct Others {
  float4 fours[PARTS][OWN_FOURS][CONSUMERS];
};
static_assert(PARTS == 1 || sizeof(Others) <= sizeof(Memory::stages));

// Writes to where `mine` is in the shared memory of the cluster's block of this rank.
__device__ __forceinline__ void store_in_block(float4* mine, int rank, float4 four) {
  asm volatile(
      "{ .reg .u32 theirs;\n"
      "  mapa.shared::cluster.u32 theirs, %0, %1;\n"
      "  st.shared::cluster.v4.f32 [theirs], {%2, %3, %4, %5}; }" ::"r"(shared_address(mine)),
      "r"(rank), "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w)
      : "memory");
}

// A thread's sums, four by four: of 64 rows of B and 8 of A.
__device__ __forceinline__ float4 four_of(const Sums& sums, int number) {
  const float* const four = sums[number / (COLUMNS / 8)] + number % (COLUMNS / 8) * 4;
  return {four[0], four[1], four[2], four[3]};
}

// What a block's thread adds to its own part of the sums besides: what helpers leave.
using Helped = float4[HELPED_STEPS > 0 ? OWN_FOURS : 1];

// By all threads of a cluster, those that have sums and the others: stores what other blocks add up. No block may
// still read its stages before, and all have what is theirs after it. `meanwhile` is called in between.
template <bool HasSums, typename Call>
__device__ __forceinline__ void exchange(Others& others, const Sums& sums, int part, Call meanwhile) {
  if (PARTS > 1) synchronise_cluster();
  if constexpr (HasSums && PARTS > 1) {
#pragma unroll
    for (int to = 0; to < PARTS; ++to) {
      if (to == part) continue;
#pragma unroll
      for (int i = 0; i < min(OWN_FOURS, FOURS - to * OWN_FOURS); ++i)
        store_in_block(&others.fours[part][i][threadIdx.x], to, four_of(sums, to * OWN_FOURS + i));
    }
  }
  meanwhile();
  if (PARTS > 1) synchronise_cluster();
}

// By a thread that has sums: adds up its block's in order, those of helpers last, and gives `store` each four's place and
// value.
template <typename Store>
__device__ __forceinline__ void add_up(const Others& others, const Sums& sums, int part, const Helped& helped,
                                       Store store) {
#pragma unroll
  for (int own = 0; own < PARTS; ++own) {
    if (own != part) continue;
#pragma unroll
    for (int i = 0; i < min(OWN_FOURS, FOURS - own * OWN_FOURS); ++i) {
      const int number = own * OWN_FOURS + i;
      float4 sum = {};
#pragma unroll
      for (int from = 0; from < PARTS + (HELPED_STEPS > 0); ++from) {
        const float4 next = from == PARTS ? helped[i]
                            : from == own ? four_of(sums, number)
                                          : others.fours[from % PARTS][i][threadIdx.x];
        sum = from == 0 ? next : float4{sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w};
      }
      store(number / (COLUMNS / 8), number % (COLUMNS / 8), sum);
    }
  }
}

}  // namespace gemm
