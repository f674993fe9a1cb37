"""The gated product in nvfp4 by tensor cores that take it as it is: program (i, j) makes a tile of C.

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
def gated(gate, other):
    """silu(gate) times other, in fp32."""
    return gate / (1.0 + tl.exp(-gate)) * other


@triton.jit
def nvfp4_dual_gemm_scaled(
    A, sfa, B1, sfb1, B2, sfb2, C, M, N: tl.constexpr, K: tl.constexpr, TILED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(1) * BM, tl.program_id(0) * BN
    rows, columns = (row + tl.arange(0, BM))[:, None], column + tl.arange(0, BN)
    inner = tl.arange(0, BK // 2)[None, :]
    of_a = rows.to(tl.int64) * (K // 2) + inner
    of_b = columns[:, None].to(tl.int64) * (K // 2) + inner
    gate = tl.zeros([BM, BN], dtype=tl.float32)
    other = tl.zeros([BM, BN], dtype=tl.float32)
    for first in tl.range(0, K, BK, num_stages=STAGES):
        a = tl.load(A + of_a + first // 2, mask=rows < M, other=0)
        b1 = tl.load(B1 + of_b + first // 2, mask=columns[:, None] < N, other=0)
        b2 = tl.load(B2 + of_b + first // 2, mask=columns[:, None] < N, other=0)
        scale_a = tile_of_scales(sfa, row, M, first, K, TILED, BM, BK)
        scale_1 = tile_of_scales(sfb1, column, N, first, K, TILED, BN, BK)
        scale_2 = tile_of_scales(sfb2, column, N, first, K, TILED, BN, BK)
        gate = tl.dot_scaled(a, scale_a, E2M1, b1.T, scale_1, E2M1, gate)
        other = tl.dot_scaled(a, scale_a, E2M1, b2.T, scale_2, E2M1, other)
    of_c = C + rows.to(tl.int64) * N + columns[None, :]
    tl.store(of_c, gated(gate, other).to(tl.float16), mask=(rows < M) & (columns[None, :] < N))
