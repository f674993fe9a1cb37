"""C = silu(A B1ᵀ) (A B2ᵀ) for matrices in nvfp4, by `tcgen05.mma` in bf16, which holds scaled numbers exactly.

A number has two significant bits and its scale four: a product of six, where bf16 has eight. Rows of B1 and the same
rows of B2 lie below each other in shared memory, so that both products are one. 128 threads widen a row of A each, and
the first of them one of B1 or B2, 64 numbers at a time, while the tensor core multiplies those before; it sums up in
fp32 in tensor memory, where thread t then finds row t of both sums.
"""

import cutlass
from cutlass import BFloat16, Constexpr, Float16, Float32, Int32, Int64, Uint32, cute, range_constexpr
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.memory import SmemAllocator
from cutlass.utils import blackwell_helpers

ROWS, CHUNK, INNER = 128, 64, 16  # of a tile of C; numbers of a row at a time; and of one product
CODES = CHUNK // 8  # words of a chunk of a row
TWO_TO_119 = (127 + 119) << 7  # in bf16
TILE_WORDS = 128  # of a tile of scales: a word is the four scales of a chunk of one row
LOG2_E = 1.442695041


def times(x: Uint32, y: Uint32) -> Uint32:
    """Two products of bf16 in a word; y, which may be a constant, needs a register."""
    text = "{ .reg .b32 y; mov.b32 y, {$r1}; mul.rn.bf16x2 {$w0}, {$r0}, y; }"
    return cute.arch.inline_ptx(text, write_only_types=[Uint32], read_only_args=[x, y])


def both_halves(code: int) -> Uint32:
    return Uint32(code << 16 | code)


def words_at(address: Int64, alignment: int) -> cute.Pointer:
    return cute.make_ptr(Uint32, address, cute.AddressSpace.gmem, assumed_align=alignment)


def shifted(word: Uint32, left: int) -> Uint32:
    return word << left if left >= 0 else word >> -left


def silu(x: Float32) -> Float32:
    return x * cute.arch.rcp_approx(1.0 + cute.math.exp2(-LOG2_E * x, fastmath=True))


