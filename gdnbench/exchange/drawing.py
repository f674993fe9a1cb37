"""Draws inputs of workloads in a subprocess, as an op's numerics import torch: `python -m … JOB.json`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gdnbench.errors import MachineError
from gdnbench.exchange.match import Match
from gdnbench.exchange.workloads import PlannedWorkload, blob_path
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.worker import python_path

_LIMIT_S = 600.0


def draw(
    match: Match, folder: Path, planned: Sequence[PlannedWorkload], stored: Sequence[str], to: Path
) -> dict[str, dict[str, float]]:
    """Draws each workload's typical inputs, writes the `stored` ones, and returns the scalars by uuid and name.

    Raises MachineError if the numerics fail.

    Args:
        folder: of the op's numerics.
        to: the root of the data set.
    """
    if not (stored or match.op.scalars):
        return {each.uuid: {} for each in planned}
    job = {
        "op_folder": str(folder),
        "stored": list(stored),
        "workloads": [
            {"uuid": each.uuid, "sizes": each.workload.sizes, "seed": each.number,
             "file": str(to / blob_path(match, each.uuid))}
            for each in planned
        ],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "job.json")
        path.write_text(json.dumps(job))
        done = run_tool(
            [*PYTHON, "-m", "gdnbench.exchange.drawing", str(path)],
            limit_s=_LIMIT_S,
            environment={"PYTHONPATH": python_path()},
        )
        if done.returncode:
            reason = (done.errors.strip().splitlines() or ["it ended without a word"])[-1]
            raise MachineError(f"the inputs of {match.op.name} cannot be drawn: {reason}", "see its numerics.py")
        answer: dict[str, dict[str, float]] = json.loads(path.with_name("scalars.json").read_text())
    return answer


def main(path: Path) -> None:
    """Runs a job, and writes `scalars.json` beside it."""
    from gdnbench.catalog.entry import Broken
    from gdnbench.catalog.load import load_op
    from gdnbench.launch.numerics import load_numerics

    job: Mapping[str, Any] = json.loads(path.read_text())
    folder = Path(job["op_folder"])
    loaded = load_op(folder)
    if isinstance(loaded, Broken):
        sys.exit(loaded.reason)
    numerics, op = load_numerics(loaded.op, folder), loaded.op
    found = {}
    for each in job["workloads"]:
        workload = op.workload(each["sizes"])
        tensors, scalars = numerics.make_inputs(workload, each["seed"], "cpu", op.scenarios[0])
        found[each["uuid"]] = {name: float(scalars[name]) for name in op.scalars}
        if job["stored"]:
            from safetensors.torch import save_file

            file = Path(each["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            save_file({name: tensors[name].contiguous() for name in job["stored"]}, file)
    path.with_name("scalars.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
