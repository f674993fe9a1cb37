"""C = A Bᵀ for matrices in nvfp4, by `tcgen05.mma` in bf16, which holds each number times its scale exactly.

128 threads widen a row of A each, and the first of them one of B, 64 numbers at a time; the tensor core sums up in fp32
in tensor memory, where thread t then finds row t of C. With `CTAS=2` two blocks multiply together: each has 128 rows of
A and half of B's, so that it widens half as much of B, and the first begins the products of both.
"""

import cutlass
from cutlass import BFloat16, Constexpr, Int32, Int64, Uint32, const_expr, cute, range_constexpr
from cutlass.cute.nvgpu import tcgen05
from cutlass.memory import SmemAllocator

from .gdn.nvfp4 import CHUNK, CODES, INNER, ROWS, allocate, load, matrix_of_pair, products, store, widen
from .gdn.tensor_memory import begin, end, fence_tensor, in_clusters_of, load_sums, meet


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
    rank, tile_n, share = block % CTAS, block // CTAS, COLUMNS // CTAS
    tile, mma, reserved = (CTAS * ROWS, COLUMNS, CHUNK), products(COLUMNS, CTAS), max(COLUMNS, 32)
    shared = SmemAllocator()
    barrier, address = shared.allocate_array(Int64, 1), shared.allocate_array(Int32, 1)
    shared_a, shared_b = (each[None, None, None, 0] for each in allocate(shared, mma, tile, BFloat16, 1))

    held = begin(warp, reserved, address, barrier, 1, CTAS)
    sums = cute.make_tensor(held, mma.make_fragment_C(mma.partition_shape_C(tile[:2])).layout)
    part_a, part_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)

    row, column = (tile_m * CTAS + rank) * ROWS + thread, tile_n * COLUMNS + rank * share + thread
    of_a, of_b = matrix_of_pair(A, sfa, pair, M, K, TILED), matrix_of_pair(B, sfb, pair, Int32(N), K, TILED)
    codes = cute.make_rmem_tensor(CODES + 1, Uint32)
    for chunk in cutlass.range(K // CHUNK):
        load(*of_a, codes, row, chunk, M, K, TILED)
        widen(codes, shared_a, thread)
        if thread < share:
            load(*of_b, codes, column, chunk, Int32(N), K, TILED)
            widen(codes, shared_b, thread)
        cute.arch.fence_view_async_shared()
        meet(CTAS)
        if warp == 0 and rank == 0:
            for part in range_constexpr(CHUNK // INNER):
                mma.set(tcgen05.Field.ACCUMULATE, chunk > 0 if part == 0 else True)
                cute.gemm(mma, sums, part_a[None, None, part], part_b[None, None, part], sums)
            with cute.arch.elect_one():
                if const_expr(CTAS > 1):
                    tcgen05.commit(barrier, 3, tcgen05.CtaGroup.TWO)
                else:
                    tcgen05.commit(barrier)
        cute.arch.mbarrier_wait(barrier, chunk % 2)
        fence_tensor("after")

    own = load_sums(sums[(None, None), 0, 0], thread, COLUMNS)
    end(warp, reserved, held, CTAS)
    if row < M:
        for i in range_constexpr(COLUMNS):
            own[i] *= 2.0**16  # each factor is widened times 2^-8
        store(own, C, Int64(pair) * M + row, tile_n * COLUMNS, N, COLUMNS)
