"""C = A Bᵀ for matrices in nvfp4, by `tcgen05.mma`, which takes numbers and their scales as they are.

A block has 128 rows of A and some of B; thread t has row t of their product.
"""

from cutlass import Constexpr, Int32, Int64, cute

from .gdn.nvfp4 import ROWS, matrix_of_pair, store
from .gdn.nvfp4_native import scaled_sums


@cute.kernel
def nvfp4_gemm_native(
    A: cute.Pointer, sfa: cute.Pointer, B: cute.Pointer, sfb: cute.Pointer, C: cute.Pointer, M: Int32,
    N: Constexpr, K: Constexpr, TILED: Constexpr, COLUMNS: Constexpr, STAGES: Constexpr,
) -> None:  # fmt: skip
    tile_n, tile_m, pair = cute.arch.block_idx()
    first, row = (tile_m * ROWS, tile_n * COLUMNS), tile_m * ROWS + cute.arch.thread_idx()[0]
    (a, of_a), (b, of_b) = (matrix_of_pair(*each, K, TILED) for each in ((A, sfa, pair, M), (B, sfb, pair, Int32(N))))
    own = scaled_sums((a, b), (of_a, of_b), first, M, N, K, TILED, COLUMNS, STAGES)
    if row < M:
        store(own, C, Int64(pair) * M + row, first[1], N, COLUMNS)
