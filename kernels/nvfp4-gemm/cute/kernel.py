"""C = A Bᵀ for matrices in nvfp4, by `tcgen05.mma` in bf16, which holds each number times its scale exactly.

A number has two significant bits and its scale four: a product of six, where bf16 has eight. 128 threads widen a row of
A each, and the first of them one of B, 64 numbers at a time; the tensor core sums up in fp32 in tensor memory, where
thread t then finds row t of C. With `CTAS=2` two blocks multiply together: each has 128 rows of A and half of B's, so
that it widens half as much of B, and the first begins the products of both.
"""

import cutlass
from cutlass import BFloat16, Constexpr, Float16, Float32, Int32, Int64, Uint32, const_expr, cute, range_constexpr
from cutlass._mlir import ir
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.memory import SmemAllocator
from cutlass.utils import blackwell_helpers

ROWS, CHUNK, INNER = 128, 64, 16  # of a tile of C; numbers of a row at a time; and of one product
TILE_WORDS = 128  # of a tile of scales: a word is the four scales of a chunk of one row


def as_float(bits: Uint32) -> Float32:
    return Float32(bits.bitcast(Float32))


def number(code: Uint32) -> Float32:
    """e2m1, times 2^-126: exponent and mantissa as the lowest of the one, and the highest of the other."""
    return as_float((code & 7) << 22 | (code & 8) << 28)


def scale(code: Uint32) -> Float32:
    """e4m3, never negative, times 2^-120."""
    return as_float((code & 0x7F) << 20)


