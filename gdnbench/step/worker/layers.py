"""The layers of a chain, each with its tensors and a kernel bound to them, and the ways to launch all of them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cuda.bindings import driver
from cuda.core import ObjectCode

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.build import Job, build
from gdnbench.errors import GdnbenchError
from gdnbench.launch import Launcher, Numerics, Workspace, load
from gdnbench.launch.bind import c_value
from gdnbench.model.case import Variant, arguments_of
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.op import Op
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.step.plan import L2, StepCase, Way, walk_of
from gdnbench.step.worker.loop import CLoop, Launch, listed
from gdnbench.verify.check import check_all, check_copy, consult_oracle
from gdnbench.workers.cold import OwnKernel
from gdnbench.workers.device import CapturedCall, capture
from gdnbench.workers.launched import graph_nodes

BETWEEN = "between"
"""Name of the kernel that reads memory in place of the weights."""
_BETWEEN_THREADS = 256
_BETWEEN_BLOCKS_PER_SM = 8
_BETWEEN_SOURCE = """
// Reads all, and writes only where a sum is what no sum of zeros is.
extern "C" __global__ void gdnbench_between(const float4* weights, const long long quads, float* never) {
  float sum = 0.f;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += stride) {
    const float4 x = weights[i];
    sum += x.x + x.y + x.z + x.w;
  }
  if (sum == 1.f) *never = sum;
}
"""


class NotLaunchedError(GdnbenchError):
    """A chain cannot be launched by a path."""


class WrongError(Exception):
    """A chain has wrong outputs or changed inputs; `status` says in which way."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


