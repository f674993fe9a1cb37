"""Runs verified cases under compute-sanitizer's tools, and adds the findings to the verdicts."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.build import compile_ptx
from gdnbench.errors import MachineError, ProfilerTimedOutError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.status import GateResult, Status
from gdnbench.process.command import describe_exit
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.profile import process
from gdnbench.profile.sanitizer_report import SanitizerFinding, SanitizerReport, read_report
from gdnbench.store.journal import BUILD_STEPS, Examined, checked_event
from gdnbench.verify.preflight import Verification
from gdnbench.wording import plural

PROGRAM = "compute-sanitizer"
_HELP_LIMIT_S = 60.0
# More than are ever read; a kernel may have one per thread, each three lines of the log.
_MOST_REPORTS = "10000"
# Between allocations, so that an access beyond a tensor does not hit the next one.
_PADDING_BYTES = str(1 << 16)


class SanitizerTool(StrEnum):
    """The tools in the order in which they run: racecheck, the slowest, is last."""

    MEMCHECK = "memcheck"  # out of bounds, misaligned
    SYNCCHECK = "synccheck"  # barriers misused
    INITCHECK = "initcheck"  # reads of unwritten memory
    RACECHECK = "racecheck"  # races in shared memory


# Each is passed only if the program's --help lists it: versions differ.
_OPTIONS: tuple[tuple[str, str], ...] = (
    ("--print-limit", _MOST_REPORTS),
    ("--launch-timeout", "0"),  # importing torch takes longer than the default of ten seconds
    ("--target-processes", "application-only"),
    ("--show-backtrace", "device"),
    ("--strip-paths", "no"),
)
_OPTIONS_OF: dict[SanitizerTool, tuple[tuple[str, str], ...]] = {
    # Failing CUDA calls are not the kernel's fault: torch and Triton probe the driver with some.
    SanitizerTool.MEMCHECK: (("--padding", _PADDING_BYTES), ("--report-api-errors", "no")),
    SanitizerTool.SYNCCHECK: (),
    SanitizerTool.INITCHECK: (("--initcheck-address-space", "all"),),
    SanitizerTool.RACECHECK: (("--racecheck-report", "analysis"),),
}


@dataclass(frozen=True)
class Sanitizer:
    """An installed compute-sanitizer, and the options that its --help lists."""

    path: Path
    options: frozenset[str]

    def command(self, tool: SanitizerTool, log: Path) -> Sequence[str]:
        """Returns the command line of a tool, which the watched command follows; the tool writes to `log`."""
        wanted = (*_OPTIONS, *_OPTIONS_OF[tool])
        known = [word for option, value in wanted if option in self.options for word in (option, value)]
        return (str(self.path), "--tool", tool.value, "--log-file", str(log), *known)


def find_sanitizer(root: Path = Path("/")) -> Path | None:
    """Finds compute-sanitizer on the PATH, in `$CUDA_HOME/bin`, else in the newest toolkit in `usr` of `root`."""
    if not shutil.which(PROGRAM) and (home := os.environ.get("CUDA_HOME")):
        in_home = shutil.which(PROGRAM, path=str(Path(home) / "bin"))
        if in_home:
            return Path(in_home)
    return process.newest_installed(PROGRAM, root, f"usr/local/cuda*/bin/{PROGRAM}")


def need_sanitizer() -> Sanitizer:
    """Returns this machine's compute-sanitizer; raises MachineError if it is missing or does not run."""
    path = find_sanitizer()
    if path is None:
        raise MachineError(
            f"{PROGRAM} is neither on the PATH nor in $CUDA_HOME/bin and /usr/local/cuda*/bin",
            "it comes with the CUDA toolkit (https://developer.nvidia.com/cuda-downloads); "
            "add the folder that it is in to PATH",
        )
    said = process.run_command([str(path), "--help"], limit_s=_HELP_LIMIT_S)
    options = frozenset(re.findall(r"--[a-z][a-z-]+", said.output))
    if "--tool" not in options:
        raise MachineError(f"{path} does not run: {said.last_line or 'it says nothing'}", "reinstall the CUDA toolkit")
    return Sanitizer(path, options)


LIMIT_STEPS = BUILD_STEPS  # time limit of a tool in ordinary steps: it slows even the import of torch
MOST_TOLD = 3  # findings of a tool that a reason names; further ones are counted
_NEVER_LAUNCHED = {Status.MISSING, Status.BROKEN, Status.BUILD_FAILED, Status.UNSUPPORTED, Status.TAMPERS}
_OWN_ALLOCATIONS = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_NOT_OURS = f"{PROGRAM} was not run: it is reached through Python, and which kernels are its own is not known"


