"""C = silu(A B1ᵀ) (A B2ᵀ) for matrices in nvfp4, by `tcgen05.mma` in bf16, which holds scaled numbers exactly.

Rows of B1 and the same rows of B2 lie below each other in shared memory, so that both products are one. 128 threads
widen a row of A each, and the first of them one of B1 or B2, 64 numbers at a time, while the tensor core multiplies
those before; it sums up in fp32 in tensor memory, where thread t then finds row t of both sums.
"""

import cutlass
from cutlass import BFloat16, Constexpr, Int32, Int64, Uint32, cute, range_constexpr
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator

from .gdn.nvfp4 import CHUNK, CODES, INNER, ROWS, allocate, load, products, silu, store, widen
from .gdn.tensor_memory import begin, end, fence_tensor, load_sums


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
    shared = SmemAllocator()
    barriers, address = shared.allocate_array(Int64, STAGES), shared.allocate_array(Int32, 1)
    shared_a, shared_b = allocate(shared, mma, tile, BFloat16, STAGES)

    held = begin(warp, both, address, barriers, STAGES)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C(tile[:2])).layout)
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

    own = load_sums(sums[(None, None), 0, 0], thread, both)
    end(warp, both, held)
    if row < M:
        for i in range_constexpr(COLUMNS):
            gate, value = own[i] * 2.0**16, own[COLUMNS + i] * 2.0**16  # each factor is widened times 2^-8
            own[i] = silu(gate) * value
        store(own, C, Int64(row), tile_n * COLUMNS, N, COLUMNS)
