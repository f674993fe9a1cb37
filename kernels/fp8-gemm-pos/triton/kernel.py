"""The product with the table added: program i makes tile i of C, the tiles of the same rows one after the other.

So the programs that run at once share rows of A, and all of B, in L2.
"""

import triton
import triton.language as tl


@triton.jit
def fp8_gemm_pos(
    A, B, scale_a, scale_b, table, C, M, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    across: tl.constexpr = (N + BN - 1) // BN
    rows = tl.program_id(0) // across * BM + tl.arange(0, BM)
    columns = tl.program_id(0) % across * BN + tl.arange(0, BN)
    is_row = rows[:, None] < M
    inner = tl.arange(0, BK)
    of_a = A + rows[:, None].to(tl.int64) * K + inner[None, :]
    of_b = B + columns[None, :] * K + inner[:, None]
    sums = tl.zeros([BM, BN], dtype=tl.float32)
    for first in range(0, K, BK):
        is_inner = inner < K - first
        a = tl.load(of_a + first, mask=is_row & is_inner[None, :], other=0.0)
        b = tl.load(of_b + first, mask=is_inner[:, None] & (columns[None, :] < N), other=0.0)
        sums = tl.dot(a, b, acc=sums)
    in_tile = is_row & (columns[None, :] < N)
    place = (rows % P)[:, None] * N + columns[None, :]
    added = tl.load(table + place, mask=in_tile, other=0.0).to(tl.float32)
    scaled = tl.load(scale_a) * tl.load(scale_b) * sums
    of_c = C + rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(of_c, (scaled + added).to(tl.bfloat16), mask=in_tile)
