"""Pieces of memory under watch, where they lie, and what an access to them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.numbers import BITS, Array
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import Program, PtxInstruction, Variable
from gdnbench.ptx.races import Shadow

FIRST_SHARED = 1024
"""Byte at which a block's shared memory begins: Hopper and later keep the first KiB, and so a null pointer is seen."""
TENSOR_BITS = 40
"""Each tensor has 2^40 addresses of its own, so that what lies beside it is no other tensor."""
PEER_BITS = 24
"""Of a shared address within a block. Above them stands the rank of the block in its cluster, plus one; 0: its own."""
SHARED_WINDOW, LOCAL_WINDOW = 1 << 56, 1 << 57
"""Where generic addresses mean shared and local memory."""


@dataclass(frozen=True)
class Tensor:
    """A piece of global memory that a launch is given.

    Attributes:
        name: as findings call it.
        data: its bytes, which the kernel changes.
        is_written: whether all of it holds values that may be read.
        is_input: whether the kernel must not write to it; then nothing that uses it can race.
    """

    name: str
    data: npt.NDArray[np.uint8]
    is_written: bool = True
    is_input: bool = False


@dataclass
class MemorySegment:
    """A piece of memory under watch.

    Attributes:
        name: as findings call it.
        data: its bytes.
        granule: bytes that are watched together: no access is smaller.
        written: whether each granule was written; None where all of it holds values.
        shadow: who used it last; None where races are not looked for.
    """

    name: str
    data: npt.NDArray[np.uint8]
    granule: int
    written: npt.NDArray[np.bool_] | None = None
    shadow: Shadow | None = None

    def view(self, size: int) -> Array:
        """Its elements of so many bytes, as unsigned integers; what is left at its end is out of reach."""
        return self.data[: len(self.data) // size * size].view(BITS[size])

    @classmethod
    def make(cls, tensor: Tensor, granule: int, *, races: bool) -> MemorySegment:
        """A watched tensor; races are looked for only where it says so, and never in an input."""
        granules = -(-len(tensor.data) // granule)
        written = None if tensor.is_written else np.zeros(granules, dtype=bool)
        shadow = Shadow(granules) if races and not tensor.is_input else None
        return cls(tensor.name, tensor.data, granule, written, shadow)


@dataclass(frozen=True)
class Access:
    """What the lanes of one step do to memory.

    Attributes:
        lanes: shape (n,), their numbers in this part of the grid.
        addresses: shape (n,), bytes, in the space of the instruction.
        size: bytes of an element.
        count: elements side by side.
        step: number of the instruction.
        instruction: it.
    """

    lanes: IntArray
    addresses: Array
    size: int
    count: int
    step: int
    instruction: PtxInstruction

    @property
    def nbytes(self) -> int:
        """Of each lane."""
        return self.size * self.count

    def of(self, rows: npt.NDArray[np.bool_]) -> Access:
        """Of some lanes alone."""
        return self if rows.all() else replace(self, lanes=self.lanes[rows], addresses=self.addresses[rows])

    @property
    def may_be_of_peers(self) -> bool:
        """Whether its addresses may lie in the shared memory of another block of the cluster."""
        return self.instruction.has("shared__cluster")

    @property
    def is_strong(self) -> bool:
        """Whether it is by a strong instruction."""
        return is_strong(self.instruction)


def is_strong(instruction: PtxInstruction) -> bool:
    """Whether an access is volatile, or orders others: such accesses are how threads tell each other of flags.

    Those of mbarriers have words of that kind, and an order of their own.
    """
    words = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
    return instruction.name != "mbarrier" and instruction.has(*words)


@dataclass
class AccessPart:
    """The lanes of an access that fall into one segment.

    Attributes:
        segment: it.
        rows: positions of the lanes among those of the access.
        places: shape (rows,), the first byte of each in the segment.
    """

    segment: MemorySegment
    rows: IntArray
    places: IntArray


@dataclass(frozen=True)
class PendingRead:
    """A read of shared memory that goes on until its lanes wait for it.

    Attributes:
        access: the whole of it.
        begun: the step in which it began.
        lanes: shape (n,), of those that fall into memory, the lane of each.
        granules: shape (n, k), what is watched of each.
        elements: shape (n, count), their numbers in the segment.
        values: likewise, what they held.
    """

    access: Access
    begun: int
    lanes: IntArray
    granules: IntArray
    elements: IntArray
    values: Array

    def of(self, rows: npt.NDArray[np.bool_]) -> PendingRead:
        """A part of it."""
        if rows.all():
            return self
        parts = (each[rows] for each in (self.lanes, self.granules, self.elements, self.values))
        return PendingRead(self.access, self.begun, *parts)


def tensor_address(number: int) -> int:
    """The address at which a tensor begins."""
    return (number + 1) << TENSOR_BITS


def nearest_tensor(addresses: IntArray) -> tuple[IntArray, IntArray]:
    """The number of the tensor that lies nearest, and the byte in it, negative before its beginning."""
    half = 1 << (TENSOR_BITS - 1)
    shifted = addresses + half
    return (shifted >> TENSOR_BITS) - 1, (shifted & ((1 << TENSOR_BITS) - 1)) - half


def text_at(tensors: Sequence[MemorySegment], address: int) -> str:
    """What a pointer to characters in global memory says, up to the zero; a question mark where there is none."""
    number, place = (int(each[0]) for each in nearest_tensor(np.array([address])))
    if not 0 <= number < len(tensors) or place < 0:
        return "?"
    return tensors[number].data[place:].tobytes().partition(b"\0")[0].decode(errors="replace")


def shared_layout(program: Program, dynamic_bytes: int) -> tuple[Mapping[str, int], int]:
    """The byte at which each shared variable begins, after `FIRST_SHARED`, and how many there are of all."""
    return _layout([each for each in program.variables.values() if each.space == "shared"], dynamic_bytes)


def local_layout(program: Program) -> tuple[Mapping[str, int], int]:
    """Likewise of local memory, of one thread."""
    return _layout([each for each in program.variables.values() if each.space == "local"], 0)


def _layout(variables: Sequence[Variable], dynamic_bytes: int) -> tuple[dict[str, int], int]:
    places, end = {}, 0
    for variable in sorted(variables, key=lambda each: each.nbytes == 0):  # dynamic shared memory is the last
        end = -(-end // variable.alignment) * variable.alignment
        places[variable.name] = end
        end += variable.nbytes
    return places, end + dynamic_bytes
