"""The layers of a chain: tensors of their own for each, a kernel bound to them, and the L2 in which a step begins."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from cuda.bindings import driver

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import GdnbenchError
from gdnbench.launch import Launcher, Numerics, Workspace, load
from gdnbench.model.case import Variant
from gdnbench.model.op import Op
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.step.native.loop import CLoop, Launch
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
    """A chain cannot be launched in a way."""


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
        """Enqueues the read after a layer, by the layer's number."""
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
    """A kernel bound to every layer; `loop` reads launches from a graph, None if there is no C loop."""

    def __init__(self, entry: CatalogEntry, variant: Variant, layers: Layers, loop: CLoop | None) -> None:
        self.entry = entry
        self.variant = variant
        self.layers = layers
        self._loop = loop
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

    def launches(self) -> tuple[list[Launch], list[int]]:
        """The chain's launches, read from a capture, and the layer of each; -1 for a read between two.

        Raises NotLaunchedError if the chain holds other nodes than kernels, or layers differ in their number.
        """
        if self._loop is None:
            raise NotLaunchedError("there is no C loop here")
        if self._captured is None:
            try:
                self._captured = capture(self._run_and_keep, strict=False)
            except RuntimeError as error:
                said = str(error).partition("\n")[0]
                raise NotLaunchedError(f"it cannot be captured into a CUDA graph: {said}") from error
            self._captured_outputs = self.outputs
        nodes = graph_nodes(self._captured.graph.raw_cuda_graph())
        if self._captured.kernels != len(nodes):
            raise NotLaunchedError("it launches copies or fills beside its kernels, which the C loop does not")
        count = len(self._launchers)
        gaps = count - 1 if self.layers.stand_in else 0
        each, rest = divmod(len(nodes) - gaps, count)
        if rest:
            raise NotLaunchedError(f"{len(nodes)} launches are no whole number of each of {count} layers")
        owners: list[int] = []
        for layer in range(count):
            owners += ([-1] if gaps and layer else []) + [layer] * each
        return [self._loop.read_node(int(node)) for node, _ in nodes], owners

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
            if failed := [gate for gate in gates if not gate.passed]:
                raise WrongError(f"layer {number}: {failed[0].reason}", failed[0].status)


def state_windows(chain: Chain) -> list[tuple[int, int]]:
    """Address and bytes of each layer's state: the tensor that a copying floor of the op would read.

    Raises NotLaunchedError if the op does not declare it.
    """
    copy = chain.entry.op.copy
    if not isinstance(copy, tuple):
        raise NotLaunchedError(f"{chain.entry.op.name} does not tell which tensor is its state, by `copy`")
    states: Sequence[Any] = [workspace.inputs[copy[0]] for workspace in chain.layers.workspaces]
    return [(state.data_ptr(), state.numel() * state.element_size()) for state in states]


_LIMIT = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_MOST_SET_ASIDE = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
_MOST_WINDOW = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE


def _value(answer: tuple[Any, ...]) -> int:
    status, value = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver does not tell of the L2: {status.name}")
    return int(value)


def most_set_aside() -> int:
    """Bytes of the L2 that the device can set aside for persisting lines; 0 if it cannot."""
    return _value(driver.cuDeviceGetAttribute(_MOST_SET_ASIDE, driver.CUdevice(0)))


def largest_window() -> int:
    """Most bytes of an access policy window."""
    return _value(driver.cuDeviceGetAttribute(_MOST_WINDOW, driver.CUdevice(0)))


@contextmanager
def set_aside(nbytes: int) -> Iterator[None]:
    """Sets a part of the L2 aside within; afterwards restores the limit and releases persisting lines."""
    before = _value(driver.cuCtxGetLimit(_LIMIT))
    (status,) = driver.cuCtxSetLimit(_LIMIT, nbytes)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"no part of the L2 can be set aside: {status.name}")
    try:
        yield
    finally:
        driver.cuCtxResetPersistingL2Cache()
        driver.cuCtxSetLimit(_LIMIT, before)
