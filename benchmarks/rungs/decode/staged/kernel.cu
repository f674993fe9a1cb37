// decode-v3's own source, whose __syncwarp() are there or not. SYNC has a bit for each: 1 after the loads, 2 between
// the passes over a row, where nobody is waited for and k is read again instead of kept, 4 before the stores.
#include "gdn.cuh"

namespace {

// The three stand on lines of v3/kernel.cu that are known here.
template <int Line>
__device__ __forceinline__ void sync() {
  constexpr int AFTER_LOADS = 56, BETWEEN = 65, BEFORE_STORES = 76;
  static_assert(Line == AFTER_LOADS || Line == BETWEEN || Line == BEFORE_STORES, "v3 has changed");
  if constexpr (SYNC & (Line == AFTER_LOADS ? 1 : Line == BETWEEN ? 2 : 4)) __syncwarp();
}

}  // namespace

#define gdn_decode_v3 gdn_decode_rungs_staged
#define __syncwarp() sync<__LINE__>()
#if REGISTERS
#undef __launch_bounds__
#define __launch_bounds__(threads) __maxnreg__(REGISTERS)
#endif
#include "v3/kernel.cu"
