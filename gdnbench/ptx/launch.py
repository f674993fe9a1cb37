"""Interprets a launch of a kernel, some blocks at a time, with the memory of its module's variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gdnbench.errors import DeclarationError
from gdnbench.ptx.control import execute
from gdnbench.ptx.machine import Machine
from gdnbench.ptx.program import (
    WARP,
    WIDTHS,
    Fault,
    FaultLog,
    LaunchGrid,
    LocatedFault,
    Operand,
    Program,
    PtxInstruction,
    Traffic,
    Variable,
)
from gdnbench.ptx.segments import Argument, MappedTensor, MemorySegment, SectorCounts, Tensor, tensor_address
from gdnbench.ptx.transfers import MAP_BYTES, map_bytes
from gdnbench.ptx.wgmma_registers import registers_of


class ModuleMemory:
    """A module's variables as launches left them: `segments` before a launch's tensors, and `addresses` by name."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        stored = [each for each in variables if each.space in {"global", "const"}]
        contents = (bytearray(each.content.ljust(each.nbytes, b"\0")) for each in stored)
        self.segments = tuple(
            MemorySegment(f"`{each.name}`", np.frombuffer(content, dtype=np.uint8), 1)
            for each, content in zip(stored, contents, strict=True)
        )
        self.addresses = {each.name: tensor_address(number) for number, each in enumerate(stored)}

    def content(self) -> bytes:
        """Returns the bytes of all variables."""
        return b"".join(each.data.tobytes() for each in self.segments)


