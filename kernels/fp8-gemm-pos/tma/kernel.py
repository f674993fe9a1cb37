"""The product with the table added, by programs that stay: bulk copies of the next tile run while one is finished.

Rows of C that are P apart take the same row of the table, so that tiles need the same rows of it again after PERIOD
tiles. Tiles are numbered so that those come one after the other: by columns, then by their place in the period. A
program takes a range of these numbers, so that it loads a tile of the table a few times in all; programs of other
columns, whose ranges begin near the same rows, find these rows of A in L2.
"""

import triton
import triton.language as tl


@triton.jit
def row_tile(number, tiles, PERIOD: tl.constexpr):
    """The tile of rows with this number, where the first are those at place 0 of each period, then those at place 1."""
    periods = tiles // PERIOD
    more = tiles % PERIOD  # places that one more tile is at
    long = more * (periods + 1)
    beyond = tl.maximum(number - long, 0)
    place = tl.where(number < long, number // (periods + 1), more + beyond // tl.maximum(periods, 1))
    period = tl.where(number < long, number % (periods + 1), beyond % tl.maximum(periods, 1))
    return period * PERIOD + place, place


@triton.jit
def table_tile(table, row, column, N: tl.constexpr, P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = (row + tl.arange(0, BM)) % P
    columns = column + tl.arange(0, BN)
    return tl.load(table + rows[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)


@triton.jit
def store(c_tiles, row, column, scaled, added):
    c_tiles.store([row, column], (scaled + added.to(tl.float32)).to(tl.bfloat16))


@triton.jit
def fp8_gemm_pos_tma(
    A, B, scale_a, scale_b, table, C, M, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KEEP: tl.constexpr, HALVES: tl.constexpr,
    PROMOTE: tl.constexpr,
):  # fmt: skip
    tl.static_assert(not (KEEP and HALVES), "HALVES is for KEEP=0")
    SHARED: tl.constexpr = (P & -P) if (P & -P) < BM else BM  # the greatest common divisor of P and BM, a power of 2
    PERIOD: tl.constexpr = P // SHARED
    STORED: tl.constexpr = BN // 2 if HALVES else BN  # columns of C at once
    IMPRECISE: tl.constexpr = BK if PROMOTE else None
    a_tiles = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(B, [N, K], [K, 1], [BN, BK])
    c_tiles = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, STORED])
    scale = tl.load(scale_a) * tl.load(scale_b)
    down = tl.cdiv(M, BM)
    tiles = down * ((N + BN - 1) // BN)
    program = tl.program_id(0).to(tl.int64)
    first = (program * tiles // tl.num_programs(0)).to(tl.int32)
    last = ((program + 1) * tiles // tl.num_programs(0)).to(tl.int32)
    kept_for = -1
    added = tl.zeros([BM, BN], dtype=tl.bfloat16)
    for number in tl.range(first, last, flatten=True):
        tile, place = row_tile(number % down, down, PERIOD)
        row = tile * BM
        column = number // down * BN
        sums = tl.zeros([BM, BN], dtype=tl.float32)
        for inner in range(0, K, BK):
            a = a_tiles.load([row, inner])
            b = b_tiles.load([column, inner])
            sums = tl.dot(a, b.T, acc=sums, max_num_imprecise_acc=IMPRECISE)
        scaled = scale * sums
        if KEEP:
            if number // down * PERIOD + place != kept_for:
                added = table_tile(table, row, column, N, P, BM, BN)
                kept_for = number // down * PERIOD + place
            store(c_tiles, row, column, scaled, added)
        elif HALVES:
            left, right = tl.split(tl.permute(tl.reshape(scaled, [BM, 2, STORED]), [0, 2, 1]))
            store(c_tiles, row, column, left, table_tile(table, row, column, N, P, BM, STORED))
            column += STORED
            store(c_tiles, row, column, right, table_tile(table, row, column, N, P, BM, STORED))
        else:
            store(c_tiles, row, column, scaled, table_tile(table, row, column, N, P, BM, BN))
