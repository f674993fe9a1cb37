"""Tensor memory of sm_100, for a block of 128 threads or two of a cluster: reserved, read, given back; in CuTe DSL."""

from cutlass import Constexpr, Float32, Int32, cute, range_constexpr
from cutlass._mlir import ir
from cutlass.cute.nvgpu import tcgen05


def fence_tensor(way: str) -> None:
    """Orders accesses to tensor memory, and its address, with those of other threads at a barrier."""
    cute.arch.inline_ptx(f"tcgen05.fence::{way}_thread_sync;")


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
def begin(
    warp: Int32, columns: Constexpr, address: cute.Pointer, barriers: cute.Pointer, count: Constexpr,
    blocks: Constexpr = 1,
) -> cute.Pointer:  # fmt: skip
    """Reserves columns of tensor memory, returns where they begin, and makes `count` mbarriers of one arrival."""
    if warp == 0:
        cute.arch.alloc_tmem(columns, address, is_two_cta=blocks == 2)
        with cute.arch.elect_one():
            for each in range_constexpr(count):
                cute.arch.mbarrier_init(barriers + each, 1)
    cute.arch.mbarrier_init_fence()
    fence_tensor("before")
    meet(blocks)
    fence_tensor("after")
    return cute.arch.retrieve_tmem_ptr(Float32, 16, address)


@cute.jit
def end(warp: Int32, columns: Constexpr, held: cute.Pointer, blocks: Constexpr = 1) -> None:
    """Gives tensor memory back, once all threads are here."""
    fence_tensor("before")
    meet(blocks)
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=blocks == 2)
        cute.arch.dealloc_tmem(held, columns, is_two_cta=blocks == 2)


@cute.jit
def load_sums(sums: cute.Tensor, thread: Int32, columns: Constexpr) -> cute.Tensor:
    """Loads a row of tensor memory, a lane of it for each thread."""
    own = cute.make_rmem_tensor(columns, Float32)
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(columns)), Float32)
    load_row = tcgen05.make_tmem_copy(atom, sums).get_slice(thread)
    held = load_row.partition_S(sums)
    cute.copy(load_row, held, cute.make_tensor(own.iterator, load_row.partition_D(sums).layout))
    cute.arch.fence_view_async_tmem_load()
    return own
