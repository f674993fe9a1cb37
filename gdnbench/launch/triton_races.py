"""Which programs of a Triton kernel's launch use the same elements, one of them to write other values there.

Programs of a launch run in any order, and nothing but atomics orders what one does before what another does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.findings import Fault, FaultLog
from gdnbench.ptx.numbers import IntArray
from gdnbench.ptx.program import PtxSourceLine
from gdnbench.ptx.segments import TENSOR_BITS, nearest_tensor, tensor_address

Program = tuple[int, int, int]
"""The place of a program in its launch's grid."""
Mask = npt.NDArray[np.bool_]

NOBODY, MANY = -1, -2
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def as_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.generic]:
    """Elements as unsigned integers of their size, flat."""
    return np.ascontiguousarray(values).reshape(-1).view(_BITS[values.dtype.itemsize])


class _Shadow:
    """Of each element of a tensor, which store wrote it last and which program has read it.

    Stores and programs have the numbers of their turn, so that those of the program at hand are the last ones. Where
    several programs have stored the same, the writer is `MANY`, whose reads and writes of that are no race.
    """

    def __init__(self, name: str, data: npt.NDArray[np.uint8], element: int) -> None:
        self.name, self.data, self.element = name, data, element
        self.forget()

    def forget(self) -> None:
        """A launch begins."""
        count = -(-len(self.data) // self.element)
        self.writer, self.reader = (np.full(count, NOBODY, dtype=np.int32) for _ in range(2))
        self.is_read = False

    def elements(self, places: IntArray, nbytes: int) -> IntArray:
        """Those that accesses of so many bytes at some places use; shape (n, k)."""
        if nbytes < self.element:  # from now on elements are as small as the smallest access
            each = self.element // nbytes
            self.writer, self.reader = np.repeat(self.writer, each), np.repeat(self.reader, each)
            self.element = nbytes
        first = (places // self.element)[:, None]
        return first if nbytes == self.element else first + np.arange(nbytes // self.element)

    def bits(self, places: IntArray, nbytes: int) -> npt.NDArray[np.generic]:
        """What lies there now, shape (n,)."""
        return self.data[: len(self.data) // nbytes * nbytes].view(_BITS[nbytes])[places // nbytes]


@dataclass(frozen=True)
class Touch:
    """What a load or store of one program touches in one tensor that it may write.

    Attributes:
        shadow: of the tensor.
        places: shape (n,), the first byte of each element.
        elements: shape (n, k), their numbers.
        chosen: positions of these among all of the access.
        nbytes: of each.
        before: shape (n,), what lay there; None where no program has used them.
    """

    shadow: _Shadow
    places: IntArray
    elements: IntArray
    chosen: IntArray | slice
    nbytes: int
    before: npt.NDArray[np.generic] | None


class ProgramRaces:
    """The races of a kernel's launches, one after the other.

    Args:
        findings: where they go.
    """

    def __init__(self, findings: FaultLog) -> None:
        self._findings = findings
        self._shadows: list[_Shadow | None] = []
        self._programs: list[Program] = []
        self._stores: list[tuple[Program, PtxSourceLine]] = []
        self._first_store = 0  # of the program at hand
        self._found: list[tuple[PtxSourceLine, str, int]] = []
        self._is_ordered = False

    def add(self, name: str, data: npt.NDArray[np.uint8], element: int, *, is_input: bool) -> None:
        """Adds the tensor of the next number; inputs are only read, and what writes to one is told otherwise."""
        self._shadows.append(None if is_input else _Shadow(name, data, element))

    def begin_launch(self) -> None:
        """What lies before is over."""
        for each in self._shadows:
            if each is not None:
                each.forget()
        self._programs, self._stores, self._found, self._is_ordered = [], [], [], False

    def end_launch(self) -> None:
        """Notes what was found, unless programs may have told each other by atomics or volatile loads what is done."""
        for at, text, count in self._found if not self._is_ordered else []:
            self._findings.add(Fault.RACE, at, text, count=count)

    def note_order(self) -> None:
        """A program has executed what others may wait for or by which they tell each other."""
        self._is_ordered = True

    def touches(
        self, addresses: IntArray, span: tuple[int, int], mask: npt.NDArray[Any] | None, nbytes: int
    ) -> list[Touch]:
        """What an access touches that races are looked for in, before it is made.

        Args:
            addresses: of all its elements, as kernels have them.
            span: the lowest and the highest.
            mask: which of them are accessed, of their shape or broadcast to it; None for all.
            nbytes: of an element.
        """
        low, high = ((each >> TENSOR_BITS) - 1 for each in span)
        if nbytes not in _BITS or (low == high and 0 <= low < len(self._shadows) and self._shadows[low] is None):
            return []
        meant = None if mask is None or mask.all() else np.broadcast_to(mask, addresses.shape).astype(bool).reshape(-1)
        addresses = addresses.reshape(-1)
        if low == high and 0 <= low < len(self._shadows):
            touched = self._touch(low, addresses - tensor_address(low), meant, nbytes, last=span[1])
            return [touched] if touched else []
        numbers, places = nearest_tensor(addresses)
        found = []
        for number in np.unique(numbers):
            if 0 <= number < len(self._shadows):
                of_tensor = numbers == number if meant is None else meant & (numbers == number)
                found.append(self._touch(int(number), places, of_tensor, nbytes))
        return [each for each in found if each]

    def _touch(
        self, number: int, places: IntArray, meant: Mask | None, nbytes: int, *, last: int | None = None
    ) -> Touch | None:
        """What of one tensor; `last` is the highest address where all of them are in its range."""
        shadow = self._shadows[number]
        if shadow is None:
            return None
        is_within = last is not None and last - tensor_address(number) + nbytes <= len(shadow.data)
        chosen: IntArray | slice = slice(None)
        if meant is not None or not is_within or int(np.bitwise_or.reduce(places)) % nbytes:
            inside = (places >= 0) & (places + nbytes <= len(shadow.data)) & (places % nbytes == 0)
            chosen = np.flatnonzero(inside if meant is None else inside & meant)
            places = places[chosen]
        if not len(places):
            return None
        elements = shadow.elements(places, nbytes)
        is_new = not (shadow.is_read or (shadow.writer[elements] != NOBODY).any())
        return Touch(shadow, places, elements, chosen, nbytes, None if is_new else shadow.bits(places, nbytes))

    def note_read(self, touch: Touch, program: Program, at: PtxSourceLine) -> None:
        """A program has read what it touches."""
        shadow, mine = touch.shadow, self._number(program)
        if touch.before is not None:
            writer = shadow.writer[touch.elements]
            self._note(touch, (writer >= 0) & (writer < self._first_store), "reads", program, at)
        reader = shadow.reader[touch.elements]
        shadow.reader[touch.elements] = np.where((reader == NOBODY) | (reader == mine), mine, MANY)
        shadow.is_read = True

    def note_write(self, touch: Touch, values: npt.NDArray[np.generic], program: Program, at: PtxSourceLine) -> None:
        """A program has written to what it touches; `values` are the bits of all elements of the access, flat."""
        shadow, mine = touch.shadow, self._number(program)
        now = shadow.bits(touch.places, touch.nbytes)
        lost = now != values[touch.chosen]
        if lost.any():
            text = f"program {program} writes two values to one element of `{shadow.name}` at once"
            self._found.append((at, text, int(np.count_nonzero(lost))))
        self._stores.append((program, at))
        store = len(self._stores) - 1
        if touch.before is None:
            shadow.writer[touch.elements] = store
            return
        changed, writer = (now != touch.before)[:, None], shadow.writer[touch.elements]
        others = (writer != NOBODY) & (writer < self._first_store)
        self._note(touch, others & changed, "writes", program, at)
        reader = shadow.reader[touch.elements]
        read = (reader != NOBODY) & (reader != mine) & changed
        if read.any():
            one = int(reader[read][0])
            who = "others read" if one == MANY else f"program {self._programs[one]} reads"
            text = f"program {program} writes {touch.nbytes} bytes of `{shadow.name}` that {who}, in no order"
            self._found.append((at, text, int(np.count_nonzero(read.any(axis=1)))))
        shadow.writer[touch.elements] = np.where(others & ~changed, MANY, store)

    def _note(self, touch: Touch, races: Mask, verb: str, program: Program, at: PtxSourceLine) -> None:
        if not races.any():
            return
        writer = int(touch.shadow.writer[touch.elements[races]][0])
        who = "others write"
        if writer != MANY:
            other, line = self._stores[writer]
            who = f"program {other} writes at {line}"
        text = f"program {program} {verb} {touch.nbytes} bytes of `{touch.shadow.name}` that {who}, in no order"
        self._found.append((at, text, int(np.count_nonzero(races.any(axis=1)))))

    def _number(self, program: Program) -> int:
        if not self._programs or self._programs[-1] != program:
            self._programs.append(program)
            self._first_store = len(self._stores)
        return len(self._programs) - 1
