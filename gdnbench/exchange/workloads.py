"""Workloads of a suite as lines of a file: sizes of the variable axes, and how inputs come about."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.exchange.match import Match
from gdnbench.exchange.schema import Trace, TracedInput, TracedWorkload
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/flashinfer-ai/flashinfer-bench/gdnbench")
_MOST_REPEATS = 1000  # a weight beyond is no count
_MEANINGLESS = ("int32", "int64", "bool")  # of inputs: the format draws any number, and kernels index by them


@dataclass(frozen=True)
class PlannedWorkload:
    """A line to be.

    Attributes:
        workload: the op's.
        axes: values of the Definition's variable axes.
        number: its own among those of the same workload, the seed of its inputs.
        uuid: of the line; the same whenever the same is exported.
    """

    workload: Workload
    axes: Mapping[str, int]
    number: int
    uuid: str


def plan_workloads(match: Match, weights: Mapping[Workload, float]) -> list[PlannedWorkload]:
    """The lines for workloads with weights: a weight that is a whole number becomes as many lines.

    The format has no weights, and its score counts each line once.

    Args:
        match: the Definition; workloads that it does not cover are left out.
        weights: of each workload; if one is no whole number, each has one line.
    """
    counted = all(weight == int(weight) <= _MOST_REPEATS for weight in weights.values())
    planned = []
    for workload, weight in weights.items():
        axes = match.axes(workload)
        for number in range(int(weight) if counted else 1) if axes is not None else ():
            name = f"{match.definition.name}/{workload.key}/{number}"
            planned.append(PlannedWorkload(workload, axes or {}, number, str(uuid.uuid5(_NAMESPACE, name))))
    return planned


def drawn_inputs(op: Op, *, every: bool) -> list[str]:
    """The inputs that are stored, since numbers at random mean nothing there: indices and flags.

    Args:
        op: the op.
        every: whether all tensors are to be stored, as the op draws them.
    """
    return [spec.name for spec in op.inputs if every or spec.dtype in _MEANINGLESS]


def workload_traces(
    match: Match,
    planned: Sequence[PlannedWorkload],
    scalars: Mapping[str, Mapping[str, float]],
    stored: Sequence[str],
) -> list[Trace]:
    """The lines.

    Args:
        match: the Definition.
        planned: the workloads.
        scalars: values of the op's scalars, by uuid and name.
        stored: the inputs that lie in the file `blob_path` gives.
    """
    return [
        Trace(
            definition=match.definition.name,
            workload=TracedWorkload(
                axes=dict(each.axes),
                inputs={
                    name: _input(match, each, name, scalars[each.uuid], stored) for name in match.definition.inputs
                },
                uuid=each.uuid,
            ),
        )
        for each in planned
    ]


def _input(
    match: Match, planned: PlannedWorkload, name: str, scalars: Mapping[str, float], stored: Sequence[str]
) -> TracedInput:
    if name in scalars:
        return TracedInput(type="scalar", value=scalars[name])
    if name in stored:
        return TracedInput(type="safetensors", path=str(blob_path(match, planned.uuid)), tensor_key=name)
    return TracedInput(type="random")


def blob_path(match: Match, identifier: str) -> Path:
    """Where a workload's stored inputs lie in a data set."""
    definition = match.definition
    return Path("blob", "workloads", definition.op_type, definition.name, f"{definition.name}_{identifier}.safetensors")
