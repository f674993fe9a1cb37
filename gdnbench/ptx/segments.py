"""Watched pieces of memory, their addresses, accesses to them, and the sectors of global memory that those touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.numbers import BITS, Array, IntArray, Mask
from gdnbench.ptx.program import Program, PtxInstruction, SourceLine, Traffic
from gdnbench.ptx.races import Shadow

FIRST_SHARED = 1024
"""First byte of a block's shared memory: Hopper and later reserve the first KiB, which exposes null pointers."""
TENSOR_BITS = 40
"""Each tensor has 2^40 addresses of its own, so that an access beside one hits no other."""
PEER_BITS = 24
"""Bits of a shared address in a block. Above stands the block's rank in its cluster, plus one; 0 for its own block.

In the first block of a cluster that is what an address of its own is, as on a GPU; in others it has the rank, too."""
SHARED_WINDOW, LOCAL_WINDOW = 1 << 56, 1 << 57
"""Bits that mark generic addresses of shared and of local memory."""


@dataclass(frozen=True)
class Tensor:
    """A piece of global memory that a launch is given, called `name` in findings."""

    name: str
    data: npt.NDArray[np.uint8]
    is_written: bool = True  # whether all of it is initialised
    is_input: bool = False  # whether the kernel must not write to it, so that no access to it can race
    # changed: shape (bytes,), where launches leave a mark at what they write; None if it is not recorded
    # earlier: shape (bytes,), what launches in front of this one have written; None if this one begins after them
    changed: Mask | None = None
    earlier: Mask | None = None


@dataclass(frozen=True)
class MappedTensor:
    """A map of a contiguous tensor of these sizes, by which copies bring boxes, both in elements along each axis."""

    tensor: Tensor
    sizes: tuple[int, ...]
    box: tuple[int, ...]
    element_bytes: int
    swizzle: int  # bytes, 0 for none


Argument = Tensor | MappedTensor | bytes
"""What a launch gives for a parameter: a tensor's memory, a map of one, or a value's bytes."""


@dataclass
class MemorySegment:
    """A watched piece of memory, called `name` in findings."""

    name: str
    data: npt.NDArray[np.uint8]
    granule: int  # bytes that are watched together: no access is smaller
    written: Mask | None = None  # None if all of it is initialised
    shadow: Shadow | None = None  # None if races are not looked for
    changed: Mask | None = None  # as in `Tensor`
    earlier: Mask | None = None

    def view(self, size: int) -> Array:
        """Returns the elements of `size` bytes as unsigned integers, without a remainder at the end."""
        return self.data[: len(self.data) // size * size].view(BITS[size])

    @classmethod
    def make(cls, tensor: Tensor, granule: int, *, races: bool) -> MemorySegment:
        """Returns a watched tensor; races are looked for only if `races` is set, and never in an input."""
        granules = -(-len(tensor.data) // granule)
        written = None if tensor.is_written else np.zeros(granules, dtype=bool)
        shadow = Shadow(granules) if races and not tensor.is_input else None
        return cls(tensor.name, tensor.data, granule, written, shadow, tensor.changed, tensor.earlier)


@dataclass(frozen=True)
class Access:
    """What the lanes of one step do to memory: each accesses `count` elements of `size` bytes side by side."""

    lanes: IntArray  # shape (n,), numbers in this part of the grid
    addresses: Array  # shape (n,), bytes in the space of the instruction
    size: int
    count: int
    step: int  # the instruction's number
    instruction: PtxInstruction

    @property
    def nbytes(self) -> int:
        """Bytes of each lane."""
        return self.size * self.count

    def of(self, rows: Mask) -> Access:
        """Returns the access of some of its lanes."""
        return self if rows.all() else replace(self, lanes=self.lanes[rows], addresses=self.addresses[rows])

    @property
    def may_be_of_peers(self) -> bool:
        """Whether its addresses may lie in the shared memory of another block of the cluster."""
        return self.instruction.has("shared__cluster", "cta_group__2")


@dataclass
class AccessPart:
    """The lanes of an access, by their `rows` in it, that fall into one segment, and the first byte of each in that."""

    segment: MemorySegment
    rows: IntArray
    places: IntArray


@dataclass(frozen=True)
class PendingRead:
    """A read of shared memory that goes on, from step `begun`, until its lanes wait for it."""

    access: Access
    begun: int
    lanes: IntArray  # shape (n,), those whose access falls into memory
    granules: IntArray  # shape (n, k)
    elements: IntArray  # shape (n, count), by number
    values: Array  # what these elements were at the beginning

    def of(self, rows: Mask) -> PendingRead:
        """Returns the read of some of its lanes."""
        if rows.all():
            return self
        parts = (each[rows] for each in (self.lanes, self.granules, self.elements, self.values))
        return PendingRead(self.access, self.begun, *parts)


def tensor_address(number: int) -> int:
    """Returns the address at which a tensor begins."""
    return (number + 1) << TENSOR_BITS


def nearest_tensor(addresses: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the number of the nearest tensor, and the byte in it, negative before its beginning."""
    half = 1 << (TENSOR_BITS - 1)
    shifted = addresses + half
    return (shifted >> TENSOR_BITS) - 1, (shifted & ((1 << TENSOR_BITS) - 1)) - half


def text_at(tensors: Sequence[MemorySegment], address: int) -> str:
    """Returns the zero-terminated text at an address in global memory, or a question mark if there is no tensor."""
    number, place = (int(each[0]) for each in nearest_tensor(np.array([address])))
    if not 0 <= number < len(tensors) or place < 0:
        return "?"
    return tensors[number].data[place:].tobytes().partition(b"\0")[0].decode(errors="replace")


def layout(program: Program, space: str, dynamic_bytes: int) -> tuple[Mapping[str, int], int]:
    """Returns the byte at which each variable of a space, `shared` or `local`, begins, and the bytes of all."""
    places, end = {}, 0
    variables = [each for each in program.variables.values() if each.space == space]
    for variable in sorted(variables, key=lambda each: each.nbytes == 0):  # dynamic shared memory is the last
        end = -(-end // variable.alignment) * variable.alignment
        places[variable.name] = end
        end += variable.nbytes
    return places, end + dynamic_bytes


SECTOR_BYTES = 32


class SectorCounts:
    """What loads and stores of global memory request, by the number of the instruction."""

    def __init__(self) -> None:
        self._counts: dict[int, IntArray] = {}  # requests, sectors and least sectors: see `Traffic`

    def add(self, access: Access, places: IntArray, warps: IntArray) -> None:
        """Counts an access to one tensor, from each lane's first byte in it and warp, both of shape (n,)."""
        span = int(places.max()) // SECTOR_BYTES + 2
        sectors = np.unique(warps * span + places // SECTOR_BYTES)
        bytes_at = np.unique(warps * (span * SECTOR_BYTES) + places)
        nbytes = np.bincount(np.searchsorted(np.unique(warps), bytes_at // (span * SECTOR_BYTES))) * access.nbytes
        counts = np.array([len(nbytes), len(sectors), np.sum(-(-nbytes // SECTOR_BYTES))])
        self._counts[access.step] = self._counts.get(access.step, 0) + counts

    def traffic(self, instructions: Sequence[PtxInstruction]) -> tuple[Traffic, ...]:
        """Returns the traffic of each source line."""
        by_line: dict[tuple[SourceLine, str], IntArray] = {}
        for step, counts in self._counts.items():
            key = instructions[step].at, "stores" if instructions[step].name == "st" else "loads"
            by_line[key] = by_line.get(key, 0) + counts
        return tuple(Traffic(*key, *map(int, counts)) for key, counts in by_line.items())
