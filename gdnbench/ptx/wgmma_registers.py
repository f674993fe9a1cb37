"""Hazards of `wgmma` registers: which ones a product in flight may still use, and which need a fence before the next.

A product is in flight from its instruction until a `wgmma.wait_group` waits for the group that it was committed to.
Until then its sums may not be accessed, nor the registers of A be written. A `wgmma.fence` stands before the first
product, and between an access by another instruction and a product that takes the register; sums that go from one
product to the next of the same shape need none (PTX ISA, "wgmma.fence" and "wgmma.wait_group").

`mov` counts as no access, since the compiler uses it to name values where paths join; it copies the register's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gdnbench.ptx.barriers import Groups
from gdnbench.ptx.numbers import IntArray, Mask
from gdnbench.ptx.program import Fault, Operand, Program, PtxInstruction

if TYPE_CHECKING:
    from gdnbench.ptx.machine import Machine


@dataclass(frozen=True)
class _Use:
    """The last use of a register. Moves share its arrays, of shape (lanes,), which never change.

    `touched` is the step of the last access by another instruction than `wgmma`, 0 for never, and `issued` that of the
    last product, by instruction number `product`, that it was part of: as one of the sums, or else of A.
    """

    touched: IntArray
    issued: IntArray
    product: int = 0
    shape: str = ""
    is_sum: bool = True


class Flights:
    """The state of each lane's `wgmma` registers."""

    def __init__(self, machine: Machine) -> None:
        # Names of the registers of products, and of those that are moved to or from them
        self.tracked = _tracked(machine.program)
        self._machine, count = machine, len(machine.block)
        # Shape (lanes,), step of the last `wgmma.fence`
        self.groups, self.fenced = Groups(count), np.zeros(count, dtype=np.int64)
        self._never = np.zeros(count, dtype=np.int64)
        self._unused = _Use(self._never, self._never)
        self._uses: dict[str, _Use] = {}

    def access(self, instruction: PtxInstruction, reads: Sequence[str], writes: Sequence[str]) -> None:
        """Records and checks accesses to registers by an instruction that is neither `wgmma` nor `mov`."""
        lanes, now = self._machine.lanes, np.full(len(self._never), self._machine.ordering.now, dtype=np.int64)
        for name in reads:
            use = self._uses.get(name)
            if use is not None and use.is_sum:
                self._check_flight(instruction, lanes, use, "reads")
                self._uses[name] = self._joined(use, replace(use, touched=now), lanes)
        for name in writes:
            use = self._uses.get(name, self._unused)
            self._check_flight(instruction, lanes, use, "writes")
            self._uses[name] = self._joined(use, _Use(now, self._never), lanes)

    def move(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Copies the state of a moved register; a constant counts as never accessed."""
        known = [self._uses.get(name, self._unused) for name in sources]
        use = max(known, key=lambda each: each.product, default=self._unused)
        for name in targets:
            self._uses[name] = self._joined(self._uses.get(name, self._unused), use, self._machine.lanes)

    def check_product(
        self, instruction: PtxInstruction, sums: Iterable[Operand], a: Iterable[Operand], shape: str
    ) -> None:
        """Reports registers that a product may not use now."""
        lanes = self._machine.lanes
        bad = self.fenced[lanes] == 0
        if bad.any():
            self._note(instruction, lanes, bad, "begins the kernel's first product with no `wgmma.fence` before it")
        for operand in (*sums, *a):
            use = self._uses.get(operand.text)
            if use is None:
                continue
            bad = use.touched[lanes] > self.fenced[lanes]
            if use.is_sum and use.shape not in {"", shape}:
                self._check_flight(instruction, lanes, use, "takes")
                bad |= use.issued[lanes] > self.fenced[lanes]
            if bad.any():
                text = "multiplies with a register that was accessed since the last `wgmma.fence`"
                self._note(instruction, lanes, bad, text)
                return

    def begin_product(self, sums: Iterable[Operand], a: Iterable[Operand], shape: str) -> None:
        """Marks registers as used by the current instruction, a product in flight from now on."""
        issued = np.full(len(self._never), self._machine.ordering.now, dtype=np.int64)
        for operands, is_sum in ((sums, True), (a, False)):
            for operand in operands:
                use = self._uses.get(operand.text, self._unused)
                new = _Use(use.touched, issued, self._machine.step, shape, is_sum)
                self._uses[operand.text] = self._joined(use, new, self._machine.lanes)

    def _joined(self, old: _Use, new: _Use, lanes: IntArray) -> _Use:
        """Returns the new use in `lanes` and the old one in the others."""
        if len(lanes) == len(self._never):
            return new
        touched, issued = _replaced(old.touched, new.touched, lanes), _replaced(old.issued, new.issued, lanes)
        return replace(new if new.product else old, touched=touched, issued=issued)

    def _check_flight(self, instruction: PtxInstruction, lanes: IntArray, use: _Use, verb: str) -> None:
        bad = use.issued[lanes] > self.groups.done[lanes]
        if bad.any():
            what = "a sum" if use.is_sum else "a register of A"
            at = self._machine.program.instructions[use.product].at
            self._note(instruction, lanes, bad, f"{verb} {what} of the `wgmma` at {at} without waiting for it")

    def _note(self, instruction: PtxInstruction, lanes: IntArray, bad: Mask, text: str) -> None:
        self._machine.note(Fault.RACE, instruction, lanes[bad], text)


def _replaced(before: IntArray, after: IntArray, lanes: IntArray) -> IntArray:
    if before is after:
        return before
    merged = before.copy()
    merged[lanes] = after[lanes]
    return merged


def registers_of(instruction: PtxInstruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names that an instruction reads, and those that it writes, numbers and labels included."""
    flat = [tuple(_names(operand)) for operand in instruction.operands]
    if not flat or instruction.operands[0].is_address or instruction.name in _WITHOUT_TARGET:
        return tuple(name for names in flat for name in names), ()
    return tuple(name for names in flat[1:] for name in names), flat[0]


_WITHOUT_TARGET = frozenset({"st", "red", "bra", "brx", "bar", "barrier", "cp", "fence", "nanosleep", "wgmma"})


def _names(operand: Operand) -> Iterable[str]:
    if operand.parts:
        for part in operand.parts:
            yield from _names(part)
    else:
        yield operand.text


def is_product(instruction: PtxInstruction) -> bool:
    """Returns whether an instruction is a `wgmma.mma_async`."""
    return instruction.name == "wgmma" and instruction.has("mma_async")


def _tracked(program: Program) -> frozenset[str]:
    """Returns the registers of products, and all that moves link to them."""
    tracked = {
        name
        for instruction in program.instructions
        if is_product(instruction)
        for operand in instruction.operands[:2]
        for name in _names(operand)
        if operand.parts
    }
    if not tracked:
        return frozenset()
    moves = [registers_of(each) for each in program.instructions if each.name == "mov"]
    grows = True
    while grows:
        before = len(tracked)
        for sources, targets in moves:
            names = {name for name in (*sources, *targets) if name in program.registers}
            if not tracked.isdisjoint(names):
                tracked |= names
        grows = len(tracked) > before
    return frozenset(tracked)
