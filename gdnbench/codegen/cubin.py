"""Reads cubins with NVIDIA's `cuobjdump` and `nvdisasm`: resources, disassembly, source lines.

Every build here has source lines (`lineinfo`, which changes no code).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

from gdnbench.codegen.arch import RESERVED_SHARED, capability
from gdnbench.errors import MachineError
from gdnbench.model.gpu import NO_CLUSTER
from gdnbench.process.command import Completed, describe_exit, run_tool
from gdnbench.ptx.program import SourceLine

_LIMIT_S = 60.0
# From Hopper on ptxas counts what the system reserves of shared memory in each kernel that uses any, whose choice it
# is not (CUDA programming guide, "Shared memory" of compute capability 9.0).
_RESERVED_IS_COUNTED_SINCE = 90
# What `cuobjdump -elf` prints of `.reqntid`, `.maxntid` and `.reqnctapercluster` of the PTX: sizes along x, y and z.
# Triton's kernels have the first, and with specialised warps it is more than 32 times the requested warps.
_SIZES = re.compile(
    r"EIATTR_(REQNTID|MAX_THREADS|CTA_PER_CLUSTER)\s+Format:\s*\w+\s+Value:\s*(0x\w+)\s+(0x\w+)\s+(0x\w+)"
)


@cache
def cuobjdump() -> Path:
    """Returns the path of `cuobjdump`, in the triton wheel or on `PATH`; raises MachineError if it is in neither."""
    # find_spec locates triton without running it; loading it takes half a second.
    spec = find_spec("triton")
    folders = [] if spec is None else (spec.submodule_search_locations or [])
    bundled = [Path(folder) / "backends/nvidia/bin/cuobjdump" for folder in folders]
    on_path = shutil.which("cuobjdump")
    paths = [path for path in bundled if path.is_file()] or ([Path(on_path)] if on_path else [])
    if not paths:
        raise MachineError("there is no cuobjdump to read cubins with", "pip install triton, whose wheel carries it")
    return paths[0]


_IF_NEWER = "where NVRTC is newer than it: pip install 'nvidia-cuda-nvrtc<13.2'"


def run_cuobjdump(cubin: Path, *options: str) -> str:
    """Returns what `cuobjdump` prints of a cubin; raises MachineError if it is absent, or cannot read the cubin."""
    return _run(cuobjdump(), *options, str(cubin)).output


def _run(tool: Path, *options: str) -> Completed:
    """Runs a tool on a cubin, the last of its options; raises MachineError if it does not run, or fails."""
    command = [str(tool), *options]
    hint = f"try by hand: {' '.join(command)}"
    try:
        done = run_tool(command, limit_s=_LIMIT_S)
    except OSError as error:
        raise MachineError(f"{tool.name} failed: {error}", hint) from error
    if done.returncode:
        reason = done.errors.strip() or describe_exit(done.returncode)
        raise MachineError(f"{tool.name} cannot read {options[-1]}: {reason}", f"{_IF_NEWER}; {hint}")
    return done


def disassemble(cubin: Path, symbol: str) -> str:
    """Returns the SASS of a kernel with the functions that it calls, stored with the cubin; raises MachineError."""
    # A cached cubin is named by its content, so SASS beside it cannot be of another.
    stored = cubin.with_suffix(f".{hashlib.sha256(symbol.encode()).hexdigest()[:8]}.sass")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return stored.read_text(encoding="utf-8")
    sass = run_cuobjdump(cubin, "-sass", "-fun", symbol)
    with contextlib.suppress(OSError):  # a read-only cache costs time, and nothing else
        with tempfile.NamedTemporaryFile("w", dir=stored.parent, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(sass)
        Path(file.name).rename(stored)
    return sass


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel: registers, stack frame and further local memory per thread, the rest per block."""

    registers: int
    shared_bytes: int  # static, without what the system reserves
    stack_bytes: int
    local_bytes: int
    required_threads: int = 0  # this and what follows as in `Build`
    most_threads: int = 0
    cluster: tuple[int, int, int] = NO_CLUSTER

    @property
    def spill_bytes(self) -> int:
        """Local memory per thread in bytes: an upper bound on what is spilled, and 0 only if nothing is.

        The cubin does not distinguish spilled registers from arrays that the source indexes dynamically. Both cause
        traffic to local memory and have the same remedy: less state per thread.
        """
        return self.stack_bytes + self.local_bytes


