"""Source lines and live registers of each instruction of a cubin, from NVIDIA's `nvdisasm`.

Both follow from the cubin alone. Lines are there if the compiler was asked for them, as every build here asks it
(`lineinfo`, which changes no code). Live registers are from nvdisasm's data flow over the whole function: those that
hold a value which is still read, and those that the instruction writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gdnbench.codegen.cubin import cuobjdump
from gdnbench.errors import MachineError
from gdnbench.process.command import Completed, describe_exit, run_tool

_LIMIT_S = 60.0
_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+\S")
# With -gi, a line each from the innermost function outwards: `//## File "a.cuh", line 7 inlined at "b.cu", line 9`,
# then `//## File "b.cu", line 9`.
_SOURCE = re.compile(r'^\s*//## File "(.*?)", line (\d+)')
# `// |  12   |   1    |        |`: live registers, predicates and uniform registers; none is left blank.
_LIVE = re.compile(r"//\s+\|\s*(\d*)\s*\|")


@dataclass(frozen=True)
class SourceLine:
    """A line, from 1, of a source file, by the path that the compiler was given."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def read_source_lines(cubin: Path, symbol: str) -> Mapping[int, tuple[SourceLine, ...]]:
    """Returns the source lines of each instruction of a kernel, by its address; empty if the cubin has no lines.

    The innermost line comes first, then those from where its function was inlined. Raises MachineError if `nvdisasm` is
    absent or cannot read the cubin.
    """
    return parse_source_lines(_run(cubin, "-gi"), symbol)


def parse_source_lines(text: str, symbol: str) -> Mapping[int, tuple[SourceLine, ...]]:
    """Parses what `nvdisasm -gi` printed; returns as `read_source_lines`."""
    found: dict[int, tuple[SourceLine, ...]] = {}
    lines: tuple[SourceLine, ...] = ()
    fresh = False  # whether the lines belong to the next instruction
    for line in _section(text, symbol):
        if source := _SOURCE.match(line):
            lines = (*(lines if fresh else ()), SourceLine(source[1], int(source[2])))
            fresh = True
        elif instruction := _INSTRUCTION.match(line):
            fresh = False
            if lines:
                found[int(instruction[1], 16)] = lines
    return found


def read_live_registers(cubin: Path, symbol: str) -> Mapping[int, int]:
    """Returns how many registers of a thread are live at each instruction of a kernel, by its address.

    It is empty if nvdisasm does not follow the code: that of Triton for sm_90, whose ptxas is of an older CUDA. Raises
    MachineError if `nvdisasm` is absent.
    """
    done = _start(cubin, "-lrm", "count")
    return {} if done.returncode else parse_live_registers(done.output, symbol)


def parse_live_registers(text: str, symbol: str) -> Mapping[int, int]:
    """Parses what `nvdisasm -lrm count` printed; returns as `read_live_registers`."""
    found: dict[int, int] = {}
    for line in _section(text, symbol):
        instruction, live = _INSTRUCTION.match(line), _LIVE.search(line)
        if instruction and live:
            found[int(instruction[1], 16)] = int(live[1] or 0)
    return found


def _section(text: str, symbol: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] == f".text.{symbol}"
        if inside:
            yield line


def _run(cubin: Path, *options: str) -> str:
    done = _start(cubin, *options)
    if done.returncode:
        said = done.errors.strip() or describe_exit(done.returncode)
        raise MachineError(
            f"nvdisasm cannot read {cubin}: {said}", f"try by hand: {' '.join(_command(cubin, *options))}"
        )
    return done.output


def _start(cubin: Path, *options: str) -> Completed:
    command = _command(cubin, *options)
    try:
        return run_tool(command, limit_s=_LIMIT_S)
    except OSError as error:
        raise MachineError(f"nvdisasm failed: {error}", f"try by hand: {' '.join(command)}") from error


def _command(cubin: Path, *options: str) -> list[str]:
    # It ships beside cuobjdump, in the wheel of Triton and in CUDA's toolkit.
    return [str(cuobjdump().with_name("nvdisasm")), *options, "-c", str(cubin)]
