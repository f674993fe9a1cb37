"""An op at fixed compile-time axes as a Definition, its kernels as Solutions, and a suite as lines of workloads."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Broken, CatalogEntry
from gdnbench.catalog.load import load_op
from gdnbench.catalog.select import select_variants
from gdnbench.errors import MachineError, UsageError
from gdnbench.exchange import schema
from gdnbench.exchange.match import ExportedKernel, Match, match
from gdnbench.exchange.reference import write_reference
from gdnbench.exchange.solution import solution_of
from gdnbench.model.case import Variant
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone, ignore
from gdnbench.process.worker import python_path


@dataclass
class DataSet:
    """A data set that is written: its folder, its files in order, relative to that, and notes on them."""

    to: Path
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def write(self, name: Path, content: bytes) -> None:
        """Writes a file, and replaces one of that name; raises UsageError if it cannot be written."""
        path = self.to / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", "name a folder that is yours: --to DIR"
            ) from error
        self.files.append(name)


def export(
    catalog: Catalog,
    op_name: str,
    kernels: str,
    weights: Mapping[Workload, float],
    to: Path,
    foreign: schema.Definition | None,
    binding: schema.ExtensionBinding,
    author: str,
    observer: Observer = ignore,
) -> DataSet:
    """Writes a data set; replaces files of the same names.

    `kernels` are names, presets and globs as typed, empty for no Solution. `foreign` is a Definition of others, whose
    names and order of arguments count; `binding` is of kernels in CUDA C++.

    Raises UsageError if the format cannot hold the request, or the folder cannot be written; UnknownNameError for an
    unknown kernel; MachineError if the inputs cannot be drawn.
    """
    op, folder = catalog.ops[op_name], catalog.op_folders[op_name]
    variants = select_variants(catalog, op_name, kernels) if kernels else ()
    data = DataSet(to)
    groups: dict[tuple[int, ...], dict[Workload, float]] = {}  # by compile-time axes: each has a Definition of its own
    for workload, weight in weights.items():
        groups.setdefault(tuple(workload.compile_time.values()), {})[workload] = weight
    observer(PhaseBegun("write", len(groups)))
    for group in groups.values():
        observer(StepChanged(str(next(iter(group)))))
        definition = foreign or definition_of(op, folder, next(iter(group)))
        matched = match(op, definition)
        covered = {workload: weight for workload, weight in group.items() if matched.axes(workload) is not None}
        if covered:
            picked = [_picked(catalog, variant, list(covered), data) for variant in variants]
            subjects = [ExportedKernel(entry, variant, matched, list(covered)) for entry, variant in picked]
            solutions = [solution_of(subject, author, binding) for subject in subjects]
            kind, name = schema.safe_name(definition.op_type), schema.safe_name(definition.name)
            data.write(Path("definitions", kind, f"{name}.json"), schema.as_file(definition))
            for solution in solutions:
                data.write(
                    Path("solutions", kind, name, f"{schema.safe_name(solution.name)}.json"), schema.as_file(solution)
                )
            lines = new_lines(matched, folder, covered, to)
            data.write(Path("workloads", kind, f"{name}.jsonl"), schema.as_lines(lines))
        observer(UnitDone())
    if not data.files:
        raise UsageError(f"no workload is one of {definition.name}", "name its sizes with --shape")
    return data


def _picked(
    catalog: Catalog, variant: Variant, workloads: Sequence[Workload], data: DataSet
) -> tuple[CatalogEntry, Variant]:
    picks = {workload: catalog.at(variant, workload) for workload in workloads}
    first, (entry, picked) = next(iter(picks.items()))
    own = (picked.kernel, picked.params)
    others = [str(workload) for workload, (_, each) in picks.items() if (each.kernel, each.params) != own]
    if others:
        text = f"{variant.label} is exported as {picked.in_full}, as at {first}; at {', '.join(others)} it is another"
        data.notes.append(f"{text}: a Solution has one set of params")
    return entry, picked


def definition_of(op: Op, folder: Path, workload: Workload) -> schema.Definition:
    """An op's Definition at compile-time axes; UsageError if the format cannot hold it."""
    op, axes = op.at(workload.axes), _axes(op, workload)
    return schema.Definition(
        name="_".join([op.name, *(f"{name}{size}" for name, size in workload.compile_time.items())]),
        op_type=op.name,
        description=op.title or None,
        axes=axes,
        inputs={
            **{spec.name: _tensor(op, spec) for spec in op.inputs},
            **{name: schema.DefinedTensor(shape=None, dtype=schema.DTYPE_NAMES["fp32"]) for name in op.scalars},
        },
        outputs={spec.name: _tensor(op, spec) for spec in op.outputs},
        reference=write_reference(op, folder, [*(spec.name for spec in op.inputs), *op.scalars]),
    )


