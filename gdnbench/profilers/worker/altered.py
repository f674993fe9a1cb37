"""Holds a kernel that a profiler altered against the oracle: what it adds must change no number."""

from __future__ import annotations

import torch

from gdnbench.errors import ProfilerError
from gdnbench.launch import Launcher, load_numerics
from gdnbench.profilers.worker.stage import Stage
from gdnbench.verify import verify_launcher


def check_altered(run: Launcher, stage: Stage, altered: str) -> None:
    """Verifies a launcher of the stage's first placement.

    Args:
        run: launches the altered kernel.
        stage: what it is bound to.
        altered: what was done to it, `stamped`, as the error says.

    Raises:
        ProfilerError: if its numbers are wrong.
    """
    entry, workspace = stage.entry, stage.workspace
    expected = load_numerics(entry.op, entry.op_folder).oracle(workspace.inputs, workspace.scalars)
    scenario, in_place = entry.op.scenarios[0], entry.kernel.in_place
    gates = verify_launcher(run, workspace, expected, scenario, torch.cuda.synchronize, in_place)
    if failed := [gate for gate in gates if not gate.passed]:
        raise ProfilerError(f"the {altered} kernel's numbers are wrong: {failed[0].reason}")
