// Tokens of a head as a block takes them, 32 at a time, and its shared memory.
#pragma once
#include "../steps.cuh"

namespace kda {

constexpr int STEPS = CHUNK / TOKENS;  // of the chunks by which sequences are cut
constexpr int STAGES = 5;              // steps in shared memory

struct Band : PreparedBand {
  char values[TOKENS * BAND_BYTES];  // and outputs
};

struct alignas(1024) Stage {
  Band bands[BANDS];
  Square solved;      // T = diag(1 / |k|) (I + A)^-1 diag(beta), and beside it -T diag(1 / |k|)
  Square products;    // of queries and keys
  float rest[GDN_K];  // of what is kept after the first 16 tokens
  float since[GDN_K], before[GDN_K];  // what is kept since the last step's first 16 tokens, or G_m where that is too small; the last `rest`
  __nv_bfloat16 norms[TOKENS];        // scale / |q|
  alignas(8) int is_small[BANDS];     // of a band's channels any
};

struct FusedMemory {
  Stage stages[STAGES];
  Solving solving[PREPARERS];
  Barrier come[STAGES], decayed[STAGES], full[STAGES], empty[STAGES];  // as it comes; `rest` is there; prepared; and read

  // By one thread of a block, which synchronises after it.
  __device__ __forceinline__ void initialise() {
    for (int i = 0; i < STAGES; ++i) {
      gdn::initialise(come[i], CARRIERS);
      gdn::initialise(decayed[i], BANDS);
      gdn::initialise(full[i], GROUP_WARPS);
      gdn::initialise(empty[i], BANDS);
    }
    fence_async_proxy();
  }
};

// A range of a sequence's tokens and what becomes of it. All threads of a block know it.
struct Item {
  const float* state;        // [V, K] that it begins with; null for zeros
  float* new_state;          // where the last one goes, or null
  __nv_bfloat16* output;     // [T, H, V], of all tokens,
  const TensorMap* outputs;  // and as boxes
  int head, begin, tokens;   // the first token by its number among all; not a token is one, too
  int silent;                // steps at first whose outputs nobody wants

  __device__ __forceinline__ int steps() const { return (tokens + TOKENS - 1) / TOKENS; }
};

}  // namespace kda