class StandIn:
    """Reads `mib` MiB between two layers, in place of the weights: each layer has bytes of its own."""

    def __init__(self, layers: int, mib: float) -> None:
        quads = int(mib * (1 << 20)) // 16
        self._weights = torch.zeros((layers - 1, quads, 4), dtype=torch.float32, device="cuda")
        self._never = torch.zeros(1, dtype=torch.float32, device="cuda")
        blocks = _BETWEEN_BLOCKS_PER_SM * torch.cuda.get_device_properties(0).multi_processor_count
        self._kernel = OwnKernel(BETWEEN, _BETWEEN_SOURCE, blocks=blocks, threads=_BETWEEN_THREADS)

    def launch(self, gap: int) -> None:
        """Enqueues the read after a layer."""
        weights = self._weights[gap]
        self._kernel.launch(weights.data_ptr(), ctypes.c_longlong(weights.numel() // 4), self._never.data_ptr())


@dataclass(frozen=True)
class Layers:
    """The tensors of every layer at one workload, shared by kernels; `stand_in` is None without reads between."""

    workspaces: tuple[Workspace, ...]
    numerics: Numerics
    stand_in: StandIn | None

    @classmethod
    def draw(
        cls, op: Op, numerics: Numerics, workload: Workload, *, layers: int, seed: int, stand_in: StandIn | None
    ) -> Layers:
        """Inputs of the workload's profile on the GPU, drawn for each layer."""
        kind = op.inputs_to_verify(workload)[0]
        workspaces = tuple(
            Workspace.make(op, numerics, workload, seed=seed + layer, device="cuda", scenario=kind)
            for layer in range(layers)
        )
        return cls(workspaces, numerics, stand_in)


class Chain:
    """A kernel bound to every layer."""

    def __init__(self, entry: CatalogEntry, variant: Variant, layers: Layers) -> None:
        self.entry = entry
        self.variant = variant
        self.layers = layers
        binder = load(entry, variant, layers.workspaces[0].workload)
        self._launchers: tuple[Launcher, ...] = tuple(binder(workspace) for workspace in layers.workspaces)
        self._captured: CapturedCall | None = None
        self._captured_outputs: list[tuple[torch.Tensor, ...]] = []
        self.outputs: list[tuple[torch.Tensor, ...]] = [tuple(each()) for each in self._launchers]
        torch.cuda.synchronize()

    def run(self) -> None:
        """Launches every layer from Python, as `bind` does."""
        stand_in = self.layers.stand_in
        if stand_in is None:
            self.outputs = [run() for run in self._launchers]
            return
        outputs = []
        for number, run in enumerate(self._launchers):
            if number:
                stand_in.launch(number - 1)
            outputs.append(run())
        self.outputs = outputs

    def launches(self, loop: CLoop) -> tuple[list[Launch], list[int]]:
        """The captured launches and each one's layer, -1 between two; NotLaunchedError for other nodes."""
        if self._captured is None:
            try:
                self._captured = capture(self._run_and_keep, strict=False)
            except RuntimeError as error:
                said = str(error).partition("\n")[0]
                raise NotLaunchedError(f"it cannot be captured into a CUDA graph: {said}") from error
            self._captured_outputs = self.outputs
        nodes = graph_nodes(self._captured.graph.raw_cuda_graph())
        if self._captured.kernels != len(nodes):
            raise NotLaunchedError("it launches copies or fills besides its kernels, which the C loop does not")
        count = len(self._launchers)
        gaps = count - 1 if self.layers.stand_in else 0
        each, rest = divmod(len(nodes) - gaps, count)
        if rest:
            raise NotLaunchedError(f"{len(nodes)} launches are no whole number of each of {count} layers")
        owners = [0] * each
        for layer in range(1, count):
            owners += [-1] * bool(gaps) + [layer] * each
        return [loop.read_node(int(node)) for node, _ in nodes], owners

    def _run_and_keep(self) -> tuple[torch.Tensor, ...]:
        self.run()
        return self.outputs[-1]

    def reset(self) -> None:
        """Restores inputs and poisons outputs, those that the kernel allocates itself included."""
        in_place = self.entry.kernel.in_place
        for workspace, *found in zip(
            self.layers.workspaces, self.outputs, self._captured_outputs or self.outputs, strict=True
        ):
            workspace.restore()
            workspace.reset_all(in_place)
            for outputs in found:
                workspace.reset(outputs, in_place)

    def use_captured_outputs(self) -> None:
        """Takes the captured call's outputs, which launches from the capture write."""
        if self._captured_outputs:
            self.outputs = self._captured_outputs

    def check(self) -> None:
        """Applies the op's gates to every layer's outputs and inputs; raises WrongError if one fails."""
        if self.entry.kernel.is_unchecked:
            return
        for number, (workspace, outputs) in enumerate(zip(self.layers.workspaces, self.outputs, strict=True)):
            scenario = workspace.op.inputs_to_verify(workspace.workload)[0]
            if self.entry.kernel.floor == "copy":
                gates = check_copy(outputs, workspace, scenario)
            else:
                gates = check_all(workspace, outputs, consult_oracle(workspace, self.layers.numerics), scenario)
            for gate in gates:
                if not gate.passed:
                    raise WrongError(f"layer {number}: {gate.reason}", gate.status)


_LIMIT = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_MOST_SET_ASIDE = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
_MOST_WINDOW = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE


def _value(answer: tuple[Any, ...]) -> int:
    status, *value = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver refuses to read or set the L2: {status.name}")
    return int(value[0]) if value else 0


def _attribute(name: Any) -> int:
    return _value(driver.cuDeviceGetAttribute(name, driver.CUdevice(0)))


@contextmanager
def set_most_aside() -> Iterator[None]:
    """Sets as much of the L2 aside within as the device allows; then restores the limit and frees persisting lines."""
    before = _value(driver.cuCtxGetLimit(_LIMIT))
    _value(driver.cuCtxSetLimit(_LIMIT, _attribute(_MOST_SET_ASIDE)))
    try:
        yield
    finally:
        driver.cuCtxResetPersistingL2Cache()
        driver.cuCtxSetLimit(_LIMIT, before)


Enqueue = Callable[[], object]


def make_path(case: StepCase, chain: Chain, loop: CLoop | None, stream: int) -> Enqueue:
    """The call that enqueues the chain on the current stream; GdnbenchError if it cannot by this path."""
    if case.path is Way.PYTHON:
        return chain.run
    if loop is None:
        raise NotLaunchedError("there is no C compiler here (cc, gcc or clang), so there is no C loop")
    match case.path:
        case Way.C_LOOP:
            return _loop_call(case, chain, loop, stream)
        case Way.GRAPH | Way.GRAPH_PDL:
            call = _loop_call(case, chain, loop, stream)
            captured = capture(lambda: (call(), ())[1], strict=False)
            replayed: Enqueue = captured.graph.replay
            return _holding(replayed, captured, call)
        case Way.PERSISTENT:
            return _walk_call(chain, loop, stream)


def _holding(call: Enqueue, *held: object) -> Enqueue:

    def run() -> None:
        call()
        _ = held

    return run


def _loop_call(case: StepCase, chain: Chain, loop: CLoop, stream: int) -> Enqueue:
    launches, owners = chain.launches(loop)
    if case.path is Way.GRAPH_PDL:
        for launch, layer in zip(launches, owners, strict=True):
            launch.programmatic = layer > 0
    if case.l2 is L2.PERSISTING:
        _add_windows(chain, launches, owners)
    array = listed(launches)
    is_extended = any(each.programmatic or each.window_bytes or each.cooperative for each in launches)
    enqueue = loop.launch_extended if is_extended else loop.launch_plain

    def run() -> None:
        enqueue(array, stream)
        chain.use_captured_outputs()

    return run


def _add_windows(chain: Chain, launches: list[Launch], owners: list[int]) -> None:
    """Sets a window on each launch's layer state; together they request no more than can be set aside.

    The state is the tensor that a copying floor of the op would read.
    """
    aside, most = _attribute(_MOST_SET_ASIDE), _attribute(_MOST_WINDOW)
    if not aside or not most:
        raise NotLaunchedError("this GPU sets no part of its L2 aside")
    copy = chain.entry.op.copy
    if not isinstance(copy, tuple):
        raise NotLaunchedError(f"{chain.entry.op.name} does not tell which tensor is its state, by `copy`")
    states = [workspace.inputs[copy[0]] for workspace in chain.layers.workspaces]
    ratio = min(1.0, aside / sum(state.nbytes for state in states))
    for launch, layer in zip(launches, owners, strict=True):
        if layer >= 0:
            launch.window_base, nbytes = states[layer].data_ptr(), states[layer].nbytes
            launch.window_bytes, launch.hit_ratio = min(nbytes, most), ratio


def _walk_call(chain: Chain, loop: CLoop, stream: int) -> Enqueue:
    """One launch of the kernel's function over all layers, with as many blocks as can be resident at once."""
    entry, variant = chain.entry, chain.variant
    workload = chain.layers.workspaces[0].workload
    assert isinstance(entry.kernel, CudaKernel)  # others have no such function
    declared = entry.kernel.launches[0]
    major, minor = torch.cuda.get_device_capability()
    built = build(Job(entry, variant, workload, f"sm_{major}{minor}", declared.entry, disassembled=False))
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
    arguments = arguments_of(entry.op, kernel, kernel.launches[0])
    names = [each for each in arguments if isinstance(each, str)]
    if len(names) < len(arguments):
        raise NotLaunchedError("its function over all layers takes 8 bytes an argument, and tensor maps have 128")
    rows = []
    for workspace in chain.layers.workspaces:
        named = workspace.by_name(kernel.scratch, chain.variant.params)
        rows.append([_slot(c_value(entry.op, name, named[name])) for name in names])
    return torch.tensor(rows, dtype=torch.int64, device="cuda")


def _slot(value: object) -> int:
    if isinstance(value, int):
        return value
    assert isinstance(value, ctypes._SimpleCData)
    return int(struct.unpack("<q", bytes(value).ljust(8, b"\0"))[0])
