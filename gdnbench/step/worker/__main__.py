"""The worker process: `python -m gdnbench.step.worker TASK.json EVENTS_FD`."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from gdnbench.errors import GdnbenchError
from gdnbench.process.worker import die_with_parent
from gdnbench.step.plan import STEP_LIMIT_S, StepTask
from gdnbench.store.journal import EventChannel, Refused, StepBegun


def main(arguments: list[str]) -> int:
    """Does one task; returns 0, or 1 if the device or a library cannot be used."""
    die_with_parent()
    task, channel = StepTask.read(Path(arguments[0])), EventChannel(int(arguments[1]))
    channel.send(StepBegun("", "load torch", 2 * STEP_LIMIT_S))
    try:
        if task.cases:
            from gdnbench.step.worker.measure import measure_steps

            measure_steps(task, channel)
        else:
            from gdnbench.step.worker.launches import measure_launches

            measure_launches(task, channel)
    except GdnbenchError as error:
        channel.send(Refused(error.message, error.hint))
        return 1
    except Exception as error:
        traceback.print_exc()
        channel.send(Refused(f"{type(error).__name__}: {error}", "see `gdnbench doctor`"))
        return 1
    return 0


if __name__ == "__main__":
    ended = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ended)
