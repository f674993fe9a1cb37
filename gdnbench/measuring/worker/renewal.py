"""What every launch finds: inputs in a mixture that hardly any launch before it found, and outputs that hold poison.

After each launch, timed or not, each input tensor at its placement gets the values of one of two draws, chosen at
random and for itself. A kernel that keeps answers by the addresses of its inputs, by their shapes or by a sample of
their values then gives wrong ones, and one that writes nothing leaves poison. All of it lies outside what is timed, and
before the flush of the next sample, so it leaves nothing in the L2.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import torch

from gdnbench.launch.numerics import Numerics
from gdnbench.launch.workspace import Workspace, poison, poison_bytes
from gdnbench.measuring.worker.own_kernels import OwnKernel

InPlace = Mapping[str, str]
"""The outputs that a kernel updates in place, with the input whose values each begins with."""

_SECOND_SEED_BITS = 31


class Draws:
    """Two draws of a workload's inputs, of which each launch gets a mixture.

    Tensors of integers are all of the same draw: lengths and indices may depend on each other.

    Args:
        first: inputs whose values are the first draw.
        numerics: the op's, which makes the second, of the same scenario, by a seed that nobody knows.
        scenario: the kind of inputs.
    """

    def __init__(self, first: Workspace, numerics: Numerics, scenario: str) -> None:
        self._random = random.Random()  # from the system's entropy: a kernel must not foresee it
        seed = self._random.getrandbits(_SECOND_SEED_BITS)
        device = str(next(iter(first.inputs.values())).device)
        second = Workspace.make(first.op, numerics, first.workload, seed=seed, device=device, scenario=scenario)
        self.tensors = (first.pristine, second.pristine)
        self.numerics = numerics
        self.scenario = scenario
        floating = [name for name, tensor in first.inputs.items() if tensor.is_floating_point()]
        self._bits = {name: floating.index(name) if name in floating else len(floating) for name in first.inputs}

    def choose(self) -> int:
        """A mixture: which draw each tensor is of, a bit each; 0 is the first draw."""
        return self._random.getrandbits(len(self._bits) + 1)

    def inputs(self, choice: int) -> dict[str, torch.Tensor]:
        """The values of a mixture, by input."""
        return {name: self.tensors[choice >> bit & 1][name] for name, bit in self._bits.items()}

    def rows(self, workspace: Workspace, in_place: InPlace) -> list[tuple[int, int, int, int, int, int]]:
        """What a renewal writes: address, bytes, address of the first draw, of the second, bit that chooses, pattern.

        A row without draws is filled with its pattern.
        """
        rows = [self._copied(tensor, name) for name, tensor in workspace.inputs.items()]
        for name, tensor in workspace.outputs.items():
            if name in in_place:
                rows.append(self._copied(tensor, in_place[name]))
            else:
                rows.append((tensor.data_ptr(), tensor.nbytes, 0, 0, 0, poison_bytes(tensor.dtype)))
        return rows

    def _copied(self, tensor: torch.Tensor, name: str) -> tuple[int, int, int, int, int, int]:
        first, second = (draw[name].data_ptr() for draw in self.tensors)
        return (tensor.data_ptr(), tensor.nbytes, first, second, self._bits[name], 0)


class RenewedPlacements:
    """The placements of a workload, and which mixture of the draws the inputs at each of them hold.

    Args:
        draws: of the workload.
        workspaces: its tensors at every placement, with inputs of the first draw and poisoned outputs.
    """

    def __init__(self, draws: Draws, workspaces: Sequence[Workspace]) -> None:
        self.draws = draws
        self.workspaces = workspaces
        self._choices = [0] * len(workspaces)
        self._left_for: list[InPlace] = [{}] * len(workspaces)
        self._renewals: dict[tuple[int, tuple[tuple[str, str], ...]], _Renewal] = {}

    def inputs(self, number: int) -> dict[str, torch.Tensor]:
        """The values that the inputs at a placement were given last."""
        return self.draws.inputs(self._choices[number])

    def prepare(self, number: int, in_place: InPlace) -> None:
        """Readies a placement for launches of a kernel, perhaps after one that updates other outputs in place."""
        self._renewal(number, in_place)
        if self._left_for[number] != in_place:
            self.renew(number, in_place)

    def renew(self, number: int, in_place: InPlace) -> None:
        """Gives a placement other inputs, and poisons its outputs; on the current stream, with nothing from the host.

        Outputs that a kernel allocates itself keep what it wrote: of other inputs, that is wrong for the next launch.
        """
        choice = self.draws.choose()
        self._renewal(number, in_place).apply(choice)
        self._choices[number], self._left_for[number] = choice, in_place

    def _renewal(self, number: int, in_place: InPlace) -> _Renewal:
        key = (number, tuple(sorted(in_place.items())))
        if key not in self._renewals:
            self._renewals[key] = self._make_renewal(self.workspaces[number], in_place)
        return self._renewals[key]

    def _make_renewal(self, workspace: Workspace, in_place: InPlace) -> _Renewal:
        if next(iter(workspace.inputs.values())).is_cuda:
            return _CudaRenewal(self._kernel, self.draws.rows(workspace, in_place))
        return _CpuRenewal(self.draws, workspace, in_place)

    @cached_property
    def _kernel(self) -> OwnKernel:
        blocks = _BLOCKS_PER_SM * torch.cuda.get_device_properties(0).multi_processor_count
        return OwnKernel("renew", _RENEW_SOURCE, blocks=blocks, threads=_THREADS)


class _Renewal(Protocol):
    """Writes all of a placement."""

    def apply(self, choice: int) -> None:
        """Writes the mixture, and poison."""


class _CpuRenewal:
    def __init__(self, draws: Draws, workspace: Workspace, in_place: InPlace) -> None:
        self._draws, self._workspace, self._in_place = draws, workspace, in_place

    def apply(self, choice: int) -> None:
        """Writes the mixture, and poison."""
        chosen, workspace = self._draws.inputs(choice), self._workspace
        for name, tensor in chosen.items():
            workspace.inputs[name].copy_(tensor)
        for name, output in workspace.outputs.items():
            if name in self._in_place:
                output.copy_(chosen[self._in_place[name]])
            else:
                poison([output])


_BLOCKS_PER_SM = 4
_THREADS = 256
_RENEW_SOURCE = r"""
// All tensors begin at multiples of 16 bytes: torch aligns allocations to 512.
struct Row {
  char* to;
  long long bytes;
  const char* draws[2];
  long long bit;
  unsigned long long pattern;  // in place of draws, over and over
};

