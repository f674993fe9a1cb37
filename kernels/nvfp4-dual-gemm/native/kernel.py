"""C = silu(A B1ᵀ) (A B2ᵀ) for matrices in nvfp4, by `tcgen05.mma`, which takes numbers and their scales as they are.

Rows of B1 and the same rows of B2 lie below each other in shared memory, so that both products are one. Copies of 256
numbers of each row, and of their scales, run ahead (`cp.async`). Each warp brings the scales of all rows into its
quarter of tensor memory: those of rows r, r + 32, r + 64 and r + 96 into lane r, a word for each 64 numbers. Sums are
fp32, in tensor memory, where thread t then finds row t of both.
"""

import cutlass
from cutlass import Constexpr, Float4E2M1FN, Float8E4M3FN, Float16, Float32, Int32, Int64, Uint32, cute, range_constexpr
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator
from cutlass.utils import blackwell_helpers, blockscaled_layout

ROWS, STEP, INNER = 128, 256, 64  # of a tile of C; numbers of a row at a time; and of one product
PIECES = STEP // 2 // 16  # of 16 bytes, of a row in a step
GROUPS = STEP // INNER  # words of scales of a row in a step, one for each product
SCALES = 2 * GROUPS * ROWS  # words of a step's scales, of A and of B1 and B2
HELD = 2 * GROUPS * 4  # columns of tensor memory that these take
RESERVED = 512  # columns: all there are, for a block's shared memory leaves no room for another block
LOG2_E = 1.442695041


def silu(x: Float32) -> Float32:
    return x * cute.arch.rcp_approx(1.0 + cute.math.exp2(-LOG2_E * x, fastmath=True))


def copy(nbytes: int, target: Int32, source: Int64, taken: Int32) -> None:
    """Begins an asynchronous copy into shared memory, of `taken` bytes, behind which zeros follow."""
    how = "cg" if nbytes == 16 else "ca"
    text = f"cp.async.{how}.shared.global [{{$r0}}], [{{$r1}}], {nbytes}, {{$r2}};"
    cute.arch.inline_ptx(text, read_only_args=[target, source, taken])


