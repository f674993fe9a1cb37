"""Products of matrices in nvfp4 as they are, by the tensor core of sm_100, with their scales; in CuTe DSL.

Copies of 256 numbers of each row, and of their scales, run ahead (`cp.async`). Each warp brings the scales of all rows
into its quarter of tensor memory: those of rows r, r + 32, r + 64 and r + 96 into lane r, a word for each 64 numbers.
Sums are fp32, in tensor memory.
"""

import cutlass
from cutlass import Constexpr, Float4E2M1FN, Float8E4M3FN, Int32, Int64, Uint32, cute, range_constexpr
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator
from cutlass.utils import blockscaled_layout

from .nvfp4 import ROWS, allocate, place_of_scales
from .tensor_memory import begin, end, fence_tensor, load_sums

STEP, PRODUCT = 256, 64  # numbers of a row at a time; and of one product
PIECES = STEP // 2 // 16  # of 16 bytes, of a row in a step
GROUPS = STEP // PRODUCT  # words of scales of a row in a step, one for each product
SCALES = 2 * GROUPS * ROWS  # words of a step's scales, of A and of B
HELD = 2 * GROUPS * 4  # columns of tensor memory that these take
RESERVED = 512  # columns: all there are, for a block's shared memory leaves no room for another block


def copy(nbytes: int, target: Int32, source: Int64, taken: Int32) -> None:
    """Begins an asynchronous copy into shared memory, of `taken` bytes, behind which zeros follow."""
    how = "cg" if nbytes == 16 else "ca"
    text = f"cp.async.{how}.shared.global [{{$r0}}], [{{$r1}}], {nbytes}, {{$r2}};"
    cute.arch.inline_ptx(text, read_only_args=[target, source, taken])


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
    """The layouts of a step's scales of A and of B."""
    makers = (
        (blockscaled_layout.make_smem_layout_sfa, blockscaled_layout.make_tmem_layout_sfa),
        (blockscaled_layout.make_smem_layout_sfb, blockscaled_layout.make_tmem_layout_sfb),
    )
    first = (None, None, None, 0)
    return tuple(held(mma, tile, 16, cute.slice_(made(mma, tile, 16, 1), first)) for made, held in makers)


@cute.jit
def begin_step(
    numbers: tuple, scales: tuple, into: tuple, first: tuple, rows: tuple, step: Int32, thread: Int32,
    K: Constexpr, is_tiled: Constexpr, COLUMNS: Constexpr,
) -> None:  # fmt: skip
    """Begins all copies of a step: of A and each B, and for each thread of a row's scales of A and of a B."""
    begin_rows(numbers[0], into[0], first[0], rows[0], Int32(0), step, thread, K, ROWS)
    for each in range_constexpr(1, len(numbers)):
        at = Int32((each - 1) * COLUMNS)
        begin_rows(numbers[each], into[1], first[1], rows[1], at, step, thread, K, COLUMNS)
    begin_scales(scales[0], into[2], first[0] + thread, rows[0], thread, step, K, is_tiled)
    begin_scales(scales[1], into[2] + SCALES * 2, first[1] + thread % COLUMNS, rows[2], thread, step, K, is_tiled)


@cute.jit
def scaled_sums(
    numbers: tuple, scales: tuple, first: tuple, M: Int32,
    N: Constexpr, K: Constexpr, is_tiled: Constexpr, COLUMNS: Constexpr, STAGES: Constexpr,
) -> cute.Tensor:  # fmt: skip
    """Returns a thread's row of products of 128 rows of A with `COLUMNS` of each B, side by side.

    `numbers` and `scales` are addresses of A and of each B, `first` the first row of A and the first of each B.
    Rows of B lie below each other in shared memory, so that all products are one. A thread copies the scales of a row
    of A and of a row of one B.
    """
    thread, warp = cute.arch.thread_idx()[0], cute.arch.make_warp_uniform(cute.arch.warp_idx())
    count, steps, ahead_by = len(numbers) - 1, K // STEP, STAGES - 2
    columns = count * COLUMNS
    how = Float8E4M3FN, (ROWS, columns, PRODUCT), tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM
    tile, mma = (ROWS, columns, STEP), cute.make_tiled_mma(tcgen05.MmaMXF4NVF4Op(*how))
    shared = SmemAllocator()
    barriers, address = shared.allocate_array(Int64, STAGES), shared.allocate_array(Int32, 1)
    shared_a, shared_b = allocate(shared, mma, tile, Float4E2M1FN, STAGES)
    shared_scales = shared.allocate_array(Uint32, STAGES * SCALES, byte_alignment=128)
    at_a, at_b, at_scales = (each.toint() for each in (shared_a.iterator, shared_b.iterator, shared_scales))

    held = begin(warp, RESERVED, address, barriers, STAGES)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C(tile[:2])).layout)
    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)
    of_a, of_b = scales_in_tensor_memory(mma, tile)

    rows, own_scales = (M, Int32(N), Int32(N)), scales[1]
    for each in range_constexpr(1, count):
        if thread >= each * COLUMNS:
            own_scales = scales[1 + each]
    if thread >= columns:
        rows = (M, Int32(N), Int32(0))
    for ahead in cutlass.range(ahead_by + steps):
        if ahead >= STAGES and ahead < steps:
            last = ahead - STAGES  # what lies where copies go now
            cute.arch.mbarrier_wait(barriers + last % STAGES, last // STAGES % 2)
        if ahead < steps:
            at = ahead % STAGES
            into = at_a + at * ROWS * STEP // 2, at_b + at * columns * STEP // 2, at_scales + at * SCALES * 4
            begin_step(numbers, (scales[0], own_scales), into, first, rows, ahead, thread, K, is_tiled, COLUMNS)
        cute.arch.cp_async_commit_group()
        step = ahead - ahead_by
        if step >= 0:
            stage, beside = step % STAGES, columns + step % STAGES * HELD
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

    own = load_sums(sums[(None, None), 0, 0], thread, columns)
    end(warp, RESERVED, held)
    return own
