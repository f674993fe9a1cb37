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
import torch

from gdnbench.launch.triton_races import ProgramRaces, Touch, as_bits
from gdnbench.ptx.findings import Fault, FaultLog, describe_outside
from gdnbench.ptx.numbers import IntArray
from gdnbench.ptx.program import NO_LINE, PtxSourceLine
from gdnbench.ptx.segments import TENSOR_BITS, nearest_tensor, tensor_address

_WIDEST = 16  # bytes of an element, at most


@dataclass(frozen=True)
class _Access:
    """A method by which Triton's interpreter accesses memory.

    Attributes:
        verb: as findings call it.
        pointers: the place of the pointers among its arguments.
        mask: likewise of their mask; None for none.
        values: likewise of what it writes; None for what writes nothing, and for atomics.
        is_volatile: likewise of whether a load is volatile; None for what is never.
    """

    verb: str
    pointers: int = 0
    mask: int | None = None
    values: int | None = None
    is_volatile: int | None = None

    def orders(self, given: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether a call with such arguments is an atomic, or a volatile load, by which programs tell each other."""
        place = self.is_volatile
        if place is None:
            return self.verb == "updates"
        return bool(named["is_volatile"] if "is_volatile" in named else given[place])


_ACCESSES = {
    "create_masked_load": _Access("reads", mask=1, is_volatile=5),
    "create_masked_store": _Access("writes", mask=2, values=1),
    "create_atomic_rmw": _Access("updates", pointers=1, mask=3),
    "create_atomic_cas": _Access("updates"),
}


class TritonMemory:
    """The tensors of a launch.

    Attributes:
        findings: where accesses beside a tensor go. They are not made: a load gives what no number means, zero.
    """

    def __init__(self) -> None:
        self.findings = FaultLog()
        self._races = ProgramRaces(self.findings)
        self._tensors: list[tuple[str, torch.Tensor]] = []
        self._nowhere = np.zeros(_WIDEST, dtype=np.uint8)

    def pointer(self, name: str, tensor: torch.Tensor, *, is_input: bool = False) -> Any:
        """What a kernel takes for a tensor, which must be contiguous."""
        from triton.runtime import interpreter

        pointer = interpreter._implicit_cvt(tensor)
        pointer.handle.data = np.array([tensor_address(len(self._tensors))], dtype=np.uint64)
        self._tensors.append((name, tensor))
        data = tensor.detach().reshape(-1).view(torch.uint8).numpy()
        self._races.add(name, data, tensor.element_size(), is_input=is_input)
        return pointer

    @contextmanager
    def launch(self) -> Iterator[None]:
        """One launch of a kernel: what its programs do is in no order, and over before the next one's begin."""
        self._races.begin_launch()
        yield
        self._races.end_launch()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Triton's interpreter takes such pointers, and no others, until this ends."""
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

        def call(builder: Any, *given: Any, **named: Any) -> Any:
            mask = None if access.mask is None else given[access.mask]
            pointers = given[access.pointers]
            addresses, nbytes = np.asarray(pointers.data).astype(np.int64), _element_bytes(pointers.get_element_ty())
            span = int(addresses.min()), int(addresses.max())
            real = self._real(builder, addresses, span, access.verb, mask, nbytes)
            handle = interpreter.TensorHandle(real.astype(np.uint64), pointers.dtype)
            touched: list[Touch] = []
            if access.verb != "updates":  # an atomic races with no other
                touched = self._races.touches(addresses, span, None if mask is None else np.asarray(mask.data), nbytes)
            result = method(builder, *given[: access.pointers], handle, *given[access.pointers + 1 :], **named)
            if access.orders(given, named):
                self._races.note_order()
            for touch in touched:
                if access.values is None:
                    self._races.note_read(touch, builder.grid_idx, _line_at_hand())
                else:
                    values = np.broadcast_to(given[access.values].data, addresses.shape)
                    self._races.note_write(touch, as_bits(values), builder.grid_idx, _line_at_hand())
            return result

        return call

    def _real(
        self, builder: Any, given: IntArray, span: tuple[int, int], verb: str, mask: Any, nbytes: int
    ) -> IntArray:
        """Addresses in memory; those beside their tensor are noted, unless they are masked, and lead nowhere."""
        addresses = self._within_one(given, span, nbytes)
        if addresses is None:
            numbers, places = nearest_tensor(given)
            bounds = np.array([(0, 0), *((tensor.data_ptr(), tensor.nbytes) for _, tensor in self._tensors)])
            is_tensor = (numbers >= 0) & (numbers < len(self._tensors))
            first, room = np.moveaxis(bounds[np.where(is_tensor, numbers + 1, 0)], -1, 0)
            is_inside = (places >= 0) & (places + nbytes <= room)
            bad = ~is_inside & (True if mask is None else np.broadcast_to(mask.data, given.shape).astype(bool))
            if bad.any():
                self._note(builder, given[bad], verb, nbytes)
            addresses = np.where(is_inside, first + places, self._nowhere.ctypes.data)
        return addresses

    def _within_one(self, given: IntArray, span: tuple[int, int], nbytes: int) -> IntArray | None:
        """Addresses in memory, if all from the lowest to the highest lie in one tensor, as they mostly do."""
        low, high = span
        number = (low >> TENSOR_BITS) - 1
        if not 0 <= number < len(self._tensors):
            return None
        tensor, begin = self._tensors[number][1], tensor_address(number)
        return given + (tensor.data_ptr() - begin) if high + nbytes <= begin + tensor.nbytes else None

    def _note(self, builder: Any, outside: IntArray, verb: str, nbytes: int) -> None:
        """Notes accesses by addresses beside their tensors."""
        number, place = (int(each[0]) for each in nearest_tensor(outside[:1]))
        what = f"{verb} {nbytes} bytes at an address in no tensor"
        if 0 <= number < len(self._tensors):
            name, tensor = self._tensors[number]
            what = describe_outside(verb, nbytes, place, f"`{name}`", tensor.nbytes)
        program = ", ".join(map(str, builder.grid_idx))
        text = f"program ({program}) {what}"
        self.findings.add(Fault.OUT_OF_BOUNDS, _line_at_hand(), text, count=len(outside))


@cache
def _element_bytes(kind: Any) -> int:
    """Bytes of an element of one of Triton's types."""
    from triton.runtime import interpreter

    return int(interpreter._get_np_dtype(kind).itemsize)


@cache
def _library() -> tuple[str, str]:
    """How paths of files begin that are no kernel's: Triton's, and this one."""
    from triton.runtime import interpreter

    return str(Path(interpreter.__file__).parents[1]), __file__


def _line_at_hand() -> PtxSourceLine:
    """The line of the kernel that is interpreted, with those of the functions that it calls."""
    from triton.runtime import interpreter

    lines: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    outermost, library = interpreter.GridExecutor.__call__.__code__, _library()
    while frame is not None and frame.f_code is not outermost:
        if not frame.f_code.co_filename.startswith(library):
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    at: PtxSourceLine | None = None
    for file, line in reversed(lines):
        at = PtxSourceLine(file, line, at)
    return at or NO_LINE
