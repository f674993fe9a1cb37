"""The memory of kernels in Triton's interpreter: each access is held against its tensor's bounds, and other programs'.

Triton's interpreter loads and stores wherever a pointer leads: what lies beyond a tensor passes for numbers, and a
store there spoils the process's own memory. So pointers here are addresses far from each other, which tensors have for
the kernel alone, and become those of their memory where they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gdnbench.launch.triton_rounding import language_patched_once
from gdnbench.ptx.numbers import IntArray, Mask
from gdnbench.ptx.program import NO_LINE, Fault, FaultLog, SourceLine, describe_outside
from gdnbench.ptx.segments import TENSOR_BITS, nearest_tensor, tensor_address

Program = tuple[int, int, int]
"""The place of a program in its launch's grid."""

NOBODY, MANY = -1, -2
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def as_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.generic]:
    """Returns elements as unsigned integers of their size, flat."""
    return np.ascontiguousarray(values).reshape(-1).view(_BITS[values.dtype.itemsize])


class _Shadow:
    """The last store to each element of a tensor, and the program that has read it.

    Stores and programs have the numbers of their turn, so that those of the current program are the last ones. Where
    several programs have stored the same, the writer is `MANY`, whose reads and writes of that are no race.
    """

    def __init__(self, name: str, data: npt.NDArray[np.uint8], element: int) -> None:
        self.name, self.data, self.element = name, data, element
        self.line = np.full(-(-len(data) // element), NOBODY, dtype=np.int32)  # of the last store in any launch
        self.forget()

    def forget(self) -> None:
        count = -(-len(self.data) // self.element)
        self.writer, self.reader = (np.full(count, NOBODY, dtype=np.int32) for _ in range(2))
        self.is_read = False

    def elements(self, places: IntArray, nbytes: int) -> IntArray:
        """Returns the elements that accesses of so many bytes at some places use; shape (n, k)."""
        if nbytes < self.element:  # from now on elements are as small as the smallest access
            each = self.element // nbytes
            self.writer, self.reader, self.line = (np.repeat(of, each) for of in (self.writer, self.reader, self.line))
            self.element = nbytes
        first = (places // self.element)[:, None]
        return first if nbytes == self.element else first + np.arange(nbytes // self.element)

    def bits(self, places: IntArray, nbytes: int) -> npt.NDArray[np.generic]:
        """Returns the current bits at some places, shape (n,)."""
        return self.data[: len(self.data) // nbytes * nbytes].view(_BITS[nbytes])[places // nbytes]


@dataclass(frozen=True)
class TritonTouch:
    """What a load or store of one program touches in one tensor that it may write.

    `places`, shape (n,), are the first bytes of `nbytes` each, `chosen` their positions among all of the access, and
    `elements`, shape (n, k), the shadow's. `before`, shape (n,), is what lay there, or None if no program used it yet.
    """

    shadow: _Shadow
    places: IntArray
    elements: IntArray
    chosen: IntArray | slice
    nbytes: int
    before: npt.NDArray[np.generic] | None


class ProgramRaces:
    """The races of a kernel's launches, one after the other."""

    def __init__(self, findings: FaultLog) -> None:
        self._findings = findings
        self._shadows: list[_Shadow | None] = []
        self._programs: list[Program] = []
        self._stores: list[tuple[Program, SourceLine]] = []
        self._first_store = 0  # of the current program
        self._found: list[tuple[SourceLine, str, int]] = []
        self._is_ordered = False
        self._lines: list[SourceLine] = []  # of stores of all launches

    def add(self, name: str, data: npt.NDArray[np.uint8], element: int, *, is_input: bool) -> None:
        """Adds the tensor of the next number; inputs are only read, and a write to one is found otherwise."""
        self._shadows.append(None if is_input else _Shadow(name, data, element))

    def begin_launch(self) -> None:
        """Forgets the launch before."""
        for each in self._shadows:
            if each is not None:
                each.forget()
        self._programs, self._stores, self._found, self._is_ordered = [], [], [], False

    def end_launch(self) -> None:
        """Reports the races, unless programs may have signalled each other by atomics or volatile loads."""
        first = len(self._lines)
        self._lines += [line for _, line in self._stores]
        for each in self._shadows:
            if each is not None:
                each.line = np.where(each.writer >= 0, each.writer + first, each.line)
        for at, text, count in self._found if not self._is_ordered else []:
            self._findings.add(Fault.RACE, at, text, count=count)

    def stores(self, number: int, byte: int | None = None) -> tuple[SourceLine, ...]:
        """Returns the lines that stored last to a tensor's elements, or to the one that a byte lies in."""
        shadow = self._shadows[number]
        if shadow is None:
            return ()
        last = shadow.line if byte is None else shadow.line[byte // shadow.element :][:1]
        return tuple(dict.fromkeys(self._lines[at] for at in np.unique(last[last >= 0])))

    def note_order(self) -> None:
        """Records that a program has executed what others may wait for."""
        self._is_ordered = True

    def touches(
        self, addresses: IntArray, number: int | None, mask: npt.NDArray[Any] | None, nbytes: int
    ) -> list[TritonTouch]:
        """Returns what an access touches in tensors that are watched for races, before it is made.

        `addresses` are those of all elements, of `nbytes` each, and `number` is that of the tensor if all lie inside of
        one; `mask` may be broadcast to them, and None selects all.
        """
        if nbytes not in _BITS or (number is not None and self._shadows[number] is None):
            return []
        meant = None if mask is None or mask.all() else np.broadcast_to(mask, addresses.shape).astype(bool).reshape(-1)
        addresses = addresses.reshape(-1)
        if number is not None:
            found = [self._touch(number, addresses - tensor_address(number), meant, nbytes, are_inside=True)]
        else:
            numbers, places = nearest_tensor(addresses)
            every = range(max(0, int(numbers.min())), min(len(self._shadows), int(numbers.max()) + 1))
            of_tensor = [numbers == each if meant is None else meant & (numbers == each) for each in every]
            found = [self._touch(each, places, these, nbytes) for each, these in zip(every, of_tensor, strict=True)]
        return [each for each in found if each]

    def _touch(
        self, number: int, places: IntArray, meant: Mask | None, nbytes: int, *, are_inside: bool = False
    ) -> TritonTouch | None:
        shadow = self._shadows[number]
        if shadow is None:
            return None
        chosen: IntArray | slice = slice(None)
        if meant is not None or not are_inside or int(np.bitwise_or.reduce(places)) % nbytes:
            inside = (places >= 0) & (places + nbytes <= len(shadow.data)) & (places % nbytes == 0)
            chosen = np.flatnonzero(inside if meant is None else inside & meant)
            places = places[chosen]
        if not len(places):
            return None
        elements = shadow.elements(places, nbytes)
        is_new = not (shadow.is_read or (shadow.writer[elements] != NOBODY).any())
        return TritonTouch(shadow, places, elements, chosen, nbytes, None if is_new else shadow.bits(places, nbytes))

    def note_read(self, touch: TritonTouch, program: Program, at: SourceLine) -> None:
        """Records a read."""
        shadow, mine = touch.shadow, self._number(program)
        if touch.before is not None:
            writer = shadow.writer[touch.elements]
            self._note(touch, (writer >= 0) & (writer < self._first_store), "reads", program, at)
        reader = shadow.reader[touch.elements]
        shadow.reader[touch.elements] = np.where((reader == NOBODY) | (reader == mine), mine, MANY)
        shadow.is_read = True

    def note_write(self, touch: TritonTouch, values: npt.NDArray[np.generic], program: Program, at: SourceLine) -> None:
        """Records a write; `values` are the bits of all elements of the access, flat."""
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

    def _note(self, touch: TritonTouch, races: Mask, verb: str, program: Program, at: SourceLine) -> None:
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


_WIDEST = 16  # bytes of an element, at most


@dataclass(frozen=True)
class _Access:
    """A method by which Triton's interpreter accesses memory, and its verb in findings.

    The others are places among its arguments, None for what it lacks: of the pointers, of their mask, of what it writes
    but by an atomic, and of whether a load is volatile.
    """

    verb: str
    pointers: int = 0
    mask: int | None = None
    values: int | None = None
    is_volatile: int | None = None

    def orders(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Returns whether a call is an atomic, or a volatile load, by which programs may signal each other."""
        if self.is_volatile is None:
            return self.verb == "updates"
        return bool(named["is_volatile"] if "is_volatile" in named else arguments[self.is_volatile])


_ACCESSES = {
    "create_masked_load": _Access("reads", mask=1, is_volatile=5),
    "create_masked_store": _Access("writes", mask=2, values=1),
    "create_atomic_rmw": _Access("updates", pointers=1, mask=3),
    "create_atomic_cas": _Access("updates"),
}


class TritonMemory:
    """The tensors of a launch. Accesses outside a tensor become findings and are not made: such a load gives zero."""

    def __init__(self) -> None:
        self.findings = FaultLog()
        self._races = ProgramRaces(self.findings)
        self._tensors: list[tuple[str, torch.Tensor]] = []
        self._nowhere = np.zeros(_WIDEST, dtype=np.uint8)

    def pointer(self, name: str, tensor: torch.Tensor, *, is_input: bool = False) -> Any:
        """Returns what a kernel takes for a tensor, which must be contiguous."""
        from triton.runtime import interpreter

        pointer = interpreter._implicit_cvt(tensor)
        pointer.handle.data = np.array([tensor_address(len(self._tensors))], dtype=np.uint64)
        self._tensors.append((name, tensor))
        data = tensor.detach().reshape(-1).view(torch.uint8).numpy()
        self._races.add(name, data, tensor.element_size(), is_input=is_input)
        return pointer

    def place_of_stores(self, name: str, index: Sequence[int]) -> str:
        """Says which line of a kernel stored the present value of an element; empty where none stores to the tensor."""
        number = next((at for at, (known, _) in enumerate(self._tensors) if known == name), None)
        tensor = self._tensors[number][1] if number is not None else None
        if number is None or tensor is None or tensor.dim() != len(index) or not (lines := self._races.stores(number)):
            return ""
        flat = int(np.ravel_multi_index([*index], tensor.shape))
        if stored := self._races.stores(number, flat * tensor.element_size()):
            return f"it was stored at {stored[0]}"
        return f"no program stores it, at {' or '.join(map(str, lines))}"

    @contextmanager
    def launch(self) -> Iterator[None]:
        """Begins and ends a launch: its programs run in no order, and end before the next one's begin."""
        self._races.begin_launch()
        with language_patched_once():
            yield
        self._races.end_launch()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Makes Triton's interpreter take such pointers, and no others, until this ends."""
        from triton.runtime import interpreter

        builder: Any = interpreter.InterpreterBuilder
        before = {name: getattr(builder, name) for name in _ACCESSES}
        try:
            for name, access in _ACCESSES.items():
                setattr(builder, name, self._guarded(before[name], access))
            yield
        finally:
            for name, method in before.items():
                setattr(builder, name, method)

    def _guarded(self, method: Callable[..., Any], access: _Access) -> Callable[..., Any]:
        from triton.runtime import interpreter

        def call(builder: Any, *arguments: Any, **named: Any) -> Any:
            mask = None if access.mask is None or arguments[access.mask] is None else arguments[access.mask].data
            before, pointers, after = (
                arguments[: access.pointers], arguments[access.pointers], arguments[access.pointers + 1 :],
            )  # fmt: skip
            addresses, nbytes = np.asarray(pointers.data).astype(np.int64), _element_bytes(pointers.get_element_ty())
            number = self._tensor_around(int(addresses.min()), int(addresses.max()), nbytes)
            real = self._real(builder, addresses, number, access.verb, mask, nbytes)
            handle = interpreter.TensorHandle(real.astype(np.uint64), pointers.dtype)
            touched: list[TritonTouch] = []
            if access.verb != "updates":  # an atomic races with no other
                touched = self._races.touches(addresses, number, None if mask is None else np.asarray(mask), nbytes)
            result = method(builder, *before, handle, *after, **named)
            if access.orders(arguments, named):
                self._races.note_order()
            for touch in touched:
                if access.values is None:
                    self._races.note_read(touch, builder.grid_idx, _current_line())
                else:
                    values = np.broadcast_to(arguments[access.values].data, addresses.shape)
                    self._races.note_write(touch, as_bits(values), builder.grid_idx, _current_line())
            return result

        return call

    def _tensor_around(self, low: int, high: int, nbytes: int) -> int | None:
        """Returns the number of the tensor in which all of an access lies, as it mostly does, or None."""
        number = (low >> TENSOR_BITS) - 1
        is_tensor = 0 <= number < len(self._tensors)
        return (
            number if is_tensor and high + nbytes <= tensor_address(number) + self._tensors[number][1].nbytes else None
        )

    def _real(self, builder: Any, given: IntArray, number: int | None, verb: str, mask: Any, nbytes: int) -> IntArray:
        """Returns addresses in memory; those outside their tensor are reported unless masked, and lead nowhere."""
        if number is not None:
            return given + (self._tensors[number][1].data_ptr() - tensor_address(number))
        numbers, places = nearest_tensor(given)
        bounds = np.array([(0, 0), *((tensor.data_ptr(), tensor.nbytes) for _, tensor in self._tensors)])
        is_tensor = (numbers >= 0) & (numbers < len(self._tensors))
        first, room = np.moveaxis(bounds[np.where(is_tensor, numbers + 1, 0)], -1, 0)
        is_inside = (places >= 0) & (places + nbytes <= room)
        bad = ~is_inside & (True if mask is None else np.broadcast_to(mask, given.shape).astype(bool))
        if bad.any():
            self._note(builder, given[bad], verb, nbytes)
        return np.where(is_inside, first + places, self._nowhere.ctypes.data)

    def _note(self, builder: Any, outside: IntArray, verb: str, nbytes: int) -> None:
        number, place = (int(each[0]) for each in nearest_tensor(outside[:1]))
        what = f"{verb} {nbytes} bytes at an address in no tensor"
        if 0 <= number < len(self._tensors):
            name, tensor = self._tensors[number]
            what = describe_outside(verb, nbytes, place, f"`{name}`", tensor.nbytes)
        text = f"program ({', '.join(map(str, builder.grid_idx))}) {what}"
        self.findings.add(Fault.OUT_OF_BOUNDS, _current_line(), text, count=len(outside))


@cache
def _element_bytes(kind: Any) -> int:
    from triton.runtime import interpreter

    return int(interpreter._get_np_dtype(kind).itemsize)


@cache
def _library() -> tuple[str, str]:
    """Returns how paths of files begin that are no kernel's: Triton's, and this one."""
    from triton.runtime import interpreter

    return str(Path(interpreter.__file__).parents[1]), __file__


def _current_line() -> SourceLine:
    from triton.runtime import interpreter

    lines: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    outermost, library = interpreter.GridExecutor.__call__.__code__, _library()
    while frame is not None and frame.f_code is not outermost:
        if not frame.f_code.co_filename.startswith(library):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    at: SourceLine | None = None
    for file, line in reversed(lines):
        at = SourceLine(file, line, at)
    return at or NO_LINE
