"""C6: a `__launch_bounds__` whose least number of blocks leaves too few registers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.arch import REGISTERS
from gdnbench.codegen.job import Job
from gdnbench.errors import GdnbenchError
from gdnbench.lint.cuda_evaluate import constant_value
from gdnbench.lint.cuda_source import closing
from gdnbench.lint.cuda_subject import CudaSubject
from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.launch_setting import LaunchSetting
from gdnbench.model.kernel import CudaKernel

_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_ARCHS = ("sm_90", "sm_100")
_MOST_REGISTERS = 255  # of a thread, whatever the bounds
_STEP = 8  # ptxas gives registers to threads in such steps


@dataclass(frozen=True)
class _Bounds:
    """The place of a `__launch_bounds__` in the text, its least number of blocks, and the function it is of."""

    begin: int
    blocks: str
    entry: str


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    kernel = subject.entry.kernel
    for bounds in _with_blocks(subject.source.text):
        settings = subject.settings.get(bounds.entry)
        if settings and isinstance(kernel, CudaKernel):
            blocks = constant_value(subject.source, subject.headers, bounds.blocks, settings[0])
            told = _spills(subject, bounds.entry, blocks, settings[0]) if blocks else ""
            if told:
                yield _place(subject, bounds.begin), told


def _spills(subject: CudaSubject, entry: str, blocks: int, setting: LaunchSetting) -> str:
    """What spills since so many blocks shall reside at once; empty where nothing does, or not for that."""
    left = REGISTERS // (blocks * max(setting.threads, 1)) // _STEP * _STEP
    if left > _MOST_REGISTERS:
        return ""
    workload = subject.entry.op.default
    variant = subject.entry.at(subject.variant, workload)
    jobs = [Job(subject.entry, variant, workload, arch, entry, disassembled=False) for arch in _ARCHS]
    for job, built in build_all(jobs).items():
        if not isinstance(built, GdnbenchError) and built.spill_bytes and left - _STEP < built.registers <= left:
            return (
                f"{blocks} blocks of {setting.threads} threads leave a thread {left} registers, and "
                f"{built.spill_bytes} bytes of a thread spill for {job.arch} at {workload}"
            )
    return ""


def _with_blocks(text: str) -> Iterator[_Bounds]:
    for found in _BOUNDS.finditer(text):
        end = closing(text, found.end() - 1)
        arguments = _split(text[found.end() : end - 1])
        named = re.match(r"\s*(\w+)\s*\(", text[end:])
        if len(arguments) > 1 and named:
            yield _Bounds(found.start(), arguments[1].strip(), named[1])


def _split(text: str) -> list[str]:
    """The arguments of a call, at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _place(subject: CudaSubject, begin: int) -> SourcePlace:
    before = subject.source.text[:begin]
    return SourcePlace(subject.source.path, before.count("\n") + 1, begin - before.rfind("\n"))


FORCED_SPILLS = LintRule(
    code="C6",
    name="forced-spills",
    language="cuda",
    bug="the second argument of __launch_bounds__ leaves a thread so few registers that the compiled kernel spills",
    remedy="ask for fewer blocks, or hold less in registers; `gdnbench inspect` shows both",
    check=_check,
)
