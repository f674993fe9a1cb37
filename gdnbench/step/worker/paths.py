"""The ways to launch a chain; each becomes a call that enqueues all of it."""

from __future__ import annotations

import copy
import ctypes
import struct
from collections.abc import Callable
from pathlib import Path

import torch
from cuda.bindings import driver
from cuda.core import ObjectCode

from gdnbench.codegen.build import build
from gdnbench.launch.bind import c_value
from gdnbench.measure.worker.device import capture
from gdnbench.model.case import argument_names
from gdnbench.model.kernel import CudaKernel
from gdnbench.step.native.loop import CLoop, Launch, listed
from gdnbench.step.plan import L2, StepCase, Way, walk_of
from gdnbench.step.worker.layers import Chain, NotLaunchedError, largest_window, most_set_aside, state_windows

Enqueue = Callable[[], object]


def make_path(case: StepCase, chain: Chain, loop: CLoop | None, stream: int) -> Enqueue:
    """Returns the call that enqueues the chain on the current stream.

    Raises GdnbenchError if the chain cannot be launched by the case's path.
    """
    match case.path:
        case Way.PYTHON:
            return chain.run
        case Way.C_LOOP:
            return _loop_call(case, chain, loop, stream)
        case Way.GRAPH | Way.GRAPH_PDL:
            call = _loop_call(case, chain, loop, stream)
            captured = capture(lambda: (call(), ())[1], strict=False)
            replayed: Enqueue = captured.graph.replay
            return _holding(replayed, captured, call)
        case Way.PERSISTENT:
            return _walk_call(chain, loop, stream)


def _holding(call: Enqueue, *_held: object) -> Enqueue:
    """The call, with objects that must live as long as it does."""
    alive = _held

    def run() -> None:
        call()
        _ = alive

    return run


def _loop_call(case: StepCase, chain: Chain, loop: CLoop | None, stream: int) -> Enqueue:
    if loop is None:
        raise NotLaunchedError("there is no C compiler here (cc, gcc or clang), so there is no C loop")
    launches, owners = chain.launches()
    if case.path is Way.GRAPH_PDL:
        for launch, layer in zip(launches, owners, strict=True):
            launch.programmatic = layer > 0
    if case.l2 is L2.PERSISTING:
        _add_windows(chain, launches, owners)
    array = listed(launches)
    enqueue = loop.launch_plain if _is_plain(launches) else loop.launch_extended

    def run() -> None:
        enqueue(array, stream)
        chain.use_captured_outputs()

    return run


def _is_plain(launches: list[Launch]) -> bool:
    return not any(each.programmatic or each.window_bytes or each.cooperative for each in launches)


def _add_windows(chain: Chain, launches: list[Launch], owners: list[int]) -> None:
    """Sets a window on its layer's state for each launch; all together request no more than can be set aside."""
    aside, most = most_set_aside(), largest_window()
    if not aside or not most:
        raise NotLaunchedError("this GPU sets no part of its L2 aside")
    windows = state_windows(chain)
    ratio = min(1.0, aside / sum(nbytes for _, nbytes in windows))
    for launch, layer in zip(launches, owners, strict=True):
        if layer >= 0:
            launch.window_base, nbytes = windows[layer]
            launch.window_bytes, launch.hit_ratio = min(nbytes, most), ratio


def _walk_call(chain: Chain, loop: CLoop | None, stream: int) -> Enqueue:
    """One launch of the kernel's function over all layers, with as many blocks as can be resident at once."""
    entry, variant = chain.entry, chain.variant
    workload = chain.layers.workspaces[0].workload
    if loop is None or not isinstance(entry.kernel, CudaKernel):
        raise NotLaunchedError("there is no C compiler here (cc, gcc or clang), so there is no C loop")
    declared = entry.kernel.launches[0]
    major, minor = torch.cuda.get_device_capability()
    built = build(entry, variant, workload, f"sm_{major}{minor}", launch=declared.entry, disassembled=False)
    code = ObjectCode.from_cubin(Path(built.cubin).read_bytes())
    kernel = code.get_kernel(walk_of(entry))
    threads = declared.block(workload, variant.params)
    tiles = declared.grid(workload, variant.params)[0]
    _, function = driver.cuKernelGetFunction(driver.CUkernel(int(kernel.handle)))
    status, resident = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, 0)
    if status != driver.CUresult.CUDA_SUCCESS or not resident:
        raise NotLaunchedError(f"how many of its blocks are resident at once is not known: {status.name}")
    blocks = min(tiles, resident * torch.cuda.get_device_properties(0).multi_processor_count)
    table, counters = _layer_table(chain), torch.zeros(2, dtype=torch.int32, device="cuda")
    values = (
        ctypes.c_void_p(table.data_ptr()),
        ctypes.c_int(len(chain.layers.workspaces)),
        ctypes.c_uint(tiles),
        ctypes.c_void_p(counters.data_ptr()),
    )
    addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    launch = Launch(
        function=int(kernel.handle),
        arguments=ctypes.addressof(addresses),
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        cooperative=1,
    )
    array = listed([launch])
    own = [workspace.output_tensors for workspace in chain.layers.workspaces]

    def run() -> None:
        loop.launch_extended(array, stream)
        chain.outputs = own

    return _holding(run, code, kernel, table, counters, values, addresses)


def _layer_table(chain: Chain) -> torch.Tensor:
    """The op's arguments of each layer, 8 bytes each, as the function over all layers takes them."""
    entry, kernel = chain.entry, chain.entry.kernel
    assert isinstance(kernel, CudaKernel)
    names = argument_names(entry.op, kernel, kernel.launches[0])
    rows = []
    for workspace in chain.layers.workspaces:
        named = workspace.by_name(kernel.scratch, chain.variant.params)
        rows.append([_slot(c_value(entry.op, name, named[name])) for name in names])
    return torch.tensor(rows, dtype=torch.int64, device="cuda")


def _slot(value: object) -> int:
    """An argument as the 8 bytes of a signed integer, zero-padded at the upper end."""
    if isinstance(value, int):
        return value
    assert isinstance(value, ctypes._SimpleCData)
    raw = bytes(copy.copy(value))
    return int(struct.unpack("<q", raw.ljust(8, b"\0"))[0])
