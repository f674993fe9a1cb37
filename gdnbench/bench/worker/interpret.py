"""Checks Triton kernels without a GPU, in Triton's interpreter; the parent sets `TRITON_INTERPRET=1`."""

from __future__ import annotations

from gdnbench.bench.events import Channel, Examined, Step
from gdnbench.bench.task import Task
from gdnbench.bench.worker.device import CpuDevice
from gdnbench.bench.worker.workload import Workload
from gdnbench.launch.interpret import bind_interpreted
from gdnbench.model import Case, GateResult, Status
from gdnbench.verify import verify_launcher

SLOWNESS = 10  # the interpreter runs a program at a time, in NumPy


def interpret_all(task: Task, channel: Channel) -> None:
    """Verifies each case on every kind of inputs."""
    workload = Workload(task)
    for case in task.cases:
        channel.send(Step(case.id, "interpret", task.step_limit_s * SLOWNESS))
        channel.send(_interpret(workload, case))


def _interpret(workload: Workload, case: Case) -> Examined:
    gates: list[GateResult] = []
    entry = workload.entry(case)
    try:
        for scenario in workload.scenarios:
            workspace, expected = workload.get(case.shape, scenario)
            run = bind_interpreted(entry, case.variant, workspace)
            synchronize, in_place = CpuDevice().synchronize, entry.kernel.in_place
            gates.extend(verify_launcher(run, workspace, expected, scenario, synchronize, in_place))
    except Exception as error:
        return Examined(case.id, Status.FAILED, f"{type(error).__name__}: {error}", tuple(gates))
    failed = next((gate for gate in gates if not gate.passed), None)
    if failed:
        return Examined(case.id, failed.status, failed.reason, tuple(gates))
    return Examined(case.id, Status.OK, gates=tuple(gates))