def need_sanitizer_on(gpu: str) -> Sanitizer:
    """Returns this machine's compute-sanitizer; raises GpuNotFoundError or MachineError if it or the GPU is missing."""
    instead = "leave --sanitize out: the interpreter of PTX then finds such faults (docs/interpreting.md)"
    process.choose_gpu(gpu, PROGRAM, instead)
    return need_sanitizer()


@dataclass(frozen=True)
class ToolVerdict:
    """A tool's verdict, a gate or a `failure`: status and reason; `notes` are warnings and others' errors."""

    gate: GateResult | None
    failure: tuple[Status, str] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SanitizerCheck:
    """Runs cases on one GPU; `limit_s` is the time limit of one tool for one case."""

    catalog: Catalog
    sanitizer: Sanitizer
    gpu: Gpu
    limit_s: float
    observer: Observer

    def add_to(self, verification: Verification) -> Verification:
        """Runs kernels at their smallest workload and adds verdicts; no answer fails a case that had passed."""
        checked = dict(verification.checked)
        ours = []
        for case in self._smallest(verification.cases):
            before = checked[case.id]
            if before.status in _NEVER_LAUNCHED:
                continue
            if self._own_kernels(case):
                ours.append(case)
            else:
                checked[case.id] = replace(before, notes=(*before.notes, _NOT_OURS))
        self.observer(PhaseBegun("sanitize", sum(len(_tools(checked[case.id])) for case in ours)))
        for case in ours:
            before = checked[case.id]
            checked[case.id] = self._judged(case, before, verification.seed)
            if before.status is Status.OK and checked[case.id].status is not Status.OK:
                self.observer(checked_event(case, checked[case.id]))
        return replace(verification, checked=checked, sanitized=frozenset(case.id for case in ours))

    def _smallest(self, cases: Iterable[Case]) -> list[Case]:
        by_variant: dict[tuple[str, str], list[Case]] = {}
        for case in cases:
            by_variant.setdefault((case.label, case.variant.in_full), []).append(case)
        return [
            min(alike, key=lambda case: self._entry(case).op.tensor_bytes(case.workload))
            for alike in by_variant.values()
        ]

    def _entry(self, case: Case) -> CatalogEntry:
        return self.catalog.entries[case.variant.kernel]

    def _own_kernels(self, case: Case) -> frozenset[str]:
        """Returns the functions that a case launches; none for a kernel behind Python, which declares no names."""
        kernel = self._entry(case).kernel
        if not isinstance(kernel, CudaKernel | TritonKernel):
            return frozenset()
        return frozenset(launch.entry for launch in kernel.launches)

    def _judged(self, case: Case, before: Examined, seed: int) -> Examined:
        verdicts = []
        for tool in _tools(before):
            self.observer(StepChanged(f"{case.label} {case.workload}: {tool}"))
            verdicts.append(self._run(tool, case, seed))
            self.observer(UnitDone())
        return _joined(before, verdicts)

    def _run(self, tool: SanitizerTool, case: Case, seed: int) -> ToolVerdict:
        with tempfile.TemporaryDirectory(prefix="gdnbench-sanitize-") as folder:
            log = Path(folder) / "log"
            failure = self._launch(tool, case, seed, log)
            text = log.read_text(errors="replace") if log.is_file() else ""
        return self._verdict(tool, case, read_report(text), failure)

    def _launch(self, tool: SanitizerTool, case: Case, seed: int, log: Path) -> tuple[Status, str] | None:
        launched = log.with_name("launched")
        assignment = process.make_assignment(
            self.catalog, case, process.Instrumentation.NOTHING, seed=seed, launches=1, result=str(launched)
        )
        wrapper = self.sanitizer.command(tool, log)
        try:
            ended = process.run_worker(
                assignment, self.gpu, limit_s=self.limit_s, wrapper=wrapper, environment=_OWN_ALLOCATIONS
            )
        except ProfilerTimedOutError:
            return Status.TIMED_OUT, f"{PROGRAM} {tool} did not end within {self.limit_s:.0f} s"
        if launched.is_file():
            return None
        end = ended.last_line or f"its process ended with {describe_exit(ended.returncode)}"
        return Status.CRASHED, f"under {PROGRAM} {tool}: {end}"

    def _verdict(
        self, tool: SanitizerTool, case: Case, report: SanitizerReport, failure: tuple[Status, str] | None
    ) -> ToolVerdict:
        entry, names = self._entry(case), self._own_kernels(case)
        own = [finding for finding in report.findings if finding.is_in(names, (entry.folder, entry.op_folder))]
        faults = [finding for finding in own if not finding.is_warning]
        notes = (*_warnings(tool, own, report), *_foreign(tool, report, own))
        scenario = entry.op.inputs_to_verify(case.workload)[0]
        if faults and tool is SanitizerTool.RACECHECK and self._has_mbarriers(case):
            return ToolVerdict(None, notes=(*notes, _undecided(case, faults)))
        if faults:
            return ToolVerdict(_gate(tool, scenario, faults), notes=notes)
        failure = failure or _unanswered(tool, report)
        return ToolVerdict(None if failure else _gate(tool, scenario, ()), failure, notes)

    def _has_mbarriers(self, case: Case) -> bool:
        """Whether a CUDA kernel orders accesses by mbarriers, which racecheck does not fully follow."""
        entry = self._entry(case)
        if not isinstance(entry.kernel, CudaKernel):
            return False
        made = compile_ptx(entry, case.variant.params, case.workload, self.gpu.arch)
        return any("mbarrier." in text for text, _ in made.values())


