"""The worker that verifies: `python -m gdnbench.verify TASK.json EVENTS_FD`."""

from __future__ import annotations

from importlib import import_module

from gdnbench.store.journal import EventChannel
from gdnbench.workers.task import Phase, Task, await_task, load_torch, run_worker


def verify(task: Task, channel: EventChannel) -> None:
    """Examines the task's cases, interprets them, follows them along sequences, or replays its program."""
    task = await_task(task, channel, lambda _task: import_module("gdnbench.verify.examine"))
    channel.send(load_torch(task.device))
    if task.marks:
        from gdnbench.verify.follow import follow_all

        follow_all(task, channel)
    elif task.phase is Phase.INTERPRET:
        from gdnbench.verify.interpret import interpret_all

        interpret_all(task, channel)
    elif task.phase is Phase.REPLAY:
        from gdnbench.verify.replay import replay_task

        replay_task(task, channel)
    else:
        from gdnbench.verify.examine import examine_all

        examine_all(task, channel)


if __name__ == "__main__":
    run_worker(Task.take, verify)
