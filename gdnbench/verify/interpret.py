"""Checks Triton and CUDA kernels in interpreters, without a GPU; for Triton's the parent sets `TRITON_INTERPRET=1`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from torch import Tensor

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import NotInterpretedError, raised_at, tell_raised
from gdnbench.launch.bind import Launcher
from gdnbench.launch.interpret import InterpretedCuda, InterpretedRun, InterpretedTriton, interpreter_for
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case, Variant
from gdnbench.model.kernel import CudaKernel
from gdnbench.model.status import GateResult, InvarianceResult, Status
from gdnbench.store.journal import BUILD_STEPS, IMPORT_STEP, IMPORT_STEPS, EventChannel, Examined, StepBegun
from gdnbench.verify.check import Oracle, contest_error, launch_once, verify_kernel, verify_strided
from gdnbench.verify.invariance import InvarianceTest, claim_gates
from gdnbench.verify.pairs import InvariancePairs
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers.device import CpuDevice, TimeLimit
from gdnbench.workers.task import Task

T = TypeVar("T")

SLOWNESS = 10  # interpreters run in NumPy, Triton's a program at a time
HEEDED_S = 5.0  # seconds beyond the limit that the parent waits, for code that ignores signals
MOST_TOLD = 3  # findings named in a reason; the rest are counted


def interpret_all(task: Task, channel: EventChannel) -> None:
    """Verifies each case on its kinds of inputs, by default on all."""
    workspaces = Workspaces(task)
    pairs = InvariancePairs(workspaces, "interpreter")
    for case in task.cases:
        scenarios = task.scenarios.get(case.id, workspaces.kinds(case.workload))
        channel.send(_Interpretation(task, channel, workspaces, pairs, case).conduct(scenarios))


class _OverdueError(Exception):
    pass


class _Interpretation:
    def __init__(
        self, task: Task, channel: EventChannel, workspaces: Workspaces, pairs: InvariancePairs, case: Case
    ) -> None:
        self._task, self._channel, self._workspaces, self._pairs, self._case = task, channel, workspaces, pairs, case
        self._entry = workspaces.entry(case)
        self._interpreted: InterpretedCuda | InterpretedTriton
        self._watched = InterpretedRun((), ())
        self._contest_error: float | None = None

    def conduct(self, scenarios: Sequence[str]) -> Examined:
        """Verifies on each kind of inputs, and twice on the first if a launch leaves state in the module."""
        if reason := self._entry.kernel.unsupported_reason(self._case.workload):
            return Examined(self._case.id, Status.UNSUPPORTED, reason)
        gates: list[GateResult] = []
        notes: tuple[str, ...] = ()
        invariance: list[InvarianceResult] = []
        try:
            self._load()
            for scenario in scenarios:
                gates.extend(self._in_time(f"interpret {scenario}", partial(self._verify, scenario)))
                notes = notes or tuple(str(each) for each in self._watched.traffic if each.is_scattered)
                if scenario == scenarios[0] and self._watched.leaves_behind and _first_failed(gates) is None:
                    again = self._in_time(f"interpret {scenario}", partial(self._verify, scenario))
                    if failed := _first_failed(again):
                        reason = f"right at first, wrong when it is launched again: {failed.reason}"
                        return Examined(self._case.id, failed.status, reason, (*gates, failed), notes=notes)
            if _first_failed(gates) is None and self._entry.kernel.strided:
                gates.extend(self._in_time("interpret strided", partial(self._verify_strided, scenarios[0])))
            if _first_failed(gates) is None:
                invariance.extend(self._test_invariance())
                gates.extend(claim_gates(invariance, scenarios[0]))
        except NotInterpretedError as error:
            return Examined(self._case.id, Status.UNSUPPORTED, error.message)
        except _OverdueError as error:
            return Examined(self._case.id, Status.TIMED_OUT, str(error), tuple(gates))
        except Exception as error:
            return Examined(self._case.id, Status.FAILED, tell_raised(error, self._entry.folder), tuple(gates))
        failed = _first_failed(gates)
        status, reason = (failed.status, failed.reason) if failed else (Status.OK, "")
        return Examined(
            self._case.id,
            status,
            reason,
            tuple(gates),
            notes=notes,
            contest_error=self._contest_error,
            invariance=tuple(invariance),
        )

    def _test_invariance(self) -> Iterator[InvarianceResult]:
        invariance = InvarianceTest(self._case, self._workspaces, self._pairs, "interpreter", self._launch_times)
        for name, test in invariance.tests():
            yield self._in_time(f"interpret {name}", test)

    def _launch_times(
        self, entry: CatalogEntry, variant: Variant, workspace: Workspace, times: int
    ) -> Iterator[tuple[Tensor, ...]]:
        interpreted = interpreter_for(entry, variant, workspace.workload)

        def run() -> tuple[Tensor, ...]:
            interpreted.run(workspace, counts_traffic=False)
            return workspace.output_tensors

        for _ in range(times):
            yield launch_once(run, workspace, CpuDevice().synchronize, entry.kernel.in_place)

    def _load(self) -> None:
        if isinstance(self._entry.kernel, CudaKernel):
            self._step("compile", factor=BUILD_STEPS)
        else:
            self._step(IMPORT_STEP, factor=IMPORT_STEPS)
        self._interpreted = interpreter_for(self._entry, self._case.variant, self._case.workload)

    def _in_time(self, name: str, act: Callable[[], T]) -> T:
        """Does a step within the time limit; else raises _OverdueError with the line that was reached."""
        limit_s = self._task.step_limit_s * SLOWNESS
        self._channel.send(StepBegun(self._case.id, name, limit_s + HEEDED_S))
        limit = TimeLimit(limit_s)
        try:
            with limit:
                return act()
        except Exception as error:
            if not limit.is_over:
                raise
            place = raised_at(error, self._entry.folder)
            at = f"{place[0].name}:{place[1]}" if place else str(error)
            line = f", and was at {at} then" if at else ""
            raise _OverdueError(f"step `{name}` did not end within {limit_s:.0f} s{line}") from error

    def _verify(self, scenario: str) -> tuple[GateResult, ...]:
        workspace, expected = self._workspaces.get(self._case.workload, scenario)
        run, cpu = self._bind(workspace), CpuDevice()
        on_outputs = self._keep_contest_error if scenario == workspace.op.scenarios[0] else None
        gates = verify_kernel(
            self._entry.kernel, run, workspace, lambda: expected, scenario, cpu.synchronize, on_outputs
        )
        # First, since it mostly explains wrong numbers.
        return (self._watched_gate(scenario), *map(self._placed, gates))

    def _verify_strided(self, scenario: str) -> tuple[GateResult, ...]:
        workspace, expected = self._workspaces.get(self._case.workload, scenario)
        wait = CpuDevice().synchronize
        gates = verify_strided(self._entry.kernel, self._bind, workspace, lambda: expected, scenario, wait)
        return (self._watched_gate(f"{scenario}, strided"), *map(self._placed, gates))

    def _placed(self, gate: GateResult) -> GateResult:
        """Adds to a failed gate of an output the line that stored its worst element, where that is known."""
        index = [int(number) for number in gate.where.strip("[]").split(", ") if number.isdigit()]
        if gate.passed or not gate.wrong:
            return gate
        place = self._watched.place_of_stores(gate.gate.split()[0], index)
        return replace(gate, told="; ".join(filter(None, (gate.told, place))))

    def _keep_contest_error(self, outputs: Mapping[str, Tensor], expected: Oracle) -> None:
        self._contest_error = contest_error(outputs, expected)

    def _bind(self, workspace: Workspace) -> Launcher:
        interpreted, is_first = self._interpreted, not self._watched.traffic

        def run() -> tuple[Tensor, ...]:
            self._watched = interpreted.run(workspace, counts_traffic=is_first)
            return workspace.output_tensors

        return run

    def _watched_gate(self, scenario: str) -> GateResult:
        findings = self._watched.findings
        if not findings:
            return GateResult(self._interpreted.watches, scenario, 0.0, 0.0, "", Status.OK)
        more = [f"and {len(findings) - MOST_TOLD} more"] if len(findings) > MOST_TOLD else []
        reason = "; ".join([*map(str, findings[:MOST_TOLD]), *more])
        where = findings[0].at.place
        status = Status.UNSAFE
        return GateResult(self._interpreted.watches, scenario, float(len(findings)), 0.0, where, status, told=reason)

    def _step(self, name: str, *, factor: int = 1) -> None:
        self._channel.send(StepBegun(self._case.id, name, self._task.step_limit_s * factor))


def _first_failed(gates: Sequence[GateResult]) -> GateResult | None:
    return next((gate for gate in gates if not gate.passed), None)