def run_program(
    program: Program,
    grid: LaunchGrid,
    arguments: Sequence[Argument],
    *,
    lanes_at_once: int = 1 << 15,
    limit: int = 1_000_000,
    counts_traffic: bool = True,
    module: ModuleMemory | None = None,
) -> tuple[tuple[LocatedFault, ...], tuple[Traffic, ...]]:
    """Interprets a launch, changing its tensors in place; returns faults, and what loads and stores request of memory.

    Args:
        arguments: in the order of the kernel's parameters.
        lanes_at_once: threads that run side by side, which bounds the memory used.
        limit: instructions after which a part of the grid counts as endless.
        counts_traffic: whether to count sectors, which takes a sixth of the time.
        module: memory of the kernel's module as earlier launches left it; by default as loaded.

    Raises:
        NotInterpretedError: if something in the kernel is unknown.
        DeclarationError: if the grid does not fit the kernel.
        TimeoutError: if one is raised meanwhile, as by a signal; its message is the line that the kernel had come to.
    """
    findings = FaultLog()
    granules, polls = _granules(program), polling_loads(program)
    synchronises = program.has_strong_accesses("global")
    module = module or ModuleMemory(program.variables.values())
    tensors = _tensors(arguments)
    made = (MemorySegment.make(each, granules["global"], races=not synchronises) for each in tensors)
    segments = [*module.segments, *made]
    parameters = _parameters(program, arguments, tensors, first=len(module.segments))
    places = dict(module.addresses)
    for parameter in program.parameters:  # copies read a map at its parameter's address
        if parameter.nbytes == MAP_BYTES:
            places[parameter.name] = tensor_address(len(segments))
            content = np.frombuffer(parameters[parameter.name], dtype=np.uint8)
            segments.append(MemorySegment(f"the parameter `{parameter.name}`", content, 1))
    per_block = -(-grid.threads // WARP) * WARP
    cluster = program.cluster
    if grid.blocks[0] % cluster:
        text = f"{grid.blocks[0]} blocks make no whole clusters of {cluster}"
        raise DeclarationError(text, "see `grid` in variant.py")
    step = grid.count if synchronises else max(1, lanes_at_once // per_block // cluster) * cluster
    sectors, is_awaited = SectorCounts() if counts_traffic else None, False
    with np.errstate(all="ignore"):
        for first in range(0, grid.count, step):
            blocks = range(first, min(first + step, grid.count))
            machine = Machine(
                *(program, grid, parameters, segments, places, blocks, findings, granules["shared"], polls, sectors)
            )
            try:
                machine.run(execute, limit)
            except TimeoutError as error:
                raise TimeoutError(str(machine.instruction.at)) from error
            machine.memory.settle()
            if machine.tensor_memory.is_left():
                text = "a block ends and has not given back its columns of tensor memory"
                findings.add(Fault.BARRIER, program.instructions[-1].at, text)
            is_awaited |= machine.launches.are_awaited
    if grid.begins_early and not is_awaited:
        text = "the launch ends without a `griddepcontrol.wait`: those after it could begin before those in front end"
        findings.add(Fault.RACE, program.instructions[-1].at, text)
    return findings.all(), sectors.traffic(program.instructions) if sectors else ()


def _tensors(arguments: Sequence[Argument]) -> list[Tensor]:
    """Returns the tensors, each once, of which there may be maps, too."""
    tensors = (each.tensor if isinstance(each, MappedTensor) else each for each in arguments)
    return list({id(each): each for each in tensors if isinstance(each, Tensor)}.values())


def _parameters(
    program: Program, arguments: Sequence[Argument], tensors: Sequence[Tensor], *, first: int
) -> dict[str, bytes]:
    """Returns the bytes of each parameter by name; a tensor's are its address, with tensors numbered from `first`."""
    addresses = {id(each): tensor_address(number) for number, each in enumerate(tensors, first)}

    def content(given: Argument) -> bytes:
        if isinstance(given, MappedTensor):
            return map_bytes(given, addresses[id(given.tensor)])
        return addresses[id(given)].to_bytes(8, "little") if isinstance(given, Tensor) else given

    return {each.name: content(given) for each, given in zip(program.parameters, arguments, strict=True)}


def _granules(program: Program) -> dict[str, int]:
    """Returns bytes of the smallest access to each space; an access that names no space counts for all."""
    smallest = {"global": 16, "shared": 16}
    for instruction in program.instructions:
        if instruction.name in _ACCESSES and not instruction.has("param"):
            spaces = [space for space in smallest if any(word.startswith(space) for word in instruction.modifiers)]
            for space in spaces or smallest:
                smallest[space] = min(smallest[space], _access_bytes(instruction))
    return smallest


_ACCESSES = frozenset({"ld", "st", "atom", "red", "cp", "ldu", "mbarrier"})


def _access_bytes(instruction: PtxInstruction) -> int:
    if instruction.name == "mbarrier":
        return 8
    if instruction.name == "cp":
        sizes = [operand.text for operand in instruction.operands if operand.text in {"4", "8"}]
        return int(sizes[0]) if sizes else 16
    return WIDTHS[instruction.types[-1]] * instruction.vector if instruction.types else 1


def polling_loads(program: Program) -> frozenset[int]:
    """Returns numbers of instructions that load flags, with all copies that the compiler made, as before a loop."""
    instructions = program.instructions
    loads = [step for step, each in enumerate(instructions) if each.name == "ld" and each.is_strong]
    if not loads:
        return frozenset()
    loops, values = list(_loops(program)), _Values(instructions)
    same = {step: (instructions[step].at, values.of(instructions[step].operands[1])) for step in loads}
    polling = {same[step] for step in loads if _decides(program, step, loops)}
    return frozenset(step for step in loads if same[step] in polling)


_DEEPEST = 8  # instructions through which an address is followed to its origin


class _Values:
    """What operands are computed from: those computed in the same way hold the same value."""

    def __init__(self, instructions: Sequence[PtxInstruction]) -> None:
        self._instructions = instructions
        self._made: dict[str, int] = {}
        for step, each in enumerate(instructions):
            for name in registers_of(each)[1]:
                self._made[name] = -1 if name in self._made else step  # set twice: the value depends on the path

    def of(self, operand: Operand, depth: int = 0) -> tuple[object, ...]:
        """Returns a key that only operands share which are known, without running, to hold the same value."""
        step = self._made.get(operand.text, -1)
        if step < 0 or depth == _DEEPEST:
            return (operand.text, operand.offset)
        made = self._instructions[step]
        return (made.opcode, operand.offset, *(self.of(each, depth + 1) for each in made.operands[1:]))


def _loops(program: Program) -> Iterator[tuple[int, int]]:
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
