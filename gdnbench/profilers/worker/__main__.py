"""The worker process: `python -m gdnbench.profilers.worker ASSIGNMENT.json`."""

from __future__ import annotations

import sys
from pathlib import Path

from gdnbench.errors import GdnbenchError
from gdnbench.profilers.assignment import Assignment, Errand


def main(arguments: list[str]) -> int:
    """Does one assignment; 0 if it succeeds, and the last line printed says why not."""
    assignment = Assignment.read(Path(arguments[0]))
    try:
        _work(assignment)
    except GdnbenchError as error:
        print(error.message.partition("\n")[0])
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}".partition("\n")[0])
        return 1
    return 0


def _work(assignment: Assignment) -> None:
    match assignment.errand:
        case Errand.LAUNCH:
            from gdnbench.profilers.worker.bare import launch_bare

            launch_bare(assignment)
        case Errand.PHASES:
            from gdnbench.profilers.worker.phases import stamp_phases

            stamp_phases(assignment)
        case Errand.PROTON:
            from gdnbench.profilers.worker.proton import trace_scopes

            trace_scopes(assignment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
