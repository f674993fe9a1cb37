"""C6: a `__launch_bounds__` whose minimum number of blocks leaves too few registers."""

from __future__ import annotations

from collections.abc import Iterator

from gdnbench.codegen.ahead import Job, build_all
from gdnbench.codegen.arch import DEFAULT_ARCHS, REGISTERS
from gdnbench.errors import GdnbenchError
from gdnbench.lint.cuda_subject import CudaSubject, find_heads, numbers_of, place_of
from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.settings import LaunchSetting

_MOST_REGISTERS = 255  # limit per thread
_STEP = 8  # ptxas allocates registers in such steps


def _check(subject: CudaSubject) -> Iterator[tuple[SourcePlace, str]]:
    for entry, settings in subject.settings.items():
        for head in find_heads(subject.source, entry):
            bounds = head.attribute("__launch_bounds__")
            if settings and bounds and len(bounds[1]) > 1:
                blocks = numbers_of(subject, bounds[1], settings[0])[1]
                told = _spills(subject, entry, blocks, settings[0]) if blocks else ""
                if told:
                    yield place_of(subject.source, bounds[0]), told


def _spills(subject: CudaSubject, entry: str, blocks: int, setting: LaunchSetting) -> str:
    """Describes spills that the number of resident blocks forces; empty if there are none, or for another reason."""
    left = REGISTERS // (blocks * max(setting.threads, 1)) // _STEP * _STEP
    if left > _MOST_REGISTERS:
        return ""
    workload = subject.entry.op.default
    variant = subject.entry.at(subject.variant, workload)
    jobs = [Job(subject.entry, variant, workload, arch, entry, disassembled=False) for arch in DEFAULT_ARCHS]
    for job, built in build_all(jobs).items():
        if not isinstance(built, GdnbenchError) and built.spill_bytes and left - _STEP < built.registers <= left:
            return (
                f"{blocks} blocks of {setting.threads} threads leave a thread {left} registers, and "
                f"{built.spill_bytes} bytes of a thread spill for {job.arch} at {workload}"
            )
    return ""


FORCED_SPILLS = LintRule(
    code="C6",
    name="forced-spills",
    language="cuda",
    bug="the second argument of __launch_bounds__ leaves a thread so few registers that the compiled kernel spills",
    remedy="ask for fewer blocks, or hold less in registers; `gdnbench inspect` shows both",
    check=_check,
)