def place_of_scales(row: Int32, chunk: Int32, K: int, is_tiled: int) -> Int64:
    """Where the four scales of a chunk of a row lie, in words: in a row of K / 16, or in a tile."""
    chunks = K // CHUNK
    if is_tiled:
        return (Int64(row // ROWS) * chunks + chunk) * TILE_WORDS + row % 32 * 4 + row // 32 % 4
    return Int64(row) * chunks + chunk


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


@cute.jit
def widen(codes: cute.Tensor, shared: cute.Tensor, at: Int32) -> None:
    """Widens a chunk into row `at` of a tile in shared memory, in bf16, times 2^-8.

    A word has eight numbers. The three bits of a magnitude become the lowest of an exponent and the highest of a
    mantissa, which is the number times 2^-126, two at a time: those of both halves of the word. So numbers of a row
    are out of order, in A as in B1 and B2. A scale's bits become those of the scale times 2^-120 likewise.
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


def fence_tensor(way: str) -> None:
    """Orders accesses to tensor memory, and its address, with those of other threads at a barrier."""
    cute.arch.inline_ptx(f"tcgen05.fence::{way}_thread_sync;")


def products(columns: int) -> cute.TiledMma:
    """Products of 128 rows and 16 numbers of A with `columns` rows of B, both with the numbers side by side."""
    k_major = OperandMajorMode.K
    how = tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM, k_major, k_major
    return cute.make_tiled_mma(tcgen05.MmaF16BF16Op(BFloat16, Float32, (ROWS, columns, INNER), *how))


@cute.jit
def begin(warp: Int32, columns: Constexpr, address: cute.Pointer, barriers: cute.Pointer, count: Constexpr) -> None:
    """Reserves columns of tensor memory, whose address it leaves in shared memory, and makes mbarriers."""
    if warp == 0:
        cute.arch.alloc_tmem(columns, address)
        with cute.arch.elect_one():
            for stage in range_constexpr(count):
                cute.arch.mbarrier_init(barriers + stage, 1)
    cute.arch.mbarrier_init_fence()
    fence_tensor("before")
    cute.arch.sync_threads()
    fence_tensor("after")


@cute.jit
def end(warp: Int32, columns: Constexpr, held: cute.Pointer) -> None:
    """Gives tensor memory back, once all threads are here."""
    fence_tensor("before")
    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(held, columns)


@cute.jit
def load_sums(sums: cute.Tensor, own: cute.Tensor, thread: Int32) -> None:
    """Loads a row of tensor memory, a lane of it for each thread."""
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(cute.size(own))), Float32)
    load_row = tcgen05.make_tmem_copy(atom, sums).get_slice(thread)
    held = load_row.partition_S(sums)
    cute.copy(load_row, held, cute.make_tensor(own.iterator, load_row.partition_D(sums).layout))
    cute.arch.fence_view_async_tmem_load()


@cute.jit
def store(sums: cute.Tensor, C: cute.Pointer, row: Int64, column: Int32, N: Constexpr, COLUMNS: Constexpr) -> None:
    """Stores silu of the first half of both sums, times the second, in row `row` of C, as far as C has columns."""
    out = cute.make_rmem_tensor((8, COLUMNS // 8), Float16)
    for i in range_constexpr(COLUMNS):
        gate, value = sums[i] * 2.0**16, sums[COLUMNS + i] * 2.0**16
        out[i] = (silu(gate) * value).to(Float16)
    for part in range_constexpr(COLUMNS // 8):
        first = column + 8 * part
        if first < N:
            place = (row * N + first) // 8
            whole = cute.make_tensor(C, cute.make_layout((8, place + 1), stride=(1, 8)))
            cute.autovec_copy(out[None, part], whole[None, place])


@cute.kernel
def nvfp4_dual_gemm_cute(
    A: cute.Pointer, sfa: cute.Pointer, B1: cute.Pointer, sfb1: cute.Pointer, B2: cute.Pointer, sfb2: cute.Pointer,
    C: cute.Pointer, M: Int32,
    N: Constexpr, K: Constexpr, TILED: Constexpr, COLUMNS: Constexpr, STAGES: Constexpr, AHEAD: Constexpr,
) -> None:  # fmt: skip
    thread = cute.arch.thread_idx()[0]
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_n, tile_m, _ = cute.arch.block_idx()
    both, steps = 2 * COLUMNS, K // CHUNK
    tile, mma = (ROWS, both, CHUNK), products(both)
    layout_a = blackwell_helpers.make_smem_layout_a(mma, tile, BFloat16, STAGES)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, tile, BFloat16, STAGES)
    shared = SmemAllocator()
    barriers = shared.allocate_array(Int64, STAGES)
    address = shared.allocate_array(Int32, 1)
    shared_a = shared.allocate_tensor(BFloat16, layout_a.outer, 1024, layout_a.inner)
    shared_b = shared.allocate_tensor(BFloat16, layout_b.outer, 1024, layout_b.inner)

    begin(warp, both, address, barriers, STAGES)
    held = cute.arch.retrieve_tmem_ptr(Float32, 16, address)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C((ROWS, both))).layout)
    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)

    row, row_b, rows_b = tile_m * ROWS + thread, tile_n * COLUMNS + thread % COLUMNS, Int32(N)
    B, sfb = B1.toint(), sfb1.toint()
    if thread >= COLUMNS:
        B, sfb = B2.toint(), sfb2.toint()
    if thread >= both:
        rows_b = Int32(0)
    codes_a, codes_b = ([cute.make_rmem_tensor(CODES + 1, Uint32) for _ in range(AHEAD)] for _ in "AB")
    for ahead in range_constexpr(AHEAD):
        load(A.toint(), sfa.toint(), codes_a[ahead], row, Int32(ahead), M, K, TILED)
        load(B, sfb, codes_b[ahead], row_b, Int32(ahead), rows_b, K, TILED)
    for first in cutlass.range(0, steps, AHEAD):
        for ahead in range_constexpr(AHEAD):
            chunk = first + ahead
            stage = chunk % STAGES
            if chunk >= STAGES:
                cute.arch.mbarrier_wait(barriers + stage, (chunk // STAGES - 1) % 2)
            widen(codes_a[ahead], shared_a[None, None, None, stage], thread)
            if thread < both:
                widen(codes_b[ahead], shared_b[None, None, None, stage], thread)
            if chunk + AHEAD < steps:
                load(A.toint(), sfa.toint(), codes_a[ahead], row, chunk + AHEAD, M, K, TILED)
                load(B, sfb, codes_b[ahead], row_b, chunk + AHEAD, rows_b, K, TILED)
            cute.arch.fence_view_async_shared()
            cute.arch.sync_threads()
            if warp == 0:
                for part in range_constexpr(CHUNK // INNER):
                    mma.set(tcgen05.Field.ACCUMULATE, chunk > 0 if part == 0 else True)
                    cute.gemm(mma, sums, part_a[None, None, part, stage], part_b[None, None, part, stage], sums)
                with cute.arch.elect_one():
                    tcgen05.commit(barriers + stage)
    cute.arch.mbarrier_wait(barriers + (steps - 1) % STAGES, (steps - 1) // STAGES % 2)
    fence_tensor("after")

    own = cute.make_rmem_tensor(both, Float32)
    load_sums(sums[(None, None), 0, 0], own, thread)
    end(warp, both, held)
    if row < M:
        store(own, C, Int64(row), tile_n * COLUMNS, N, COLUMNS)
