"""Lines of workloads for an op's Definition, whose inputs are drawn in a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import load_op
from gdnbench.errors import MachineError
from gdnbench.exchange.match import Match
from gdnbench.exchange.schema import Trace, TracedInput, TracedWorkload
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.worker import python_path

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/flashinfer-ai/flashinfer-bench/gdnbench")
_MOST_REPEATS = 1000  # a larger weight is not a count
_MEANINGLESS = ("int32", "int64", "bool")  # of inputs: the format draws any number, but kernels index with them
_LIMIT_S = 600.0


def new_lines(match: Match, folder: Path, weights: Mapping[Workload, float], to: Path) -> list[Trace]:
    """Returns the lines of workloads, which the Definition covers; writes indices and flags to the data set `to`.

    There are as many lines of a workload as its weight, if all weights are integers, else one: the format has no
    weights, and its score counts each line once. Raises MachineError if the op's numerics, in `folder`, fail.
    """
    op, definition = match.op, match.definition
    is_counted = all(weight == int(weight) <= _MOST_REPEATS for weight in weights.values())
    repeats = {workload: int(weight) if is_counted else 1 for workload, weight in weights.items()}
    seeded = [(workload, seed) for workload, repeat in repeats.items() for seed in range(repeat)]
    names = [str(uuid.uuid5(_NAMESPACE, f"{definition.name}/{workload.key}/{seed}")) for workload, seed in seeded]
    blobs = Path("blob", "workloads", definition.op_type, definition.name)
    files = [blobs / f"{definition.name}_{name}.safetensors" for name in names]
    stored = [spec.name for spec in op.inputs if spec.dtype in _MEANINGLESS]
    # Without tensors to store, inputs are drawn for their scalars alone, once a workload.
    drawn = [each for each in zip(seeded, files, strict=True) if stored or (op.scalars and each[0][1] == 0)]
    draws = [{"sizes": workload.sizes, "seed": seed, "file": str(to / file)} for (workload, seed), file in drawn]
    answers = _draw(op, folder, stored, draws) if draws else []
    scalars = {key: values for (key, _), values in zip(drawn, answers, strict=True)}
    lines = []
    for (workload, seed), name, file in zip(seeded, names, files, strict=True):
        values = scalars.get((workload, seed if stored else 0), {})
        inputs = dict.fromkeys(definition.inputs, TracedInput(type="random"))
        inputs |= {each: TracedInput(type="safetensors", path=str(file), tensor_key=each) for each in stored}
        inputs |= {each: TracedInput(type="scalar", value=value) for each, value in values.items()}
        traced = TracedWorkload(axes=match.axes(workload) or {}, inputs=inputs, uuid=name)
        lines.append(Trace(definition=definition.name, workload=traced))
    return lines


def _draw(op: Op, folder: Path, stored: Sequence[str], draws: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Draws typical inputs by the numerics in `folder`, and writes the `stored` ones; returns the scalars by name."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "job.json")
        path.write_text(json.dumps({"op_folder": str(folder), "stored": stored, "draws": draws}))
        command = [*PYTHON, "-m", "gdnbench.exchange.workloads", str(path)]
        done = run_tool(command, limit_s=_LIMIT_S, environment={"PYTHONPATH": python_path()})
        if done.returncode:
            reason = (done.errors.strip().splitlines() or ["it ended without a word"])[-1]
            raise MachineError(f"the inputs of {op.name} cannot be drawn: {reason}", "see its numerics.py")
        answer: list[dict[str, float]] = json.loads(path.with_name("scalars.json").read_text())
    return answer


def main(path: Path) -> None:
    """Runs a job, and writes `scalars.json` beside it."""
    from gdnbench.launch.numerics import load_numerics

    job = json.loads(path.read_text())
    folder = Path(job["op_folder"])
    loaded = load_op(folder)
    if isinstance(loaded, Broken):
        sys.exit(loaded.reason)
    op = loaded.op
    numerics = load_numerics(op, folder)
    answer = []
    for draw in job["draws"]:
        tensors, scalars = numerics.make_inputs(op.workload(draw["sizes"]), draw["seed"], "cpu", op.scenarios[0])
        answer.append({name: float(scalars[name]) for name in op.scalars})
        if job["stored"]:
            from safetensors.torch import save_file

            file = Path(draw["file"])
            file.parent.mkdir(parents=True, exist_ok=True)
            save_file({name: tensors[name].contiguous() for name in job["stored"]}, file)
    path.with_name("scalars.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
