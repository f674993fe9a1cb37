"""Checks Triton kernels without a GPU, in Triton's interpreter; the parent sets `TRITON_INTERPRET=1`."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.errors import tell_raised
from gdnbench.launch.bind import bind_interpreted
from gdnbench.launch.numerics import load_file
from gdnbench.measuring.protocol import IMPORT_STEP, IMPORT_STEPS, EventChannel, Examined, StepBegun, Task
from gdnbench.measuring.worker.device import CpuDevice
from gdnbench.measuring.worker.placement import Workspaces
from gdnbench.model.case import Case
from gdnbench.model.status import GateResult, Status
from gdnbench.verify.check import verify_launcher

SLOWNESS = 10  # the interpreter runs a program at a time, in NumPy


def interpret_all(task: Task, channel: EventChannel) -> None:
    """Verifies each case on every kind of inputs; beyond the smallest batch on the first, for the time that it takes.

    What a larger batch can show is a wrong index, and that shows on any inputs.
    """
    workspaces = Workspaces(task)
    for case in task.cases:
        smallest = min(other.workload for other in task.cases if other.workload.series == case.workload.series)
        scenarios = workspaces.scenarios if case.workload == smallest else workspaces.scenarios[:1]
        channel.send(_Interpretation(task, channel, workspaces, case).conduct(scenarios))


class _Interpretation:
    """The verification of one case."""

    def __init__(self, task: Task, channel: EventChannel, workspaces: Workspaces, case: Case) -> None:
        self._task, self._channel, self._workspaces, self._case = task, channel, workspaces, case
        self._entry = workspaces.entry(case)

    def conduct(self, scenarios: Sequence[str]) -> Examined:
        gates: list[GateResult] = []
        try:
            self._step(IMPORT_STEP, factor=IMPORT_STEPS)
            load_file(self._entry.source)
            for scenario in scenarios:
                self._step(f"interpret {scenario}", factor=SLOWNESS)
                gates.extend(self._verify(scenario))
        except Exception as error:
            return Examined(self._case.id, Status.FAILED, tell_raised(error, self._entry.folder), tuple(gates))
        failed = next((gate for gate in gates if not gate.passed), None)
        status, reason = (failed.status, failed.reason) if failed else (Status.OK, "")
        return Examined(self._case.id, status, reason, tuple(gates))

    def _verify(self, scenario: str) -> tuple[GateResult, ...]:
        workspace, expected = self._workspaces.get(self._case.workload, scenario)
        run = bind_interpreted(self._entry, self._case.variant, workspace)
        in_place = self._entry.kernel.in_place
        return verify_launcher(run, workspace, expected, scenario, CpuDevice().synchronize, in_place)

    def _step(self, name: str, *, factor: int = 1) -> None:
        self._channel.send(StepBegun(self._case.id, name, self._task.step_limit_s * factor))
