"""The worker that times steps: `python -m gdnbench.step.worker TASK.json EVENTS_FD`."""

from __future__ import annotations

from gdnbench.step.plan import StepTask
from gdnbench.store.journal import EventChannel
from gdnbench.workers.task import load_torch, run_worker


def measure(task: StepTask, channel: EventChannel) -> None:
    """Measures the chains of an op."""
    channel.send(load_torch(task.device))
    from gdnbench.step.worker.measure import measure_steps

    measure_steps(task, channel)


if __name__ == "__main__":
    run_worker(StepTask.read, measure)