extern "C" __global__ void gdnbench_renew(const Row* rows, const int count, const unsigned long long choice) {
  const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long threads = (long long)gridDim.x * blockDim.x;
  for (int i = 0; i < count; ++i) {
    const Row row = rows[i];
    const char* from = row.draws[choice >> row.bit & 1];
    const ulonglong2 fill = make_ulonglong2(row.pattern, row.pattern);
    const long long vectors = row.bytes / 16, left = vectors * 16 + thread;
    for (long long at = thread; at < vectors; at += threads)
      ((ulonglong2*)row.to)[at] = from ? ((const ulonglong2*)from)[at] : fill;
    if (left < row.bytes) row.to[left] = from ? from[left] : (char)(row.pattern >> left % 8 * 8);
  }
}
"""


class _CudaRenewal:
    """One launch writes all tensors, so that it costs the host little."""

    def __init__(self, kernel: OwnKernel, rows: Sequence[tuple[int, ...]]) -> None:
        self._kernel = kernel
        self._rows = torch.tensor(rows, dtype=torch.int64, device="cuda")

    def apply(self, choice: int) -> None:
        """Writes the mixture, and poison."""
        self._kernel.launch(self._rows.data_ptr(), ctypes.c_int(len(self._rows)), ctypes.c_ulonglong(choice))