def place_of_scales(row: Int32, group: Int32, K: int, is_tiled: int) -> Int64:
    """Where the four scales of 64 numbers of a row lie, in words: in a row of K / 16, or in a tile."""
    groups = K // INNER
    if is_tiled:
        return (Int64(row // ROWS) * groups + group) * ROWS + row % 32 * 4 + row // 32 % 4
    return Int64(row) * groups + group


@cute.jit
def begin_rows(
    numbers: Int64, shared: Int32, first: Int32, rows: Int32, at: Int32, step: Int32, thread: Int32,
    K: Constexpr, count: Constexpr,
) -> None:  # fmt: skip
    """Begins copies of a step of `count` rows from row `first` on, to row `at` on of a tile; a warp copies four rows.

    Of eight rows of 128 bytes in shared memory, the number of a piece of 16 bytes is XORed with that of its row.
    """
    piece = thread % PIECES
    for i in range_constexpr(count * PIECES // ROWS):
        row = thread // PIECES + i * (ROWS // PIECES)
        source, taken = numbers, Int32(0)
        if first + row < rows:
            source, taken = numbers + (Int64(first + row) * (K // STEP) + step) * (STEP // 2) + 16 * piece, Int32(16)
        copy(16, shared + (at + row) * (STEP // 2) + (piece ^ row % 8) * 16, source, taken)


@cute.jit
def begin_scales(
    scales: Int64, shared: Int32, row: Int32, rows: Int32, at: Int32, step: Int32, K: Constexpr, is_tiled: Constexpr
) -> None:
    """Begins copies of a step of a row's scales, to where row `at` has them in tiles."""
    for group in range_constexpr(GROUPS):
        source, taken = scales, Int32(0)
        if row < rows:
            source, taken = scales + 4 * place_of_scales(row, step * GROUPS + group, K, is_tiled), Int32(4)
        copy(4, shared + (group * ROWS + at % 32 * 4 + at // 32) * 4, source, taken)


def bring_scales(shared: Int32, held: Int32, thread: Int32) -> None:
    """Brings a step's scales of 128 rows into 16 columns of the warp's quarter of tensor memory."""
    tiles = cute.make_tensor(
        cute.make_ptr(Uint32, shared, cute.AddressSpace.smem, assumed_align=16),
        cute.make_layout((4, 32, GROUPS), stride=(1, 4, ROWS)),
    )
    words = cute.make_rmem_tensor((4, GROUPS), Uint32)
    for group in range(GROUPS):
        cute.autovec_copy(tiles[None, thread % 32, group], words[None, group])
    names = ", ".join(f"{{$r{i + 1}}}" for i in range(4 * GROUPS))
    text = f"tcgen05.st.sync.aligned.32x32b.x{4 * GROUPS}.b32 [{{$r0}}], {{ {names} }};"
    cute.arch.inline_ptx(text, read_only_args=[held, *(words[i] for i in range(4 * GROUPS))])


@cute.jit
def begin_step(
    numbers: tuple, scales: tuple, into: tuple, first: tuple, rows: tuple, step: Int32, thread: Int32,
    N: Constexpr, K: Constexpr, is_tiled: Constexpr, COLUMNS: Constexpr,
) -> None:  # fmt: skip
    """Begins all copies of a step: of A, B1 and B2, and of a row's scales of A and of B1 or B2 for each thread."""
    begin_rows(numbers[0], into[0], first[0], rows[0], Int32(0), step, thread, K, ROWS)
    begin_rows(numbers[1], into[1], first[1], Int32(N), Int32(0), step, thread, K, COLUMNS)
    begin_rows(numbers[2], into[1], first[1], Int32(N), Int32(COLUMNS), step, thread, K, COLUMNS)
    begin_scales(scales[0], into[2], first[0] + thread, rows[0], thread, step, K, is_tiled)
    begin_scales(scales[1], into[2] + SCALES * 2, first[1] + thread % COLUMNS, rows[1], thread, step, K, is_tiled)


@cute.jit
def bring_all_scales(shared: Int32, held: Int32, thread: Int32) -> None:
    """Brings a step's scales into tensor memory, and shows them and what copies brought to the tensor core."""
    cute.arch.sync_threads()
    bring_scales(shared, held, thread)
    bring_scales(shared + SCALES * 2, held + HELD // 2, thread)
    cute.arch.fence_view_async_tmem_store()
    cute.arch.fence_view_async_shared()
    fence_tensor("before")
    cute.arch.sync_threads()


def scales_in_tensor_memory(mma: cute.TiledMma, tile: tuple) -> tuple[cute.Layout, ...]:
    """The layouts of a step's scales of A, and of B1 and B2."""
    makers = (
        (blockscaled_layout.make_smem_layout_sfa, blockscaled_layout.make_tmem_layout_sfa),
        (blockscaled_layout.make_smem_layout_sfb, blockscaled_layout.make_tmem_layout_sfb),
    )
    first = (None, None, None, 0)
    return tuple(held(mma, tile, 16, cute.slice_(made(mma, tile, 16, 1), first)) for made, held in makers)


def allocate(mma: cute.TiledMma, tile: tuple, stages: int) -> tuple[cute.Pointer | cute.Tensor, ...]:
    """Shared memory: mbarriers and an address of tensor memory, steps of A and of B1 and B2, and of their scales."""
    shared = SmemAllocator()
    barriers, address = shared.allocate_array(Int64, stages), shared.allocate_array(Int32, 1)
    makers = blackwell_helpers.make_smem_layout_a, blackwell_helpers.make_smem_layout_b
    layouts = [make(mma, tile, Float4E2M1FN, stages) for make in makers]
    numbers = [shared.allocate_tensor(Float4E2M1FN, each.outer, 1024, each.inner) for each in layouts]
    return barriers, address, *numbers, shared.allocate_array(Uint32, stages * SCALES, byte_alignment=128)


def fence_tensor(way: str) -> None:
    """Orders accesses to tensor memory, and its address, with those of other threads at a barrier."""
    cute.arch.inline_ptx(f"tcgen05.fence::{way}_thread_sync;")


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
        out[i] = (silu(sums[i]) * sums[COLUMNS + i]).to(Float16)
    for part in range_constexpr(COLUMNS // 8):
        first = column + 8 * part
        if first < N:
            place = (row * N + first) // 8
            whole = cute.make_tensor(C, cute.make_layout((8, place + 1), stride=(1, 8)))
            cute.autovec_copy(out[None, part], whole[None, place])


@cute.kernel
def nvfp4_dual_gemm_native(
    A: cute.Pointer, sfa: cute.Pointer, B1: cute.Pointer, sfb1: cute.Pointer, B2: cute.Pointer, sfb2: cute.Pointer,
    C: cute.Pointer, M: Int32,
    N: Constexpr, K: Constexpr, TILED: Constexpr, COLUMNS: Constexpr, STAGES: Constexpr,
) -> None:  # fmt: skip
    thread = cute.arch.thread_idx()[0]
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_n, tile_m, _ = cute.arch.block_idx()
    both, steps, ahead_by = 2 * COLUMNS, K // STEP, STAGES - 2
    how = Float8E4M3FN, (ROWS, both, INNER), tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM
    tile, mma = (ROWS, both, STEP), cute.make_tiled_mma(tcgen05.MmaMXF4NVF4Op(*how))
    barriers, address, shared_a, shared_b, shared_scales = allocate(mma, tile, STAGES)
    at_a, at_b, at_scales = (each.toint() for each in (shared_a.iterator, shared_b.iterator, shared_scales))

    begin(warp, RESERVED, address, barriers, STAGES)
    held = cute.arch.retrieve_tmem_ptr(Float32, 16, address)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C(tile[:2])).layout)
    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)
    of_a, of_b = scales_in_tensor_memory(mma, tile)

    first, rows, own_scales = (tile_m * ROWS, tile_n * COLUMNS), (M, Int32(N)), sfb1.toint()
    if thread >= COLUMNS:
        own_scales = sfb2.toint()
    if thread >= both:
        rows = (M, Int32(0))
    numbers, scales = (A.toint(), B1.toint(), B2.toint()), (sfa.toint(), own_scales)
    for ahead in cutlass.range(ahead_by + steps):
        if ahead >= STAGES and ahead < steps:
            last = ahead - STAGES  # what lies where copies go now
            cute.arch.mbarrier_wait(barriers + last % STAGES, last // STAGES % 2)
        if ahead < steps:
            at = ahead % STAGES
            into = at_a + at * ROWS * STEP // 2, at_b + at * both * STEP // 2, at_scales + at * SCALES * 4
            begin_step(numbers, scales, into, first, rows, ahead, thread, N, K, TILED, COLUMNS)
        cute.arch.cp_async_commit_group()
        step = ahead - ahead_by
        if step >= 0:
            stage, beside = step % STAGES, both + step % STAGES * HELD
            cute.arch.cp_async_wait_group(ahead_by)
            bring_all_scales(at_scales + stage * SCALES * 4, held.toint() + beside + (warp << 21), thread)
            if warp == 0:
                fence_tensor("after")
                scale_a = cute.make_tensor(cute.recast_ptr(held + beside, dtype=Float8E4M3FN), of_a)
                scale_b = cute.make_tensor(cute.recast_ptr(held + beside + HELD // 2, dtype=Float8E4M3FN), of_b)
                for part in range_constexpr(GROUPS):
                    mma.set(tcgen05.Field.ACCUMULATE, step > 0 if part == 0 else True)
                    a = [part_a[None, None, part, stage], scale_a[None, None, part]]
                    b = [part_b[None, None, part, stage], scale_b[None, None, part]]
                    cute.gemm(mma, sums, a, b, sums)
                with cute.arch.elect_one():
                    tcgen05.commit(barriers + stage)
    cute.arch.mbarrier_wait(barriers + (steps - 1) % STAGES, (steps - 1) // STAGES % 2)
    fence_tensor("after")

    own = cute.make_rmem_tensor(both, Float32)
    load_sums(sums[(None, None), 0, 0], own, thread)
    end(warp, RESERVED, held)
    if first[0] + thread < M:
        store(own, C, Int64(first[0] + thread), first[1], N, COLUMNS)
