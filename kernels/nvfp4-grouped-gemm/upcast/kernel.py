"""The grouped product in nvfp4 on tensor cores that have no four bits: widened to fp16 in registers, summed up in fp32.

The three lower bits of a code are two of exponent and one of significand. As bits 11 to 9 of an fp16, behind the sign
at bit 15, they are the code's number times 2^-14, the subnormal one's, too: e2m1's bias is 1 and fp16's 15. A scale
times 2^7 is at most 57344. So their product, the scaled number times 2^-7, is exact: a multiple of 2^-17 with no more
than 6 significant bits.

A byte's two numbers are not put side by side: the lower halves are one factor and the upper ones another, and sums run
over either. Program (i, j) makes a tile of the j-th rows of all groups' tiles of rows.
"""

import triton
import triton.language as tl

SCALE_UP = tl.constexpr(2.0**7)
FROM_BOTH = tl.constexpr(2.0**14)


@triton.jit
def widened(code, scales):
    """[R, 8 S], numbers of the lower four bits of uint8 [R, 8 S] times their scales [R, S], times 2^-7."""
    bits = ((code & 7).to(tl.uint16) << 9) | ((code & 8).to(tl.uint16) << 12)
    R: tl.constexpr = scales.shape[0]
    S: tl.constexpr = scales.shape[1]
    spread = tl.broadcast_to((scales.to(tl.float32) * SCALE_UP).to(tl.float16)[:, :, None], [R, S, 8])
    return bits.to(tl.float16, bitcast=True) * tl.reshape(spread, [R, 8 * S])


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
def nvfp4_grouped_gemm_upcast(
    A, sfa, B, sfb, ends, C, G, rows_sfb, N: tl.constexpr, K: tl.constexpr, TILED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    group, row, last, shift = tile_of_group(ends, G, BM, TILED)
    column = tl.program_id(0) * BN
    rows, columns = row + tl.arange(0, BM), (column + tl.arange(0, BN))[:, None]
    inner = tl.arange(0, BK // 2)[None, :]
    of_a = A + rows[:, None].to(tl.int64) * (K // 2) + inner
    of_b = B + group * N * (K // 2) + columns * (K // 2) + inner
    sfb += group * rows_sfb * (K // 16)
    sums = tl.zeros([BN, BM], dtype=tl.float32)  # C transposed: B, of which there is more, may stay in registers
    for first in tl.range(0, K, BK, num_stages=STAGES):
        a = tl.load(of_a + first // 2, mask=rows[:, None] < last, other=0)
        b = tl.load(of_b + first // 2, mask=columns < N, other=0)
        scale_a = tile_of_scales(sfa, row + shift, last + shift, first, K, TILED, BM, BK)
        scale_b = tile_of_scales(sfb, column, N, first, K, TILED, BN, BK)
        sums = tl.dot(widened(b, scale_b), widened(a, scale_a).T, acc=sums)
        sums = tl.dot(widened(b >> 4, scale_b), widened(a >> 4, scale_a).T, acc=sums)
    found = tl.trans(sums) * FROM_BOTH
    of_c = C + rows[:, None].to(tl.int64) * N + tl.trans(columns)
    tl.store(of_c, found.to(tl.float16), mask=(rows[:, None] < last) & (tl.trans(columns) < N))
