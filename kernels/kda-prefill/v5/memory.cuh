// What is prepared of a chunk, on its way from a block that prepares it to the one that carries its head's state.
#pragma once
#include <gdn/tensor_map.cuh>

#include "../sixteens.cuh"

namespace kda {

// Queries times decays, keys times what is kept after them, and keys times decays, negated; the products of queries, and
// (I + A)^-1 diag(beta).
struct alignas(1024) Matrices {
  Rows queries, keys, decayed;
  Triangle products, solved;
};

struct Prepared {
  Matrices matrices;
  alignas(1024) float whole[GDN_K];  // what is kept of the state
};
constexpr unsigned WHOLE_BYTES = GDN_K * sizeof(float), PREPARED_BYTES = sizeof(Matrices) + WHOLE_BYTES;

constexpr int STAGES = 3, VALUE_STAGES = 2;  // chunks in shared memory of a block that carries, and their values
constexpr int STATE_WARPS = GDN_V / TILE, OUTPUT_WARPS = GROUP_WARPS;

// Steps are a block's chunks, numbered in the order of its heads and of sequences.
struct CarryMemory {
  Matrices stages[STAGES];
  alignas(1024) __nv_bfloat16 values[VALUE_STAGES][CHUNK * GDN_V];
  float whole[STAGES][GDN_K];
  Barrier full[STAGES], shown[STAGES], empty[STAGES];  // as it comes; its outputs in the place of decayed keys; and all read
  Barrier come[VALUE_STAGES], read[VALUE_STAGES];      // values as they come, and read, as are the step's decayed keys

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(full[i], 1);
      gdn::initialise(shown[i], STATE_WARPS);
      gdn::initialise(empty[i], OUTPUT_WARPS + 1);
    }
    for (int i = 0; i < VALUE_STAGES; ++i) {
      gdn::initialise(come[i], 1);
      gdn::initialise(read[i], STATE_WARPS);
    }
    fence_async_proxy();
  }
};

}  // namespace kda
