"""Which loads look for what other threads tell: the flags of a kernel, where accesses without an order are no race.

A volatile load is a flag's where the end of a loop hangs on its value, for then a thread waits there, or stops early.
An atomic load, as `ld.relaxed` and `ld.acquire` are, is so where any decision hangs on it. All else that such accesses
touch is data, and `volatile` gives data no order.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.ptx.flights import registers_of
from gdnbench.ptx.program import Operand, Program
from gdnbench.ptx.segments import is_strong


def polling_loads(program: Program) -> frozenset[int]:
    """Numbers of the instructions, all copies of one among them that the compiler has made, as before a loop."""
    instructions = program.instructions
    loads = [step for step, each in enumerate(instructions) if each.name == "ld" and is_strong(each)]
    if not loads:
        return frozenset()
    loops, values = list(_loops(program)), _Values(program)
    same = {step: (instructions[step].at, values.of(instructions[step].operands[1])) for step in loads}
    polling = {same[step] for step in loads if _decides(program, step, loops)}
    return frozenset(step for step in loads if same[step] in polling)


_DEEPEST = 8  # instructions between an address and what it is told apart by


class _Values:
    """What operands are computed from, for those that are computed in the same way hold the same."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, int] = {}
        for step, each in enumerate(program.instructions):
            for name in registers_of(each)[1]:
                self._made[name] = -1 if name in self._made else step  # by paths that join: not the same everywhere

    def of(self, operand: Operand, depth: int = 0) -> tuple[object, ...]:
        """Equal only for operands that hold the same, as far as is known without running."""
        step = self._made.get(operand.text, -1)
        if step < 0 or depth == _DEEPEST:
            return (operand.text, operand.offset)
        made = self._program.instructions[step]
        return (made.opcode, operand.offset, *(self.of(each, depth + 1) for each in made.operands[1:]))


def _loops(program: Program) -> Iterator[tuple[int, int]]:
    """The first and the last instruction of each: one that branches back."""
    for step, each in enumerate(program.instructions):
        first = _target(program, step)
        if each.name == "bra" and first is not None and first <= step:
            yield first, step


def _target(program: Program, step: int) -> int | None:
    operands = program.instructions[step].operands
    return program.labels.get(operands[0].text) if operands else None


def _decides(program: Program, load: int, loops: list[tuple[int, int]]) -> bool:
    """Whether a loop's end hangs on a load's value; of an atomic load, whether anything does that is done or not."""
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
    """Registers whose value hangs on that of a load, by the instructions of a range, round which a loop may go."""
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
