"""The product in nvfp4: program (i, l) makes BM rows of c[l].

The three lower bits of a code are two of exponent and one of significand. As bits 11 to 9 of an fp16, behind the sign
at bit 15, they are the code's value times 2^-14, the subnormal one's, too: e2m1's bias is 1 and fp16's 15. The 16
products of a block are then added up and scaled once.
"""

import triton
import triton.language as tl

FROM_FP16 = tl.constexpr(2.0**14)


@triton.jit
def value(code):
    """Numbers of the lower four bits, times 2^-14."""
    bits = ((code & 7).to(tl.uint16) << 9) | ((code & 8).to(tl.uint16) << 12)
    return bits.to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def nvfp4_gemv(
    a, sfa, b, sfb, c, M, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    BYTES: tl.constexpr = BK // 2
    BLOCKS: tl.constexpr = BK // 16
    matrix = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    is_row = rows[:, None] < M
    row = (matrix.to(tl.int64) * M + rows)[:, None]
    of_bytes = tl.arange(0, BYTES)[None, :]
    of_blocks = tl.arange(0, BLOCKS)[None, :]
    sums = tl.zeros([BM, BLOCKS], dtype=tl.float32)
    for first in tl.range(0, K, BK, num_stages=STAGES):
        is_byte = of_bytes < (K - first) // 2
        is_block = of_blocks < (K - first) // 16
        x = tl.load(a + row * (K // 2) + first // 2 + of_bytes, mask=is_row & is_byte, other=0)
        y = tl.load(b + matrix * (K // 2) + first // 2 + of_bytes, mask=is_byte, other=0)
        scale = tl.load(sfa + row * (K // 16) + first // 16 + of_blocks, mask=is_row & is_block, other=0.0)
        scale_b = tl.load(sfb + matrix * (K // 16) + first // 16 + of_blocks, mask=is_block, other=0.0)
        products = value(x) * value(y) + value(x >> 4) * value(y >> 4)
        of_block = tl.sum(tl.reshape(products, [BM, BLOCKS, 8]), axis=2) * (FROM_FP16 * FROM_FP16)
        sums += of_block * (scale.to(tl.float32) * scale_b.to(tl.float32))
    found = tl.sum(sums, axis=1).to(tl.float16)
    tl.store(c + matrix.to(tl.int64) * M + rows, found, mask=rows < M)