def _tools(verdict: Examined) -> tuple[SanitizerTool, ...]:
    return (SanitizerTool.SYNCCHECK,) if verdict.status is Status.TIMED_OUT else tuple(SanitizerTool)


def _joined(before: Examined, verdicts: Sequence[ToolVerdict]) -> Examined:
    gates = tuple(verdict.gate for verdict in verdicts if verdict.gate)
    unsafe = [gate.reason for gate in gates if not gate.passed]
    failures = [verdict.failure for verdict in verdicts if verdict.failure]
    status, reason = before.status, before.reason
    if unsafe:
        status, reason = Status.UNSAFE, "; ".join(unsafe)
    elif failures and status is Status.OK:
        status, reason = failures[0][0], "; ".join(reason for _, reason in failures)
    notes = (*before.notes, *(note for verdict in verdicts for note in verdict.notes))
    return replace(before, status=status, reason=reason, gates=(*before.gates, *gates), notes=notes)


def _gate(tool: SanitizerTool, scenario: str, faults: Sequence[SanitizerFinding]) -> GateResult:
    name = f"{PROGRAM} {tool}"
    if not faults:
        return GateResult(name, scenario, 0.0, 0.0, "", Status.OK)
    more = [f"and {len(faults) - MOST_TOLD} more"] if len(faults) > MOST_TOLD else []
    where = faults[0].place.partition(",")[0]
    reason = f"{tool}: {'; '.join([*map(str, faults[:MOST_TOLD]), *more])}"
    return GateResult(name, scenario, float(len(faults)), 0.0, where, Status.UNSAFE, told=reason)


def _undecided(case: Case, faults: Sequence[SanitizerFinding]) -> str:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return (
        f"racecheck: {faults[0]}{more} may be none: it does not follow every way of arriving at an mbarrier; the"
        f" interpreter of PTX does: gdnbench verify {case.label} --gpu cpu"
    )


def _unanswered(tool: SanitizerTool, report: SanitizerReport) -> tuple[Status, str] | None:
    said = next((remark for remark in report.remarks if remark.lower().startswith(("error", "internal"))), "")
    if report.errors is None or said:
        return Status.FAILED, f"{PROGRAM} {tool} came to no end: {said or 'its log has no summary'}"
    if report.errors > report.named_errors:
        known = f"{report.named_errors:,} of them" if report.named_errors else "none"
        return Status.FAILED, f"{PROGRAM} {tool} counts {plural(report.errors, 'error')}, and names {known}"
    return None


def _warnings(tool: SanitizerTool, own: Sequence[SanitizerFinding], report: SanitizerReport) -> list[str]:
    texts = [f"{tool} warns: {finding}" for finding in own if finding.is_warning]
    return texts + [f"{tool}: {remark}" for remark in report.remarks if remark.lower().startswith("warn")]


def _foreign(tool: SanitizerTool, report: SanitizerReport, own: Sequence[SanitizerFinding]) -> list[str]:
    others = [finding for finding in report.findings if finding not in own and not finding.is_warning]
    if not others:
        return []
    count = sum(finding.count for finding in others)
    return [f"{tool}: {plural(count, 'error')} in kernels that are not its own ({others[0].kernel}) do not count"]
