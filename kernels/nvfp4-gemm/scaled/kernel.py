"""The product in nvfp4 by tensor cores that take it as it is: program (i, j, l) makes a tile of C[l].

`tl.dot_scaled` with e2m1 factors and an e4m3 scale for each 16 is one instruction of sm_100's tensor cores,
`tcgen05.mma` of the kind mxf4nvf4 with four scales for 64 numbers.
"""

import triton
import triton.language as tl

E2M1 = tl.constexpr("e2m1")  # the interpreter takes it as a constant alone


@triton.jit
def tile_of_scales(scales, row, rows, first, K: tl.constexpr, TILED: tl.constexpr, BR: tl.constexpr, BK: tl.constexpr):
    """[BR, BK / 16], the scales of rows from `row` on and columns from `first` on; 0 beyond the last row."""
    BLOCKS: tl.constexpr = K // 16
    r = (row + tl.arange(0, BR))[:, None]
    c = (first // 16 + tl.arange(0, BK // 16))[None, :]
    if TILED:
        place = (r // 128 * (BLOCKS // 4) + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4
    else:
        place = r * BLOCKS + c
    return tl.load(scales + place, mask=r < rows, other=0.0)


@triton.jit
def nvfp4_gemm_scaled(
    A, sfa, B, sfb, C, M, rows_sfa, rows_sfb, N: tl.constexpr, K: tl.constexpr, TILED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    matrix = tl.program_id(2).to(tl.int64)
    row, column = tl.program_id(1) * BM, tl.program_id(0) * BN
    rows, columns = (row + tl.arange(0, BM))[:, None], column + tl.arange(0, BN)
    inner = tl.arange(0, BK // 2)[None, :]
    of_a = A + matrix * M * (K // 2) + rows * (K // 2) + inner
    of_b = B + matrix * N * (K // 2) + columns[:, None] * (K // 2) + inner
    sfa += matrix * rows_sfa * (K // 16)
    sfb += matrix * rows_sfb * (K // 16)
    sums = tl.zeros([BM, BN], dtype=tl.float32)
    for first in tl.range(0, K, BK, num_stages=STAGES):
        a = tl.load(of_a + first // 2, mask=rows < M, other=0)
        b = tl.load(of_b + first // 2, mask=columns[:, None] < N, other=0)
        scale_a = tile_of_scales(sfa, row, M, first, K, TILED, BM, BK)
        scale_b = tile_of_scales(sfb, column, N, first, K, TILED, BN, BK)
        sums = tl.dot_scaled(a, scale_a, E2M1, b.T, scale_b, E2M1, sums)
    of_c = C + matrix * M * N + rows * N + columns[None, :]
    tl.store(of_c, sums.to(tl.float16), mask=(rows < M) & (columns[None, :] < N))
