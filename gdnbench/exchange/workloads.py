"""Workloads of a suite as lines of a file: sizes of the variable axes, and the origin of each input."""

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
_MOST_REPEATS = 1000  # a larger weight is not a count
_MEANINGLESS = ("int32", "int64", "bool")  # of inputs: the format draws any number, but kernels index with them


@dataclass(frozen=True)
class PlannedWorkload:
    """A line to write.

    Attributes:
        axes: values of the Definition's variable axes.
        number: index among the lines of the same workload, the seed of its inputs.
        uuid: of the line; the same in each export.
    """

    workload: Workload
    axes: Mapping[str, int]
    number: int
    uuid: str


def plan_workloads(match: Match, weights: Mapping[Workload, float]) -> list[PlannedWorkload]:
    """Returns the lines for workloads with weights: as many as the weight, if all weights are integers, else one.

    The format has no weights, and its score counts each line once. Workloads that the Definition does not cover are
    left out.
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
    """Returns the inputs to store: indices and flags, as random ones mean nothing; with `every`, all tensors."""
    return [spec.name for spec in op.inputs if every or spec.dtype in _MEANINGLESS]


def workload_traces(
    match: Match,
    planned: Sequence[PlannedWorkload],
    scalars: Mapping[str, Mapping[str, float]],
    stored: Sequence[str],
) -> list[Trace]:
    """Returns the lines; `scalars` has values by uuid and name, `stored` the inputs in the file at `blob_path`."""
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
    """Returns the path of a workload's stored inputs in a data set."""
    definition = match.definition
    return Path("blob", "workloads", definition.op_type, definition.name, f"{definition.name}_{identifier}.safetensors")
