"""Rows of matrices in nvfp4, widened to bf16 for the tensor core of sm_100, and rows of products; in CuTe DSL.

A number has two significant bits and its scale four: their product has six, and bf16 holds it exactly.
"""

from cutlass import BFloat16, Constexpr, Float16, Float32, Int32, Int64, Uint32, cute, range_constexpr
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.utils import blackwell_helpers

ROWS, CHUNK, INNER = 128, 64, 16  # of a tile of C; numbers of a row at a time; and of one product
CODES = CHUNK // 8  # words of a chunk of a row
TILE_WORDS = 128  # of a tile of scales: a word is the four scales of a chunk of one row
TWO_TO_119 = (127 + 119) << 7  # in bf16
LOG2_E = 1.442695041


def place_of_scales(row: Int32, chunk: Int32, K: int, is_tiled: int) -> Int64:
    """Where the four scales of a chunk of a row lie, in words: in a row of K / 16, or in a tile."""
    chunks = K // CHUNK
    if is_tiled:
        return (Int64(row // ROWS) * chunks + chunk) * TILE_WORDS + row % 32 * 4 + row // 32 % 4
    return Int64(row) * chunks + chunk


def matrix_of_pair(
    numbers: cute.Pointer, scales: cute.Pointer, pair: Int32, rows: Int32, K: int, is_tiled: int
) -> tuple[Int64, Int64]:
    """Addresses of the numbers and scales of a pair's matrix, of so many rows."""
    scaled = (rows + ROWS - 1) // ROWS * ROWS if is_tiled else rows
    return numbers.toint() + Int64(pair) * rows * (K // 2), scales.toint() + Int64(pair) * scaled * (K // 16)


def words_at(address: Int64, alignment: int) -> cute.Pointer:
    return cute.make_ptr(Uint32, address, cute.AddressSpace.gmem, assumed_align=alignment)


@cute.jit
def load(
    numbers: Int64, scales: Int64, codes: cute.Tensor, row: Int32, chunk: Int32, rows: Int32,
    K: Constexpr, is_tiled: Constexpr,
) -> None:  # fmt: skip
    """Loads a chunk of a row, 64 numbers and behind them the word of their scales; beyond the matrix it is zero."""
    codes.fill(0)
    if row < rows:
        index = Int64(row) * (K // CHUNK) + chunk
        words = cute.make_layout((CODES, index + 1), stride=(1, CODES))
        own = cute.make_tensor(codes.iterator, cute.make_layout(CODES))
        cute.autovec_copy(cute.make_tensor(words_at(numbers, 16), words)[None, index], own)
        place = place_of_scales(row, chunk, K, is_tiled)
        codes[CODES] = cute.make_tensor(words_at(scales, 4), cute.make_layout(place + 1))[place]


def times(x: Uint32, y: Uint32) -> Uint32:
    """Two products of bf16 in a word; y, which may be a constant, needs a register."""
    text = "{ .reg .b32 y; mov.b32 y, {$r1}; mul.rn.bf16x2 {$w0}, {$r0}, y; }"
    return cute.arch.inline_ptx(text, write_only_types=[Uint32], read_only_args=[x, y])


def both_halves(code: int) -> Uint32:
    return Uint32(code << 16 | code)


def shifted(word: Uint32, left: int) -> Uint32:
    return word << left if left >= 0 else word >> -left


@cute.jit
def widen(codes: cute.Tensor, shared: cute.Tensor, at: Int32) -> None:
    """Widens a chunk into row `at` of a tile in shared memory, in bf16, times 2^-8.

    A word has eight numbers. The three bits of a magnitude become the lowest of an exponent and the highest of a
    mantissa, which is the number times 2^-126, two at a time: those of both halves of the word. So numbers of a row
    are out of order, in A as in B. A scale's bits become those of the scale times 2^-120 likewise.
    """
    narrow = cute.make_rmem_tensor((INNER, CHUNK // INNER), BFloat16)
    pairs = cute.recast_tensor(narrow, Uint32)
    for group in range_constexpr(CHUNK // INNER):
        scale = (codes[CODES] >> 8 * group & 0x7F) * both_halves(1 << 4)
        scale = times(times(scale, both_halves(TWO_TO_119)), both_halves(TWO_TO_119))
        for i in range_constexpr(INNER // 2):
            word = codes[2 * group + i // 4]
            bits = shifted(word, 6 - 4 * (i % 4)) & both_halves(7 << 6)
            signs = shifted(word, 12 - 4 * (i % 4)) & both_halves(1 << 15)
            pairs[INNER // 2 * group + i] = times(bits | signs, scale)
    for part in range_constexpr(CHUNK // INNER):
        cute.autovec_copy(narrow[None, part], shared[(at, None), 0, part])


def products(columns: int, blocks: int = 1) -> cute.TiledMma:
    """Products of 128 rows of A in each block with `columns` of B, both with the numbers side by side in a row."""
    k_major, group = OperandMajorMode.K, tcgen05.CtaGroup.ONE if blocks == 1 else tcgen05.CtaGroup.TWO
    how = group, tcgen05.OperandSource.SMEM, k_major, k_major
    return cute.make_tiled_mma(tcgen05.MmaF16BF16Op(BFloat16, Float32, (blocks * ROWS, columns, INNER), *how))


def allocate(shared: object, mma: cute.TiledMma, tile: tuple, kind: type, stages: int) -> tuple[cute.Tensor, ...]:
    """Shared memory for tiles of A and B, `stages` of each, as a product reads them."""
    makers = blackwell_helpers.make_smem_layout_a, blackwell_helpers.make_smem_layout_b
    layouts = [make(mma, tile, kind, stages) for make in makers]
    return tuple(shared.allocate_tensor(kind, each.outer, 1024, each.inner) for each in layouts)


def silu(x: Float32) -> Float32:
    return x * cute.arch.rcp_approx(1.0 + cute.math.exp2(-LOG2_E * x, fastmath=True))


@cute.jit
def store(sums: cute.Tensor, C: cute.Pointer, row: Int64, column: Int32, N: Constexpr, columns: Constexpr) -> None:
    """Stores a row of a tile, in fp16, to row `row` of C from a column on, as far as C has columns."""
    out = cute.make_rmem_tensor((8, columns // 8), Float16)
    for i in range_constexpr(columns):
        out[i] = sums[i].to(Float16)
    for part in range_constexpr(columns // 8):
        first = column + 8 * part
        if first < N:
            place = (row * N + first) // 8
            whole = cute.make_tensor(C, cute.make_layout((8, place + 1), stride=(1, 8)))
            cute.autovec_copy(out[None, part], whole[None, place])
