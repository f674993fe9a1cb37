"""The worker that verifies: `python -m gdnbench.verify TASK.json EVENTS_FD`."""

from __future__ import annotations

from gdnbench.store.journal import EventChannel
from gdnbench.workers.task import Phase, Task, load_torch, run_worker


def verify(task: Task, channel: EventChannel) -> None:
    """Examines the task's cases, or interprets them."""
    channel.send(load_torch(task.device))
    if task.phase is Phase.INTERPRET:
        from gdnbench.verify.interpret import interpret_all

        interpret_all(task, channel)
    else:
        from gdnbench.verify.examine import examine_all

        examine_all(task, channel)


if __name__ == "__main__":
    run_worker(Task.take, verify)
