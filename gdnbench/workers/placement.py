"""Placements of tensors: a workload's tensors at many places in memory, and their renewal between launches.

The place of a process's tensors in device memory is random, and matters: on an H200 at batch 1, the ratio of the same
two kernels read 1.04 in one process and 1.13 in another (docs/measuring.md). With 32 placements in turn, five processes
agree on it to 0.9 %. A serving engine's state pool is large, so its launches see many placements, too.

Before a round and after each launch, timed or not, each input tensor at its placement gets the values of one of two
draws, chosen pseudorandomly for each tensor. A kernel that caches results by the addresses of its inputs, by their
shapes or by a sample of their values then gives wrong ones, and one that writes nothing leaves poison. The renewal is
not timed, and precedes the flush of the next sample, so that it leaves nothing in the L2.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch

from gdnbench.launch.bind import Launcher
from gdnbench.launch.numerics import Numerics, rearranged
from gdnbench.launch.workspace import Workspace, poison, poison_bytes
from gdnbench.store.journal import BURN_IN
from gdnbench.workers.cold import OwnKernel
from gdnbench.workers.task import MOST_CHECKED, MOST_PLACEMENTS, Task, window_count, window_size


@dataclass(frozen=True)
class Placement:
    """A launcher bound to the tensors of one placement; `ranges` are of these and of scratch, for the scrubber."""

    number: int
    run: Launcher
    ranges: torch.Tensor


class Placements:
    """The tensors of a workload at all of their placements, which the cases of the workload share.

    Each round uses one window of them, from the first again after the last: were the places the same in every round, an
    interval over rounds would not include their effect.
    """

    def __init__(self, workspace: Workspace, window: int, windows: int) -> None:
        self.window = window
        self.workspaces = [workspace, *(workspace.copy() for _ in range(window * windows - 1))]
        self._ranges: dict[tuple[int, int], torch.Tensor] = {}
        self._declared = [{each.data_ptr() for each in copy.outputs.values()} for copy in self.workspaces]
        self._allocated: deque[tuple[torch.Tensor, ...]] = deque(maxlen=len(self.workspaces))
        self._numbers: dict[int, int] = {}

    def numbers(self, position: int) -> list[int]:
        """The window of the round at a position in the process's order."""
        first = position * self.window % len(self.workspaces)
        return list(range(first, first + self.window))

    def ranges(self, number: int) -> torch.Tensor:
        """The ranges of a placement's inputs and outputs, and of its scratch tensors so far."""
        copy = self.workspaces[number]
        key = (number, len(copy.scratch))
        if key not in self._ranges:
            self._ranges[key] = list_ranges([*copy.inputs.values(), *copy.outputs.values(), *copy.scratch.values()])
        return self._ranges[key]

    def own(self, number: int, outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The outputs of a launch that the kernel allocated itself."""
        declared = self._declared[number]
        return tuple(tensor for tensor in outputs if tensor.data_ptr() not in declared)

    def keep(self, own: tuple[torch.Tensor, ...]) -> int | None:
        """Keeps outputs of the kernel's own, so that torch reuses no memory; their place, None where there are none."""
        if not own:
            return None
        self._allocated.append(own)
        largest = max(own, key=lambda tensor: tensor.numel() * tensor.element_size())
        return self._numbers.setdefault(largest.data_ptr(), len(self._numbers))

    @property
    def are_outputs_spread(self) -> bool:
        """Whether as many outputs are kept as there are placements, so that launches need no memory from the driver."""
        return len(self._allocated) == self._allocated.maxlen


def place(workspace: Workspace, task: Task) -> Placements:
    """A workload's tensors at as many placements as the task allows; at one for a plain task.

    Further passes go round over the windows of the first one's rounds, for which the run has made room.
    """
    if task.plain:
        return Placements(workspace, 1, 1)
    nbytes = workspace.op.tensor_bytes(workspace.workload)
    window = window_size(nbytes, max(task.samples.values(), default=MOST_PLACEMENTS))
    return Placements(workspace, window, window_count(nbytes, window, len(task.order), task.placed_bytes))


def list_ranges(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """(address, bytes) of each tensor as int64 [n, 2] on the GPU."""
    rows = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
    return torch.tensor(rows, dtype=torch.int64, device="cuda")


InPlace = Mapping[str, str]
"""The outputs that a kernel updates in place, by name, with the input that each starts from."""

_MOST_SEED = 2**31 - 1


def _bits(first: Workspace) -> dict[str, int]:
    """The bit of a mixture, for each input, that selects its draw."""
    floating = [name for name, tensor in first.inputs.items() if tensor.is_floating_point()]
    groups = [group for group in first.op.drawn_together if set(group) <= set(floating)]
    leader = {name: group[0] for group in groups for name in group}
    bits = {name: number for number, name in enumerate(dict.fromkeys(leader.get(name, name) for name in floating))}
    return {name: bits[leader.get(name, name)] if name in floating else len(bits) for name in first.inputs}


@contextmanager
def memory_apart(*, on_gpu: bool) -> Iterator[None]:
    """Separate memory for computations between rounds, so that they do not change where a kernel's outputs lie."""
    with torch.cuda.use_mem_pool(_pool()) if on_gpu else nullcontext():
        yield


@cache
def _pool() -> torch.cuda.MemPool:
    return torch.cuda.MemPool()


class Draws:
    """Two draws of a workload's inputs, of which each launch gets a mixture.

    The mixture follows from the workload, its profile, the round and the placement, so that all processes and timers of
    a run time the same inputs. If the op declares that times depend on them, each round has its own draws, and the
    noise of rounds includes their effect; else the inputs of `first` are the first draw. All integer tensors are of the
    same draw, since they may depend on each other, and so are those that the op declares as drawn together. Without the
    run's secret `key` a kernel cannot predict its inputs.
    """

    _places: tuple[int, ...] = (0, 1)
    """Indices of the draws that each round redraws, if times depend on the inputs."""

    def __init__(self, first: Workspace, numerics: Numerics, kind: str, key: str) -> None:
        self.numerics = numerics
        self.kind = kind
        self._key = f"{key}/{first.workload.key}"
        self._first = first
        self._device = str(next(iter(first.inputs.values())).device)
        self._changes = first.op.depends_on_inputs
        self.number = BURN_IN
        second = self._draw("second")
        self.tensors = (first.pristine, second)
        self._bits = _bits(first)

    def begin(self, number: int) -> None:
        """Makes the draws of a round."""
        if number == self.number:
            return
        self.number = number
        for place in self._places if self._changes else ():
            for name, tensor in self._draw(f"{number}/{place}").items():
                self.tensors[place][name].copy_(tensor)

    def _draw(self, what: str) -> dict[str, torch.Tensor]:
        seed = self._hash(what) & _MOST_SEED
        with memory_apart(on_gpu=self._device != "cpu"):
            first = self._first
            drawn = Workspace.make(
                first.op, self.numerics, first.workload, seed=seed, device=self._device, scenario=self.kind
            )
        return drawn.inputs

    def choose(self, place: int, visit: int) -> int:
        """The mixture for a launch, a bit for each tensor's draw; `visit` counts its launches here in the round."""
        return self._hash(f"{self.number}/{place}/{visit}/mixture") & ((1 << len(self._bits) + 1) - 1)

    def _hash(self, what: str) -> int:
        digest = hashlib.blake2b(f"{self._key}/{what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def inputs(self, choice: int) -> dict[str, torch.Tensor]:
        """The values of a mixture, by input."""
        return {name: self.tensors[choice >> bit & 1][name] for name, bit in self._bits.items()}

    def rows(self, workspace: Workspace, in_place: InPlace) -> list[tuple[int, int, int, int, int, int]]:
        """Rows of a renewal: address, bytes, addresses of the first and second draw, bit that selects, pattern.

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


class CapturedDraws(Draws):
    """Captured inputs and, as the second draw, the same with their heads in another order (`rearranged`)."""

    _places = (1,)

    def _draw(self, what: str) -> dict[str, torch.Tensor]:
        with memory_apart(on_gpu=self._device != "cpu"):
            return rearranged(self._first.op, self._first.pristine, self._hash(what) & _MOST_SEED)


class RenewedPlacements:
    """The placements of workloads that differ only in the profile, with the inputs that each holds."""

    def __init__(self, workspaces: Sequence[Workspace]) -> None:
        self.workspaces = workspaces
        self._holds: list[tuple[Draws, int] | None] = [None] * len(workspaces)
        self._visits = [0] * len(workspaces)
        self._renewals: dict[tuple[int, Draws, tuple[tuple[str, str], ...]], Callable[[int], None]] = {}

    @cached_property
    def room(self) -> tuple[Workspace, ...]:
        """Tensors for the inputs and outputs of a round's checked launches."""
        return tuple(self.workspaces[0].copy() for _ in range(MOST_CHECKED))

    def inputs(self, number: int) -> dict[str, torch.Tensor]:
        """The values that the inputs at a placement were given last."""
        held = self._holds[number]
        assert held is not None  # `prepare` has been called for it
        draws, choice = held
        return draws.inputs(choice)

    def prepare(self, number: int, draws: Draws, in_place: InPlace) -> None:
        """Prepares a placement for a round of a kernel's launches, with the same inputs for all kernels."""
        self._visits[number] = 0
        self.renew(number, draws, in_place)

    def renew(self, number: int, draws: Draws, in_place: InPlace) -> None:
        """Gives a placement other inputs and poisons outputs, without copies; outputs of the kernel's own stay."""
        choice = draws.choose(number, self._visits[number])
        self._renewal(number, draws, in_place)(choice)
        self._holds[number] = (draws, choice)
        self._visits[number] += 1

    def _renewal(self, number: int, draws: Draws, in_place: InPlace) -> Callable[[int], None]:
        """The function that writes the tensors of a placement, by the mixture."""
        key = (number, draws, tuple(sorted(in_place.items())))
        if key not in self._renewals:
            workspace = self.workspaces[number]
            if next(iter(workspace.inputs.values())).is_cuda:
                rows = torch.tensor(draws.rows(workspace, in_place), dtype=torch.int64, device="cuda")
                self._renewals[key] = partial(_renew_by_kernel, self._kernel, rows)
            else:
                self._renewals[key] = partial(_renew, draws, workspace, in_place)
        return self._renewals[key]

    @cached_property
    def _kernel(self) -> OwnKernel:
        blocks = _BLOCKS_PER_SM * torch.cuda.get_device_properties(0).multi_processor_count
        return OwnKernel("renew", _RENEW_SOURCE, blocks=blocks, threads=_THREADS)


def _renew(draws: Draws, workspace: Workspace, in_place: InPlace, choice: int) -> None:
    chosen = draws.inputs(choice)
    for name, tensor in chosen.items():
        workspace.inputs[name].copy_(tensor)
    for name, output in workspace.outputs.items():
        if name in in_place:
            output.copy_(chosen[in_place[name]])
        else:
            poison([output])


def _renew_by_kernel(kernel: OwnKernel, rows: torch.Tensor, choice: int) -> None:
    """Renews as `_renew`, in one launch, which costs the host little."""
    kernel.launch(rows.data_ptr(), ctypes.c_int(len(rows)), ctypes.c_ulonglong(choice))


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
