"""Which programs of a Triton kernel's launch use the same elements, one of them to write other values there.

Programs of a launch run in any order, and nothing but atomics orders what one does before what another does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.ptx.findings import Fault, FaultLog
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import SourceLine
from gdnbench.ptx.segments import TENSOR_BITS, nearest_tensor

NOBODY, MANY = -1, -2
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def as_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.generic]:
    """Elements as unsigned integers of their size, flat."""
    return np.ascontiguousarray(values).reshape(-1).view(_BITS[values.dtype.itemsize])


class _Shadow:
    """Of each element of a tensor, the numbers of the programs that wrote it last and that have read it.

    Where several have written the same, the writer is `MANY`, whose reads and writes of that are no race.
    """

    def __init__(self, name: str, data: npt.NDArray[np.uint8], element: int) -> None:
        self.name, self.data, self.element = name, data, element
        self.forget()

    def forget(self) -> None:
        """A launch begins."""
        count = -(-len(self.data) // self.element)
        self.writer, self.reader = (np.full(count, NOBODY, dtype=np.int64) for _ in range(2))
        self.written_at = np.zeros(count, dtype=np.int64)  # number of the line

    def elements(self, places: IntArray, nbytes: int) -> IntArray:
        """Those that accesses of so many bytes at some places use; shape (n, k)."""
        if nbytes < self.element:  # from now on elements are as small as the smallest access
            each = self.element // nbytes
            self.writer, self.reader, self.written_at = (
                np.repeat(known, each) for known in (self.writer, self.reader, self.written_at)
            )
            self.element = nbytes
        return (places // self.element)[:, None] + np.arange(max(1, nbytes // self.element))

    def bits(self, places: IntArray, nbytes: int) -> npt.NDArray[np.generic]:
        """What lies there now, shape (n,)."""
        return self.data[: len(self.data) // nbytes * nbytes].view(_BITS[nbytes])[places // nbytes]


@dataclass(frozen=True)
class Touch:
    """What a load or store of one program touches in one tensor that it may write.

    Attributes:
        shadow: of the tensor.
        places: shape (n,), the first byte of each element.
        chosen: positions of these among all of the access.
        nbytes: of each.
        before: shape (n,), what lay there.
    """

    shadow: _Shadow
    places: IntArray
    chosen: IntArray
    nbytes: int
    before: npt.NDArray[np.generic]


class ProgramRaces:
    """The races of a kernel's launches, one after the other.

    Args:
        findings: where they go.
    """

    def __init__(self, findings: FaultLog) -> None:
        self._findings = findings
        self._shadows: list[_Shadow | None] = []
        self._programs: list[tuple[int, int, int]] = []
        self._lines: list[SourceLine] = []
        self._found: list[tuple[SourceLine, str, int]] = []
        self._is_ordered = False

    def add(self, name: str, data: npt.NDArray[np.uint8], element: int, *, is_input: bool) -> None:
        """Adds the tensor of the next number; inputs are only read, and what writes to one is told otherwise."""
        self._shadows.append(None if is_input else _Shadow(name, data, element))

    def begin_launch(self) -> None:
        """What lies before is over."""
        for each in self._shadows:
            if each is not None:
                each.forget()
        self._programs, self._found, self._is_ordered = [], [], False

    def end_launch(self) -> None:
        """Notes what was found, unless programs may have told each other by atomics or volatile loads what is done."""
        for at, text, count in self._found if not self._is_ordered else []:
            self._findings.add(Fault.RACE, at, text, count=count)

    def note_order(self) -> None:
        """A program has executed what others may wait for or by which they tell each other."""
        self._is_ordered = True

    def touches(self, addresses: IntArray, mask: npt.NDArray[np.bool_] | None, nbytes: int) -> list[Touch]:
        """What an access touches that races are looked for in, before it is made.

        Args:
            addresses: of all its elements, as kernels have them.
            mask: which of them are accessed; None for all.
            nbytes: of an element.
        """
        if not addresses.size or nbytes not in _BITS or self._are_inputs(addresses):
            return []
        numbers, places = nearest_tensor(addresses.ravel())
        is_meant = np.ones(len(places), dtype=bool) if mask is None else mask.ravel()
        touched = []
        for number in np.unique(numbers):
            shadow = self._shadows[number] if 0 <= number < len(self._shadows) else None
            if shadow is None:
                continue
            inside = (places >= 0) & (places + nbytes <= len(shadow.data)) & (places % nbytes == 0)
            chosen = np.flatnonzero(is_meant & (numbers == number) & inside)
            if len(chosen):
                before = shadow.bits(places[chosen], nbytes)
                touched.append(Touch(shadow, places[chosen], chosen, nbytes, before))
        return touched

    def _are_inputs(self, addresses: IntArray) -> bool:
        """Whether all lie in one input, as those of loads mostly do."""
        low, high = ((int(each) >> TENSOR_BITS) - 1 for each in (addresses.min(), addresses.max()))
        return low == high and 0 <= low < len(self._shadows) and self._shadows[low] is None

    def note_read(self, touch: Touch, program: tuple[int, int, int], at: SourceLine) -> None:
        """A program has read what it touches."""
        shadow, mine = touch.shadow, self._number(program)
        elements = shadow.elements(touch.places, touch.nbytes)
        writer = shadow.writer[elements]
        self._note(touch, (writer >= 0) & (writer != mine), elements, "reads", program, at)
        reader = shadow.reader[elements]
        shadow.reader[elements] = np.where((reader == NOBODY) | (reader == mine), mine, MANY)

    def note_write(
        self, touch: Touch, values: npt.NDArray[np.generic], program: tuple[int, int, int], at: SourceLine
    ) -> None:
        """A program has written to what it touches; `values` are the bits of all elements of the access, flat."""
        shadow, mine = touch.shadow, self._number(program)
        elements = shadow.elements(touch.places, touch.nbytes)
        now = shadow.bits(touch.places, touch.nbytes)
        changed = (now != touch.before)[:, None]
        lost = now != values[touch.chosen]
        if lost.any():
            text = f"program {program} writes two values to one element of `{shadow.name}` at once"
            self._found.append((at, text, int(np.count_nonzero(lost))))
        writer, reader = shadow.writer[elements], shadow.reader[elements]
        self._note(touch, (writer != NOBODY) & (writer != mine) & changed, elements, "writes", program, at)
        same = np.where((writer == NOBODY) | (writer == mine), mine, MANY)
        read = (reader != NOBODY) & (reader != mine) & changed
        if read.any():
            who = (
                "others read" if (reader[read] == MANY)[0] else f"program {self._programs[int(reader[read][0])]} reads"
            )
            text = f"program {program} writes {touch.nbytes} bytes of `{shadow.name}` that {who}, in no order"
            self._found.append((at, text, int(np.count_nonzero(read.any(axis=1)))))
        self._lines.append(at)
        shadow.writer[elements], shadow.written_at[elements] = np.where(changed, mine, same), len(self._lines) - 1

    def _note(
        self,
        touch: Touch,
        races: npt.NDArray[np.bool_],
        elements: IntArray,
        verb: str,
        program: tuple[int, int, int],
        at: SourceLine,
    ) -> None:
        if not races.any():
            return
        shadow, first = touch.shadow, int(elements[races][0])
        writer, line = int(shadow.writer[first]), self._lines[int(shadow.written_at[first])]
        who = "others write" if writer == MANY else f"program {self._programs[writer]} writes"
        text = f"program {program} {verb} {touch.nbytes} bytes of `{shadow.name}` that {who} at {line}, in no order"
        self._found.append((at, text, int(np.count_nonzero(races.any(axis=1)))))

    def _number(self, program: tuple[int, int, int]) -> int:
        if not self._programs or self._programs[-1] != program:
            self._programs.append(program)
        return len(self._programs) - 1