def read_resources(cubin: Path, symbol: str, arch: str) -> Resources:
    """Returns the resources of the kernel with the mangled name `symbol`, built for `arch`, or raises MachineError."""
    return parse_resources(run_cuobjdump(cubin, "-res-usage", "-elf"), symbol, arch)


def parse_resources(text: str, symbol: str, arch: str) -> Resources:
    """Returns a kernel's resources from what `cuobjdump -res-usage -elf` printed; MachineError if it lacks them."""
    usage = re.search(rf"Function {re.escape(symbol)}:\s*\n(.*)", text)
    counts = {name: int(count) for name, count in re.findall(r"(\w+):(\d+)", usage[1])} if usage else {}
    missing = {"REG", "SHARED", "STACK", "LOCAL"} - counts.keys()
    if missing:
        raise MachineError(f"cuobjdump -res-usage does not tell {', '.join(sorted(missing))} of {symbol}")
    reserved = RESERVED_SHARED if capability(arch) >= _RESERVED_IS_COUNTED_SINCE else 0
    sizes = _sizes(text, symbol)
    return Resources(
        registers=counts["REG"],
        shared_bytes=max(0, counts["SHARED"] - reserved),
        stack_bytes=counts["STACK"],
        local_bytes=counts["LOCAL"],
        required_threads=prod(sizes.get("REQNTID", (0,))),
        most_threads=prod(sizes.get("MAX_THREADS", (0,))),
        cluster=sizes.get("CTA_PER_CLUSTER", NO_CLUSTER),
    )


def _sizes(text: str, symbol: str) -> dict[str, tuple[int, int, int]]:
    section = re.search(rf"^\.nv\.info\.{re.escape(symbol)}\n(.*?)(?=^\.|\Z)", text, re.MULTILINE | re.DOTALL)
    sizes = _SIZES.findall(section[1]) if section else []
    return {name: (int(x, 16), int(y, 16), int(z, 16)) for name, x, y, z in sizes}


_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+\S")
# With -gi, a line each from the innermost function outwards: `//## File "a.cuh", line 7 inlined at "b.cu", line 9`,
# then `//## File "b.cu", line 9`.
_SOURCE = re.compile(r'^\s*//## File "(.*?)", line (\d+)')


def read_source_lines(cubin: Path, symbol: str) -> Mapping[int, tuple[SourceLine, ...]]:
    """Returns the source lines of each instruction of a kernel, by its address; empty if the cubin has no lines.

    The innermost line comes first, then those from where its function was inlined. Raises MachineError if `nvdisasm` is
    absent or cannot read the cubin.
    """
    nvdisasm = cuobjdump().with_name("nvdisasm")  # in the wheel of Triton and in CUDA's toolkit
    return parse_source_lines(_run(nvdisasm, "-gi", "-c", str(cubin)).output, symbol)


def parse_source_lines(text: str, symbol: str) -> Mapping[int, tuple[SourceLine, ...]]:
    """Parses what `nvdisasm -gi` printed; returns as `read_source_lines`."""
    by_address: dict[int, tuple[SourceLine, ...]] = {}
    lines: tuple[SourceLine, ...] = ()
    fresh = False  # whether the lines belong to the next instruction
    for line in _section(text, symbol):
        if source := _SOURCE.match(line):
            lines = (*(lines if fresh else ()), SourceLine(source[1], int(source[2])))
            fresh = True
        elif instruction := _INSTRUCTION.match(line):
            fresh = False
            if lines:
                by_address[int(instruction[1], 16)] = lines
    return by_address


def _section(text: str, symbol: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] == f".text.{symbol}"
        if inside:
            yield line
