"""The grouped product in nvfp4 by tensor cores that take it as it is: program (i, j) makes a tile of the j-th of rows.

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
def tile_of_group(ends, G, BM: tl.constexpr, TILED: tl.constexpr):
    """Which rows this program makes: tiles of a group's rows stand one after the other, and so do groups.

    Returns:
        The group, the tile's first row and the row after the group's last, and what is added to a row of A for its row
        of sfa, where groups begin with a tile of scales.
    """
    wanted = tl.program_id(1)
    group, row, last, shift, tiles, filled = 0, 0, 0, 0, 0, 0
    for each in range(0, G.to(tl.int32)):
        begin, end = tl.load(ends + each), tl.load(ends + each + 1)
        more = tl.cdiv(end - begin, BM)
        is_here = (wanted >= tiles) & (wanted < tiles + more)
        group = tl.where(is_here, each, group)
        row = tl.where(is_here, begin + (wanted - tiles) * BM, row)
        last = tl.where(is_here, end, last)
        shift = tl.where(is_here, filled - begin, shift)
        tiles += more
        filled += tl.cdiv(end - begin, 128) * 128 if TILED else end - begin
    return group.to(tl.int64), row, last, shift


@triton.jit
def nvfp4_grouped_gemm_scaled(
    A, sfa, B, sfb, ends, C, G, rows_sfb, N: tl.constexpr, K: tl.constexpr, TILED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    group, row, last, shift = tile_of_group(ends, G, BM, TILED)
    column = tl.program_id(0) * BN
    rows, columns = (row + tl.arange(0, BM))[:, None], column + tl.arange(0, BN)
    inner = tl.arange(0, BK // 2)[None, :]
    of_a = A + rows.to(tl.int64) * (K // 2) + inner
    of_b = B + group * N * (K // 2) + columns[:, None] * (K // 2) + inner
    sfb += group * rows_sfb * (K // 16)
    sums = tl.zeros([BM, BN], dtype=tl.float32)
    for first in tl.range(0, K, BK, num_stages=STAGES):
        a = tl.load(of_a + first // 2, mask=rows < last, other=0)
        b = tl.load(of_b + first // 2, mask=columns[:, None] < N, other=0)
        scale_a = tile_of_scales(sfa, row + shift, last + shift, first, K, TILED, BM, BK)
        scale_b = tile_of_scales(sfb, column, N, first, K, TILED, BN, BK)
        sums = tl.dot_scaled(a, scale_a, E2M1, b.T, scale_b, E2M1, sums)
    of_c = C + rows.to(tl.int64) * N + columns[None, :]
    tl.store(of_c, sums.to(tl.float16), mask=(rows < last) & (columns[None, :] < N))