def place_of_scales(row: Int32, chunk: Int32, of_pair: Int32, rows: Int32, K: int, is_tiled: int) -> Int64:
    """Where the four scales of a chunk of a row lie, in words: in a row of K / 16, or in a tile."""
    chunks = K // CHUNK
    if is_tiled:
        tiles = (rows + ROWS - 1) // ROWS
        tile = (Int64(of_pair) * tiles + row // ROWS) * chunks + chunk
        return tile * TILE_WORDS + row % 32 * 4 + row // 32 % 4
    return (Int64(of_pair) * rows + row) * chunks + chunk


@cute.jit
def widen(
    numbers: cute.Pointer, scales: cute.Pointer, shared: cute.Tensor, row: Int32, at: Int32, chunk: Int32,
    pair: Int32, rows: Int32, K: Constexpr, is_tiled: Constexpr,
) -> None:  # fmt: skip
    """Widens a chunk of row `row` into row `at` of a tile in shared memory; beyond the matrix it is zero."""
    codes = cute.make_rmem_tensor(CHUNK // 8, Uint32)
    of_each = cute.make_rmem_tensor(1, Uint32)
    codes.fill(0)
    of_each.fill(0)
    if row < rows:
        index = (Int64(pair) * rows + row) * (K // CHUNK) + chunk
        words = cute.make_layout((CHUNK // 8, index + 1), stride=(1, CHUNK // 8))
        cute.autovec_copy(cute.make_tensor(cute.recast_ptr(numbers, dtype=Uint32), words)[None, index], codes)
        place = place_of_scales(row, chunk, pair, rows, K, is_tiled)
        of_each[0] = cute.make_tensor(cute.recast_ptr(scales, dtype=Uint32), cute.make_layout(place + 1))[place]
    wide = cute.make_rmem_tensor(CHUNK, Float32)
    for i in range_constexpr(CHUNK):
        factor = scale(of_each[0] >> 8 * (i // 16)) * 2.0**120
        wide[i] = number(codes[i // 8] >> 4 * (i % 8)) * 2.0**126 * factor
    narrow = cute.make_rmem_tensor((INNER, CHUNK // INNER), BFloat16)
    narrow.store(wide.load().reshape((INNER, CHUNK // INNER)).to(BFloat16))
    for part in range_constexpr(CHUNK // INNER):
        cute.autovec_copy(narrow[None, part], shared[(at, None), 0, part])


def fence_tensor(way: str) -> None:
    """Orders accesses to tensor memory, and its address, with those of other threads at a barrier."""
    cute.arch.inline_ptx(f"tcgen05.fence::{way}_thread_sync;")


def products(columns: int, blocks: int) -> cute.TiledMma:
    """Products of 128 rows of A in each block with `columns` of B, both with the numbers side by side in a row."""
    k_major, group = OperandMajorMode.K, tcgen05.CtaGroup.ONE if blocks == 1 else tcgen05.CtaGroup.TWO
    shape = (blocks * ROWS, columns, INNER)
    how = group, tcgen05.OperandSource.SMEM, k_major, k_major
    return cute.make_tiled_mma(tcgen05.MmaF16BF16Op(BFloat16, Float32, shape, *how))


def in_clusters_of(blocks: int) -> None:
    """Declares clusters along x, as `__cluster_dims__` does in CUDA C++: an attribute of the function around."""
    function = ir.InsertionPoint.current.block.owner
    while "nvvm.reqntid" not in function.attributes:
        function = function.parent
    function.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([blocks, 1, 1])


def meet(blocks: int) -> None:
    """A barrier of the threads of all blocks that multiply together."""
    if blocks == 1:
        cute.arch.sync_threads()
    else:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


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
    """Stores a row of a tile, in fp16, to row `row` of C from a column on, as far as C has columns."""
    out = cute.make_rmem_tensor((8, COLUMNS // 8), Float16)
    out.store(sums.load().reshape((8, COLUMNS // 8)).to(Float16))
    for part in range_constexpr(COLUMNS // 8):
        first = column + 8 * part
        if first < N:
            place = (row * N + first) // 8
            whole = cute.make_tensor(C, cute.make_layout((8, place + 1), stride=(1, 8)))
            cute.autovec_copy(out[None, part], whole[None, place])


@cute.kernel
def nvfp4_gemm_cute(
    A: cute.Pointer, sfa: cute.Pointer, B: cute.Pointer, sfb: cute.Pointer, C: cute.Pointer, M: Int32,
    N: Constexpr, K: Constexpr, TILED: Constexpr, COLUMNS: Constexpr, CTAS: Constexpr,
) -> None:  # fmt: skip
    if const_expr(CTAS > 1):
        in_clusters_of(CTAS)
    thread = cute.arch.thread_idx()[0]
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    block, tile_m, pair = cute.arch.block_idx()
    rank, tile_n, is_two, share = block % CTAS, block // CTAS, CTAS == 2, COLUMNS // CTAS
    tile, mma, reserved = (CTAS * ROWS, COLUMNS, CHUNK), products(COLUMNS, CTAS), max(COLUMNS, 32)
    layout_a = blackwell_helpers.make_smem_layout_a(mma, tile, BFloat16, 1)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, tile, BFloat16, 1)
    shared = SmemAllocator()
    barrier = shared.allocate_array(Int64, 1)
    address = shared.allocate_array(Int32, 1)
    shared_a = shared.allocate_tensor(BFloat16, layout_a.outer, 1024, layout_a.inner)[None, None, None, 0]
    shared_b = shared.allocate_tensor(BFloat16, layout_b.outer, 1024, layout_b.inner)[None, None, None, 0]

    if warp == 0:
        cute.arch.alloc_tmem(reserved, address, is_two_cta=is_two)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    fence_tensor("before")
    meet(CTAS)
    fence_tensor("after")
    held = cute.arch.retrieve_tmem_ptr(Float32, 16, address)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C(tile[:2])).layout)
    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)

    row, column = (tile_m * CTAS + rank) * ROWS + thread, tile_n * COLUMNS + rank * share + thread
    for chunk in cutlass.range(K // CHUNK):
        widen(A, sfa, shared_a, row, thread, chunk, pair, M, K, TILED)
        if thread < share:
            widen(B, sfb, shared_b, column, thread, chunk, pair, Int32(N), K, TILED)
        cute.arch.fence_view_async_shared()
        meet(CTAS)
        if warp == 0 and rank == 0:
            for part in range_constexpr(CHUNK // INNER):
                mma.set(tcgen05.Field.ACCUMULATE, chunk > 0 if part == 0 else True)
                cute.gemm(mma, sums, part_a[None, None, part], part_b[None, None, part], sums)
            with cute.arch.elect_one():
                if const_expr(is_two):
                    tcgen05.commit(barrier, 3, tcgen05.CtaGroup.TWO)
                else:
                    tcgen05.commit(barrier)
        cute.arch.mbarrier_wait(barrier, chunk % 2)
        fence_tensor("after")

    own = cute.make_rmem_tensor(COLUMNS, Float32)
    load_sums(sums[(None, None), 0, 0], own, thread)
    fence_tensor("before")
    meet(CTAS)
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=is_two)
        cute.arch.dealloc_tmem(held, reserved, is_two_cta=is_two)
    if row < M:
        store(own, C, Int64(pair) * M + row, tile_n * COLUMNS, N, COLUMNS)
