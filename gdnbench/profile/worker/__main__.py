"""The worker process: `python -m gdnbench.profile.worker TASK.json`."""

from __future__ import annotations

import sys
from pathlib import Path

from gdnbench.errors import GdnbenchError
from gdnbench.profile.process import Instrumentation, ProfileTask


def main(arguments: list[str]) -> int:
    """Runs one task; returns 0 on success, else prints the reason as the last line."""
    task = ProfileTask.read(Path(arguments[0]))
    try:
        _work(task)
    except GdnbenchError as error:
        print(error.message.partition("\n")[0])
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}".partition("\n")[0])
        return 1
    return 0


def _work(task: ProfileTask) -> None:
    from gdnbench.profile.worker.case import launch_in_ranges, launch_untouched, stamp_phases
    from gdnbench.profile.worker.proton import trace_scopes

    {
        Instrumentation.LAUNCH: launch_in_ranges,
        Instrumentation.PHASES: stamp_phases,
        Instrumentation.PROTON: trace_scopes,
        Instrumentation.NOTHING: launch_untouched,
    }[task.instrumentation](task)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
