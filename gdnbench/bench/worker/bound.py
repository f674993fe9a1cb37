"""Every case of a task bound and warm: nothing compiles, loads or allocates once timing begins."""

from __future__ import annotations

from gdnbench.bench.events import Step
from gdnbench.bench.task import BUILD_STEPS, Task
from gdnbench.bench.worker.blame import Begin
from gdnbench.bench.worker.device import CudaDevice
from gdnbench.bench.worker.rotation import Rotation, make_copies
from gdnbench.bench.worker.workload import Workload
from gdnbench.launch import Workspace
from gdnbench.model import Shape


def bind_cases(task: Task, begin: Begin, device: CudaDevice) -> dict[str, Rotation]:
    """A rotation of each case by its id; cases of a shape share the copies of its tensors."""
    workload = Workload(task)
    copies: dict[Shape, list[Workspace]] = {}
    rotations = {}
    for case in task.cases:
        begin(Step(case.id, "bind", task.step_limit_s * BUILD_STEPS))
        if case.shape not in copies:
            workspace, _ = workload.get(case.shape, workload.scenarios[0])
            copies[case.shape] = [workspace] if task.plain else make_copies(workspace)
        rotations[case.id] = Rotation(workload, case, copies[case.shape])
        device.synchronize()
    return rotations
