"""C = silu(A B1ᵀ) (A B2ᵀ) for matrices in nvfp4, by `tcgen05.mma`, which takes numbers and their scales as they are.

A block has 128 rows of A, and of B1 and B2 the same rows; thread t has row t of both products.
"""

from cutlass import Constexpr, Int32, Int64, cute, range_constexpr

from .gdn.nvfp4 import ROWS, silu, store
from .gdn.nvfp4_native import scaled_sums


@cute.kernel
def nvfp4_dual_gemm_native(
    A: cute.Pointer, sfa: cute.Pointer, B1: cute.Pointer, sfb1: cute.Pointer, B2: cute.Pointer, sfb2: cute.Pointer,
    C: cute.Pointer, M: Int32,
    N: Constexpr, K: Constexpr, TILED: Constexpr, COLUMNS: Constexpr, STAGES: Constexpr,
) -> None:  # fmt: skip
    tile_n, tile_m, _ = cute.arch.block_idx()
    first, row = (tile_m * ROWS, tile_n * COLUMNS), tile_m * ROWS + cute.arch.thread_idx()[0]
    numbers, scales = (A.toint(), B1.toint(), B2.toint()), (sfa.toint(), sfb1.toint(), sfb2.toint())
    own = scaled_sums(numbers, scales, first, M, N, K, TILED, COLUMNS, STAGES)
    if row < M:
        for i in range_constexpr(COLUMNS):
            own[i] = silu(own[i]) * own[COLUMNS + i]
        store(own, C, Int64(row), first[1], N, COLUMNS)