def _axes(op: Op, workload: Workload) -> dict[str, schema.DefinedAxis]:
    """Returns the axes of all tensors: compile-time ones and numbers are constant, derived sizes vary."""
    dims = {dim for spec in op.tensors for dim in spec.dims}
    of_inputs = {dim for spec in op.inputs for dim in spec.dims}
    axes: dict[str, schema.DefinedAxis] = {}
    for axis in op.workloads.axes:
        if axis.compile_time:
            axes[axis.name] = schema.DefinedAxis(
                type="const", value=workload.axes[axis.name], description=axis.doc or None
            )
        elif axis.name in dims:
            axes[axis.name] = schema.DefinedAxis(type="var", description=axis.doc or None)
    axes |= {name: schema.DefinedAxis(type="var") for name in op.derived if name in dims}
    numbers = sorted(dim for dim in dims if isinstance(dim, int))
    axes |= {_number(dim): schema.DefinedAxis(type="const", value=dim) for dim in numbers}
    for name, defined in axes.items():
        if defined.type == "var" and name not in of_inputs:
            raise UsageError(f"{op.name} has outputs of {name}, which no input tells", "the format cannot hold that")
    return axes


def _tensor(op: Op, spec: TensorSpec) -> schema.DefinedTensor:
    if spec.settled not in schema.DTYPE_NAMES:
        known = ", ".join(schema.DTYPE_NAMES)
        raise UsageError(f"{spec.name} of {op.name} is {spec.dtype}, which the format cannot hold", f"it has {known}")
    return schema.DefinedTensor(shape=[_number(dim) for dim in spec.dims], dtype=schema.DTYPE_NAMES[spec.settled])


def _number(dim: str | int) -> str:
    return dim if isinstance(dim, str) else f"size_{dim}"


_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/flashinfer-ai/flashinfer-bench/gdnbench")
_MOST_REPEATS = 1000  # a larger weight is not a count
_MEANINGLESS = ("int32", "int64", "bool")  # of inputs: the format draws any number, but kernels index with them
_LIMIT_S = 600.0


def new_lines(match: Match, folder: Path, weights: Mapping[Workload, float], to: Path) -> list[schema.Trace]:
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
        inputs = dict.fromkeys(definition.inputs, schema.TracedInput(type="random"))
        inputs |= {each: schema.TracedInput(type="safetensors", path=str(file), tensor_key=each) for each in stored}
        inputs |= {each: schema.TracedInput(type="scalar", value=value) for each, value in values.items()}
        traced = schema.TracedWorkload(axes=match.axes(workload) or {}, inputs=inputs, uuid=name)
        lines.append(schema.Trace(definition=definition.name, workload=traced))
    return lines


def _draw(op: Op, folder: Path, stored: Sequence[str], draws: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Draws typical inputs by the numerics in `folder`, and writes the `stored` ones; returns the scalars by name."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary, "job.json")
        path.write_text(json.dumps({"op_folder": str(folder), "stored": stored, "draws": draws}))
        command = [*PYTHON, "-m", "gdnbench.exchange.export", str(path)]
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
