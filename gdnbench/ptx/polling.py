"""Finds the loads of a kernel's flags, through which threads synchronise and where unordered accesses are no race.

A volatile load reads a flag if the end of a loop depends on its value: there a thread waits, or stops early. An atomic
load, such as `ld.relaxed` and `ld.acquire`, does so if any decision depends on it. All else that such accesses touch is
data, and `volatile` gives data no order.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.ptx.program import Operand, Program
from gdnbench.ptx.segments import is_strong
from gdnbench.ptx.wgmma_registers import registers_of


def polling_loads(program: Program) -> frozenset[int]:
    """Returns numbers of instructions that load flags, with all copies that the compiler made, as before a loop."""
    instructions = program.instructions
    loads = [step for step, each in enumerate(instructions) if each.name == "ld" and is_strong(each)]
    if not loads:
        return frozenset()
    loops, values = list(_loops(program)), _Values(program)
    same = {step: (instructions[step].at, values.of(instructions[step].operands[1])) for step in loads}
    polling = {same[step] for step in loads if _decides(program, step, loops)}
    return frozenset(step for step in loads if same[step] in polling)


_DEEPEST = 8  # instructions through which an address is followed to its origin


class _Values:
    """What operands are computed from: those computed in the same way hold the same value."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, int] = {}
        for step, each in enumerate(program.instructions):
            for name in registers_of(each)[1]:
                self._made[name] = -1 if name in self._made else step  # set twice: the value depends on the path

    def of(self, operand: Operand, depth: int = 0) -> tuple[object, ...]:
        """Returns a key that only operands share which are known, without running, to hold the same value."""
        step = self._made.get(operand.text, -1)
        if step < 0 or depth == _DEEPEST:
            return (operand.text, operand.offset)
        made = self._program.instructions[step]
        return (made.opcode, operand.offset, *(self.of(each, depth + 1) for each in made.operands[1:]))


def _loops(program: Program) -> Iterator[tuple[int, int]]:
    """Yields the first and last instruction of each loop, which a branch back makes."""
    for step, each in enumerate(program.instructions):
        first = _target(program, step)
        if each.name == "bra" and first is not None and first <= step:
            yield first, step


def _target(program: Program, step: int) -> int | None:
    operands = program.instructions[step].operands
    return program.labels.get(operands[0].text) if operands else None


def _decides(program: Program, load: int, loops: list[tuple[int, int]]) -> bool:
    """Returns whether a loop's end depends on a volatile load, or any guard on an atomic load."""
    if not program.instructions[load].has("volatile"):
        depends = _dependents(program, load, load, len(program.instructions) - 1)
        return any(each.guard is not None and each.guard.text in depends for each in program.instructions)
    return any(first <= load <= last and _ends_by(program, load, first, last) for first, last in loops)


def _ends_by(program: Program, load: int, first: int, last: int) -> bool:
    depends = _dependents(program, load, first, last)
    for step in range(first, last + 1):
        each, target = program.instructions[step], _target(program, step)
        leaves = step == last or target is None or not first <= target <= last
        if each.name in {"bra", "ret", "exit"} and leaves and each.guard is not None and each.guard.text in depends:
            return True
    return False


def _dependents(program: Program, load: int, first: int, last: int) -> set[str]:
    """Returns registers whose value depends on a load by way of a range of instructions, which may loop."""
    depends = set(registers_of(program.instructions[load])[1])
    before = 0
    while len(depends) > before:
        before = len(depends)
        for each in program.instructions[first : last + 1]:
            sources, targets = registers_of(each)
            guard = {each.guard.text} if each.guard is not None else set()
            if not depends.isdisjoint({*sources, *guard}):
                depends.update(name for name in targets if name in program.registers)
    return depends
