"""The product in nvfp4 on tensor cores that have no four bits: widened to fp16 in registers, summed up in fp32.

The three lower bits of a code are two of exponent and one of significand. As bits 11 to 9 of an fp16, behind the sign
at bit 15, they are the code's number times 2^-14, the subnormal one's, too: e2m1's bias is 1 and fp16's 15. A scale
times 2^7 is at most 57344. So their product, the scaled number times 2^-7, is exact: a multiple of 2^-17 with no more
than 6 significant bits.

A byte's two numbers are not put side by side: the lower halves are one factor and the upper ones another, and sums run
over either. Launch 1, program (i, j, SPLIT l + p), sums up the p-th part of K, and launch 2 adds the parts in order.
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
def nvfp4_gemm_parts(
    A, sfa, B, sfb, C, parts, M, L, rows_sfa, rows_sfb, N: tl.constexpr, K: tl.constexpr, TILED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    STEPS: tl.constexpr = (K // BK + SPLIT - 1) // SPLIT
    matrix = (tl.program_id(2) // SPLIT).to(tl.int64)
    part = tl.program_id(2) % SPLIT
    row, column = tl.program_id(1) * BM, tl.program_id(0) * BN
    rows, columns = row + tl.arange(0, BM), (column + tl.arange(0, BN))[:, None]
    inner = tl.arange(0, BK // 2)[None, :]
    of_a = A + matrix * M * (K // 2) + rows[:, None] * (K // 2) + inner
    of_b = B + matrix * N * (K // 2) + columns * (K // 2) + inner
    sfa += matrix * rows_sfa * (K // 16)
    sfb += matrix * rows_sfb * (K // 16)
    sums = tl.zeros([BN, BM], dtype=tl.float32)  # C transposed: B, of which there is more, may stay in registers
    for first in tl.range(part * STEPS * BK, tl.minimum((part + 1) * STEPS * BK, K), BK, num_stages=STAGES):
        a = tl.load(of_a + first // 2, mask=rows[:, None] < M, other=0)
        b = tl.load(of_b + first // 2, mask=columns < N, other=0)
        scale_a = tile_of_scales(sfa, row, M, first, K, TILED, BM, BK)
        scale_b = tile_of_scales(sfb, column, N, first, K, TILED, BN, BK)
        sums = tl.dot(widened(b, scale_b), widened(a, scale_a).T, acc=sums)
        sums = tl.dot(widened(b >> 4, scale_b), widened(a >> 4, scale_a).T, acc=sums)
    found = tl.trans(sums) * FROM_BOTH
    in_tile = (rows[:, None] < M) & (tl.trans(columns) < N)
    place = matrix * M * N + rows[:, None] * N + tl.trans(columns)
    if SPLIT == 1:
        tl.store(C + place, found.to(tl.float16), mask=in_tile)
    else:
        tl.store(parts + part.to(tl.int64) * L * M * N + place, found, mask=in_tile)


@triton.jit
def nvfp4_gemm_add(parts, C, M, L, N: tl.constexpr, SPLIT: tl.constexpr, ADDED: tl.constexpr):
    if SPLIT == 1:
        return
    elements = L.to(tl.int64) * M * N
    place = tl.program_id(0).to(tl.int64) * ADDED + tl.arange(0, ADDED)
    sums = tl.zeros([ADDED], dtype=tl.float32)
    for part in tl.static_range(SPLIT):
        sums += tl.load(parts + part * elements + place, mask=place < elements, other=0.0)
    tl.store(C + place, sums.to(tl.float16), mask=place < elements)
