"""Runs a kernel once on known inputs and passes what it wrote through every gate of its op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch import TORCH_DTYPES, Launcher, Numerics, Workspace
from gdnbench.launch.workspace import is_poison
from gdnbench.model.kernel import NOTHING_IN_PLACE, Kernel
from gdnbench.model.op import ExactGate, Gate, Op, RmsGate, RoundoffGate, UlpGate
from gdnbench.model.status import GateResult, Status
from gdnbench.verify.gates import (
    copied_gate,
    differs,
    exact_gate,
    is_unequal,
    relative_rms,
    rms_gate,
    roundoff_error,
    roundoff_gate,
    ulp_error,
    ulp_gate,
    unchanged_gate,
    written_gate,
)

_HOW_TO = "docs/verifying.md says how to write it"


@dataclass(frozen=True)
class Oracle:
    """What a kernel should write, and how near fp32, or what arithmetic the op's gates name, can come to it.

    Attributes:
        outputs: by name, in float64; integers as they are.
        roundoff: by name, of the outputs that a `RoundoffGate` holds: its size in unit roundoffs, of the output's
            sizes or broadcast to them.
    """

    outputs: dict[str, torch.Tensor]
    roundoff: dict[str, torch.Tensor] = field(default_factory=dict)


OnOutputs = Callable[[Mapping[str, torch.Tensor], Oracle], None]
"""Sees what a kernel wrote, by name, and what it should have written."""


def consult_oracle(workspace: Workspace, numerics: Numerics) -> Oracle:
    """What the op's numerics expect of a kernel on a workspace's inputs.

    Raises:
        DeclarationError: if the numerics lack `roundoff` where a gate needs it, or its sizes are not those of outputs,
            or one is negative, infinite or NaN, which would pass anything.
    """
    outputs = _ask(numerics.oracle, workspace)
    op, file = workspace.op, workspace.op.numerics
    gated = [gate.tensor for gate in op.gates if isinstance(gate, RoundoffGate)]
    if not gated:
        return Oracle(outputs)
    if not callable(getattr(numerics, "roundoff", None)):
        raise DeclarationError(f"{file} of {op.name} must define roundoff(), for the gate on {gated[0]}", _HOW_TO)
    sizes = _ask(numerics.roundoff, workspace)
    if missing := [name for name in gated if name not in sizes]:
        raise DeclarationError(
            f"roundoff() in {file} of {op.name} gives {', '.join(sizes)}, and no {missing[0]}", _HOW_TO
        )
    return Oracle(outputs, {name: _checked_size(op, name, sizes[name], outputs[name]) for name in gated})


def _ask(function: Callable[..., dict[str, torch.Tensor]], workspace: Workspace) -> dict[str, torch.Tensor]:
    """What an oracle or a roundoff says; one that takes `workload` is told it, where inputs do not tell all of it."""
    more = {"workload": workspace.workload} if "workload" in signature(function).parameters else {}
    return function(workspace.inputs, workspace.scalars, **more)


def _checked_size(op: Op, name: str, size: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    told = f"roundoff() in {op.numerics} of {op.name}: {name}"
    if not _broadcasts(size.shape, output.shape):
        raise DeclarationError(
            f"{told} is {tuple(size.shape)}, which does not broadcast to {tuple(output.shape)}", _HOW_TO
        )
    if size.numel() and not (size.min() >= 0 and size.max() < torch.inf):  # false for NaN, too
        raise DeclarationError(f"{told} has elements that are negative, infinite or NaN", _HOW_TO)
    return size


def _broadcasts(sizes: torch.Size, target: torch.Size) -> bool:
    from_last = zip(reversed(sizes), reversed(target), strict=False)
    return len(sizes) <= len(target) and all(size in {1, wanted} for size, wanted in from_last)


def verify_launcher(
    run: Launcher,
    workspace: Workspace,
    expected: Oracle,
    scenario: str,
    synchronize: Callable[[], None],
    in_place: Mapping[str, str] = NOTHING_IN_PLACE,
) -> tuple[GateResult, ...]:
    """Launches once on poisoned outputs and checks outputs and inputs.

    Args:
        run: bound to the workspace.
        workspace: inputs and outputs.
        expected: of the workspace's inputs.
        scenario: the kind of inputs, for the record.
        synchronize: waits for the device.
        in_place: what the kernel updates in place, as declared; that is not poisoned, and its oracle tells an update.

    Raises:
        DeclarationError: if `run` returns something else than the op's outputs.
    """
    outputs = _launch(run, workspace, synchronize, in_place)
    return check_all(workspace, outputs, expected, scenario)


def _launch(
    run: Launcher, workspace: Workspace, synchronize: Callable[[], None], in_place: Mapping[str, str]
) -> tuple[torch.Tensor, ...]:
    """Launches once on poisoned outputs."""
    workspace.restore()  # an earlier kernel, or an earlier launch of this one, may have changed them
    workspace.reset_all(in_place)
    synchronize()
    outputs = run()
    synchronize()
    return outputs


def check_all(
    workspace: Workspace, outputs: Sequence[torch.Tensor], expected: Oracle, scenario: str
) -> tuple[GateResult, ...]:
    """Every gate on what a launch has left: inputs that are as they were drawn, and the outputs.

    Raises:
        DeclarationError: if the outputs are not the op's.
    """
    before, axes = workspace.pristine, _axes(workspace.op)
    unchanged = [
        unchanged_gate(name, scenario, before[name], now, axes[name]) for name, now in workspace.inputs.items()
    ]
    # First, for a kernel that updates the state in place has wrong numbers, too, and this is why.
    return (_worst(unchanged, "inputs unchanged"), *check_outputs(workspace.op, outputs, expected, scenario))


def passes_all(workspace: Workspace, outputs: Sequence[torch.Tensor], expected: Oracle) -> bool:
    """Whether `check_all` would find nothing: it waits for the device once, and tells nothing.

    Raises:
        DeclarationError: if the outputs are not the op's.
    """
    named, right = _named(workspace.op, outputs, expected), expected.outputs
    failing = [differs(before, workspace.inputs[name]).any() for name, before in workspace.pristine.items()]
    failing += [is_poison(tensor, right[name]).any() for name, tensor in named.items()]
    failing += [_fails(gate, named[gate.tensor], expected) for gate in workspace.op.gates]
    return not bool(torch.stack(failing).any())


def _fails(gate: Gate, actual: torch.Tensor, expected: Oracle) -> torch.Tensor:
    right = expected.outputs[gate.tensor]
    match gate:
        case UlpGate():
            return (ulp_error(gate, actual, right) > 1.0).any()
        case RmsGate():
            return ~(relative_rms(actual, right) <= gate.limit)
        case RoundoffGate():
            return (roundoff_error(gate, actual, right, expected.roundoff[gate.tensor]) > gate.limit).any()
        case ExactGate():
            return is_unequal(actual, right).any()


def verify_kernel(
    kernel: Kernel,
    run: Launcher,
    workspace: Workspace,
    consult: Callable[[], Oracle],
    scenario: str,
    synchronize: Callable[[], None],
    on_outputs: OnOutputs | None = None,
) -> tuple[GateResult, ...]:
    """As `verify_launcher`; of a floor only what it claims: an empty one nothing, a copying one that it copies.

    An ablation claims nothing.

    Args:
        kernel: its declaration.
        run: bound to the workspace.
        workspace: inputs and outputs.
        consult: gives what is expected of the workspace's inputs; called once the launch is over, and not for a floor.
        scenario: the kind of inputs, for the record.
        synchronize: waits for the device.
        on_outputs: called with the outputs and with what is expected, once the gates are through; not for a floor.
    """
    if kernel.is_unchecked:
        run()
        synchronize()
        return ()
    if kernel.floor == "copy":
        workspace.reset_all(kernel.in_place)
        outputs = run()
        synchronize()
        return check_copy(outputs, workspace, scenario)
    outputs, expected = _launch(run, workspace, synchronize, kernel.in_place), consult()
    gates = check_all(workspace, outputs, expected, scenario)
    if on_outputs:
        on_outputs(dict(zip((spec.name for spec in workspace.op.outputs), outputs, strict=True)), expected)
    return gates


def compare_launches(
    run: Launcher,
    workspace: Workspace,
    synchronize: Callable[[], None],
    in_place: Mapping[str, str] = NOTHING_IN_PLACE,
) -> str:
    """Launches twice on the same inputs; says in which outputs bits differ, and how many; empty where all are equal.

    A kernel whose sums are added up in the order in which blocks happen to end may be within its gates every time. That
    is no failure, and worth knowing: its results cannot be repeated.
    """
    launches = []
    for _ in range(2):
        workspace.restore()
        workspace.reset_all(in_place)
        synchronize()
        launches.append([output.clone() for output in run()])
        synchronize()
    told = []
    for spec, one, other in zip(workspace.op.outputs, *launches, strict=True):
        if count := int(differs(one, other).sum()):
            told.append(f"{count:,} of {one.numel():,} elements of {spec.name}")
    return f"two launches on the same inputs differ in {' and '.join(told)}" if told else ""


def check_outputs(op: Op, outputs: Sequence[torch.Tensor], expected: Oracle, scenario: str) -> tuple[GateResult, ...]:
    """The gates on outputs alone, that for unwritten elements first.

    Raises:
        DeclarationError: if there are too few or too many outputs, or one has another shape or dtype, or is no plain
            tensor.
    """
    named, axes, right = _named(op, outputs, expected), _axes(op), expected.outputs
    written = [written_gate(name, scenario, tensor, axes[name], right[name]) for name, tensor in named.items()]
    accuracy = [_apply(gate, scenario, named[gate.tensor], expected, axes[gate.tensor]) for gate in op.gates]
    return (_worst(written, "outputs written"), *accuracy)


def _apply(gate: Gate, scenario: str, actual: torch.Tensor, expected: Oracle, axes: Sequence[str]) -> GateResult:
    right = expected.outputs[gate.tensor]
    match gate:
        case UlpGate():
            return ulp_gate(gate, scenario, actual, right, axes)
        case RmsGate():
            return rms_gate(gate, scenario, actual, right, axes)
        case RoundoffGate():
            return roundoff_gate(gate, scenario, actual, right, expected.roundoff[gate.tensor], axes)
        case ExactGate():
            return exact_gate(gate, scenario, actual, right, axes)


def check_copy(outputs: Sequence[torch.Tensor], workspace: Workspace, scenario: str) -> tuple[GateResult, ...]:
    """For the copying floor: that it moved every bit that it claims to move.

    Raises:
        DeclarationError: if the op does not say which tensors are copied.
    """
    op = workspace.op
    if op.copy is None:
        raise DeclarationError(f"{op.name} has no `copy`, the tensors that a copying floor moves")
    named, axes = dict(zip(workspace.outputs, outputs, strict=True)), _axes(op)
    if callable(op.copy):
        copies = op.copy(workspace.inputs, workspace.workload)
        return tuple(copied_gate(name, scenario, copies[name], named[name], axes[name]) for name in copies)
    source, target = op.copy
    return (copied_gate(source, scenario, workspace.inputs[source], named[target], axes[source]),)


def _worst(gates: Sequence[GateResult], name: str) -> GateResult:
    """One result for several like gates: the worst one's, under its own name if it failed."""
    worst = max(gates, key=lambda gate: gate.worst)
    return worst if not worst.passed else GateResult(name, worst.scenario, worst.worst, worst.limit, "", Status.OK)


