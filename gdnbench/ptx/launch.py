"""Interprets a launch of a kernel, some blocks at a time, with the memory of its module's variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from gdnbench.errors import DeclarationError
from gdnbench.ptx.control import execute
from gdnbench.ptx.findings import FaultLog, LocatedFault, Traffic
from gdnbench.ptx.grid import WARP, LaunchGrid
from gdnbench.ptx.machine import Machine
from gdnbench.ptx.program import WIDTHS, Program, PtxInstruction, PtxSourceLine, Variable
from gdnbench.ptx.segments import MemorySegment, Tensor, tensor_address


class ModuleMemory:
    """The `__device__` and `__constant__` variables of a module, as launches have left them.

    A launch has `segments` before its tensors, so that the variables keep their `addresses`, which go by name.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        kept = [each for each in variables if each.space in {"global", "const"}]
        self.segments = tuple(_segment(each) for each in kept)
        self.addresses = {each.name: tensor_address(number) for number, each in enumerate(kept)}

    def content(self) -> bytes:
        """Returns the bytes of all variables."""
        return b"".join(each.data.tobytes() for each in self.segments)


def _segment(variable: Variable) -> MemorySegment:
    data = np.frombuffer(variable.content.ljust(variable.nbytes, b"\0"), dtype=np.uint8).copy()
    return MemorySegment(f"`{variable.name}`", data, 1)


def run_program(
    program: Program,
    grid: LaunchGrid,
    arguments: Sequence[Tensor | bytes],
    *,
    lanes_at_once: int = 1 << 15,
    limit: int = 1_000_000,
    counts_traffic: bool = True,
    module: ModuleMemory | None = None,
) -> tuple[tuple[LocatedFault, ...], tuple[Traffic, ...]]:
    """Interprets a launch, changing its tensors in place; returns faults, and what loads and stores request of memory.

    Args:
        arguments: in the order of the kernel's parameters: a tensor's memory, or a value's bytes.
        lanes_at_once: threads that run side by side, which bounds the memory used.
        limit: instructions after which a part of the grid counts as endless.
        counts_traffic: whether to count sectors, which takes a sixth of the time.
        module: memory of the kernel's module as earlier launches left it; by default as loaded.

    Raises:
        NotInterpretedError: if something in the kernel is unknown.
        DeclarationError: if grid or arguments do not fit the kernel.
        TimeoutError: if one is raised meanwhile, as by a signal; its message is the line that the kernel had come to.
    """
    findings = FaultLog()
    watched = _granules(program)
    synchronises = _has_strong_accesses(program, "global")
    given = [each for each in arguments if isinstance(each, Tensor)]
    module = module or ModuleMemory(program.variables.values())
    tensors = (MemorySegment.make(each, watched["global"], races=not synchronises) for each in given)
    segments = [*module.segments, *tensors]
    parameters, places = _parameters(program, arguments, first=len(module.segments)), module.addresses
    per_block = -(-grid.threads // WARP) * WARP
    cluster = program.cluster
    if grid.blocks[0] % cluster:
        text = f"{grid.blocks[0]} blocks make no whole clusters of {cluster}"
        raise DeclarationError(text, "see `grid` in variant.py")
    step = grid.count if synchronises else max(1, lanes_at_once // per_block // cluster) * cluster
    traffic: dict[tuple[PtxSourceLine, str], Traffic] = {}
    with np.errstate(all="ignore"):
        for first in range(0, grid.count, step):
            blocks = range(first, min(first + step, grid.count))
            machine = Machine(program, grid, parameters, segments, places, blocks, findings, watched["shared"])
            machine.memory.counts_traffic = counts_traffic
            try:
                machine.run(execute, limit)
            except TimeoutError as error:
                raise TimeoutError(str(machine.instruction.at)) from error
            machine.memory.settle()
            for each in machine.memory.traffic():
                known = traffic.get((each.at, each.verb))
                traffic[each.at, each.verb] = _summed(known, each) if known else each
    return findings.all(), tuple(traffic.values())


def _parameters(program: Program, arguments: Sequence[Tensor | bytes], *, first: int) -> dict[str, bytes]:
    """Returns the bytes of each parameter by name; a tensor's are its address, with tensors numbered from `first`."""
    if len(program.parameters) != len(arguments):
        raise DeclarationError(
            f"{program.entry} takes {len(program.parameters)} parameters, and its launch gives {len(arguments)}",
            "see `arguments` of the launch in variant.py",
        )
    tensors = count(first)
    given = {}
    for parameter, argument in zip(program.parameters, arguments, strict=True):
        value = tensor_address(next(tensors)).to_bytes(8, "little") if isinstance(argument, Tensor) else argument
        if len(value) != parameter.nbytes:
            raise DeclarationError(f"{parameter.name} has {parameter.nbytes} bytes, and its launch gives {len(value)}")
        given[parameter.name] = value
    return given


def _summed(one: Traffic, other: Traffic) -> Traffic:
    return Traffic(
        one.at,
        one.verb,
        one.requests + other.requests,
        one.sectors + other.sectors,
        one.least_sectors + other.least_sectors,
    )


def _granules(program: Program) -> dict[str, int]:
    """Returns bytes of the smallest access to each space; an access that names no space counts for all."""
    found = {"global": 16, "shared": 16}
    for instruction in program.instructions:
        if instruction.name not in {"ld", "st", "atom", "red", "cp", "ldu", "mbarrier", "tensormap"} or instruction.has(
            "param"
        ):
            continue
        width = _access_bytes(instruction)
        spaces = [space for space in found if any(word.startswith(space) for word in instruction.modifiers)]
        for space in spaces or found:
            found[space] = min(found[space], width)
    return found


def _access_bytes(instruction: PtxInstruction) -> int:
    if instruction.name == "mbarrier":
        return 8
    if instruction.name == "cp":
        sizes = [operand.text for operand in instruction.operands if operand.text in {"4", "8"}]
        return int(sizes[0]) if sizes else 16
    if instruction.name == "tensormap" and not instruction.types:
        return 16
    return WIDTHS[instruction.types[-1]] * instruction.vector if instruction.types else 1


def _has_strong_accesses(program: Program, space: str) -> bool:
    """Returns whether threads may synchronise through a space: by atomics, or loads and stores that order others."""
    return any(
        instruction.name in {"atom", "red"} or instruction.has("volatile", "acquire", "release", "relaxed")
        for instruction in program.instructions
        if instruction.name in {"ld", "st", "atom", "red"} and _may_be_in(instruction, space)
    )


def _may_be_in(instruction: PtxInstruction, space: str) -> bool:
    spaces = {"global", "shared", "local", "param", "const", "shared__cta", "shared__cluster"}
    told = spaces.intersection(instruction.modifiers)
    return not told or space in {word.split("__")[0] for word in told}