def _axes(op: Op) -> dict[str, tuple[str, ...]]:
    """What the op calls the axes of each of its tensors; an axis of a fixed size by its number."""
    return {
        spec.name: tuple(dim if isinstance(dim, str) else f"axis {place}" for place, dim in enumerate(spec.dims))
        for spec in (*op.inputs, *op.outputs)
    }


def _named(op: Op, outputs: Sequence[torch.Tensor], expected: Oracle) -> dict[str, torch.Tensor]:
    return name_outputs(op, outputs, {name: tensor.shape for name, tensor in expected.outputs.items()})


def name_outputs(
    op: Op, outputs: Sequence[torch.Tensor], sizes: Mapping[str, Sequence[int]]
) -> dict[str, torch.Tensor]:
    """What a kernel returned, by the op's names; a tensor of another class might compute only when it is looked at.

    Args:
        op: the op.
        outputs: what the kernel returned.
        sizes: of each output.

    Raises:
        DeclarationError: if there are too few or too many outputs, or one has another shape or dtype, or is no plain
            tensor.
    """
    names = [spec.name for spec in op.outputs]
    if not isinstance(outputs, (tuple, list)) or len(outputs) != len(names):
        raise DeclarationError(f"the kernel must return {', '.join(names)}; it returned {type(outputs).__name__}")
    named = dict(zip(names, outputs, strict=True))
    for spec in op.outputs:
        tensor, wanted = named[spec.name], tuple(sizes[spec.name])
        if type(tensor) is not torch.Tensor:
            raise DeclarationError(f"{spec.name} is a {type(tensor).__name__}, and must be a torch.Tensor")
        if tuple(tensor.shape) != wanted or tensor.dtype != TORCH_DTYPES[spec.settled]:
            raise DeclarationError(f"{spec.name} is {tensor.dtype} {tuple(tensor.shape)}, not {spec.settled} {wanted}")
    return named
