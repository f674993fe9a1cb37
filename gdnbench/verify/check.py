"""Runs a kernel once on known inputs, and applies the gates of its op to its outputs, and the contest's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch import TORCH_DTYPES, Launcher, Numerics, Workspace
from gdnbench.launch.numerics import call_numerics, check_named
from gdnbench.launch.workspace import is_poison, padding_of
from gdnbench.model.case import call_of
from gdnbench.model.declaration import CONTEST_TOLERANCE, ExactGate, Gate, RmsGate, RoundoffGate, UlpGate
from gdnbench.model.kernel import NOTHING_IN_PLACE, Kernel
from gdnbench.model.op import Op
from gdnbench.model.status import GateResult, Status
from gdnbench.verify.gates import (
    copied_gate,
    differs,
    exact_gate,
    far_from_rms,
    is_unequal,
    padding_gate,
    relative_rms,
    rms_gate,
    roundoff_error,
    roundoff_gate,
    ulp_error,
    ulp_gate,
    unchanged_gate,
    written_gate,
)
from gdnbench.verify.mistakes import LaunchFacts, likely_mistake

_HOW_TO = "docs/verifying.md says how to write it"


@dataclass(frozen=True)
class Oracle:
    """The expected outputs of a kernel by name, in float64 (integers as they are), and the roundoff of its gates.

    `roundoff` has, for each output with a `RoundoffGate`, unit roundoffs, of the output's shape or broadcast to it.
    """

    outputs: dict[str, torch.Tensor]
    roundoff: dict[str, torch.Tensor] = field(default_factory=dict)


OnOutputs = Callable[[Mapping[str, torch.Tensor], Oracle], None]
"""Called with a kernel's outputs, by name, and the expected ones."""


def consult_oracle(workspace: Workspace, numerics: Numerics) -> Oracle:
    """Computes the op's oracle, and the roundoff if a gate needs it, on a workspace's inputs.

    Raises DeclarationError if the oracle's outputs are not those that the op declares, or not finite where no kernel
    could pass; if the numerics lack a `roundoff` that a gate needs, or its sizes are not those of outputs, or one is
    negative, infinite or NaN, which would pass anything.
    """
    op, file = workspace.op, workspace.op.numerics
    outputs = ask_numerics(numerics, "oracle", workspace, [*workspace.outputs])
    _check_oracle(workspace, outputs)
    gated = [gate.tensor for gate in op.gates if isinstance(gate, RoundoffGate)]
    if not gated:
        return Oracle(outputs)
    if not callable(getattr(numerics, "roundoff", None)):
        raise DeclarationError(f"{file} of {op.name} must define roundoff(), for the gate on {gated[0]}", _HOW_TO)
    sizes = ask_numerics(numerics, "roundoff", workspace, gated)
    return Oracle(outputs, {name: _checked_size(op, name, sizes[name], outputs[name]) for name in gated})


def ask_numerics(numerics: Numerics, name: str, workspace: Workspace, wanted: Sequence[str]) -> dict[str, torch.Tensor]:
    """What an oracle or a roundoff says; one with a parameter `workload` gets it, where inputs do not determine it."""
    more = {"workload": workspace.workload} if "workload" in signature(getattr(numerics, name)).parameters else {}
    returned: dict[str, torch.Tensor] = call_numerics(
        workspace.op, numerics, name, workspace.inputs, workspace.scalars, **more
    )
    check_named(workspace.op, name, returned, wanted)
    return returned


def _check_oracle(workspace: Workspace, outputs: Mapping[str, torch.Tensor]) -> None:
    """A kernel is held to this: it is not charged with what no kernel could give."""
    place = f"oracle() in {workspace.op.numerics} of {workspace.op.name}"
    for name, output in workspace.outputs.items():
        right = outputs[name]
        if (right.shape, right.device) != (output.shape, output.device):
            returned, wanted = (f"{tuple(each.shape)} on {each.device}" for each in (right, output))
            raise DeclarationError(f"{place}: {name} is {returned}, and must be {wanted}")
    for gate in workspace.op.gates:
        right = outputs[gate.tensor]
        if right.isnan().any() or (right.isinf().any() and not isinstance(gate, ExactGate)):
            raise DeclarationError(f"{place}: {gate.tensor} has elements that are infinite or NaN; it must be finite")


def _checked_size(op: Op, name: str, size: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    place = f"roundoff() in {op.numerics} of {op.name}: {name}"
    from_last = zip(reversed(size.shape), reversed(output.shape), strict=False)
    if size.dim() > output.dim() or not all(each in {1, wanted} for each, wanted in from_last):
        said = f"{place} is {tuple(size.shape)}, which does not broadcast to {tuple(output.shape)}"
        raise DeclarationError(said, _HOW_TO)
    if size.numel() and not (size.min() >= 0 and size.max() < torch.inf):  # false for NaN, too
        raise DeclarationError(f"{place} has elements that are negative, infinite or NaN", _HOW_TO)
    return size


def verify_launcher(
    run: Launcher,
    workspace: Workspace,
    expected: Oracle,
    scenario: str,
    synchronize: Callable[[], None],
    in_place: Mapping[str, str] = NOTHING_IN_PLACE,
) -> tuple[GateResult, ...]:
    """Launches once on poisoned outputs and checks outputs and inputs.

    `in_place` outputs are not poisoned; their oracle expects an update. Raises DeclarationError if `run` returns
    something else than the op's outputs.
    """
    return check_all(workspace, launch_once(run, workspace, synchronize, in_place), expected, scenario)


def launch_once(
    run: Launcher, workspace: Workspace, synchronize: Callable[[], None], in_place: Mapping[str, str]
) -> tuple[torch.Tensor, ...]:
    """Launches on the inputs as they were drawn and on poisoned outputs and scratch; gives what the launch returns."""
    workspace.restore()  # an earlier launch, of this kernel or another, may have changed the inputs
    workspace.reset_all(in_place)
    synchronize()
    outputs = run()
    synchronize()
    return outputs


def check_all(
    workspace: Workspace, outputs: Sequence[torch.Tensor], expected: Oracle, scenario: str
) -> tuple[GateResult, ...]:
    """Applies every gate to a launch's tensors, inputs first; DeclarationError if the outputs are not the op's."""
    before, axes = workspace.pristine, _axes(workspace.op)
    unchanged = [
        unchanged_gate(name, scenario, before[name], now, axes[name]) for name, now in workspace.inputs.items()
    ]
    written, *accuracy = check_outputs(workspace.op, outputs, expected, scenario)
    named = dict(zip(workspace.outputs, outputs, strict=True))
    launch = LaunchFacts(before, workspace.scalars, workspace.op.named_sizes(workspace.workload))
    explained = [
        result if result.passed else _explained(result, gate, named[gate.tensor], expected, axes[gate.tensor], launch)
        for gate, result in zip(workspace.op.gates, accuracy, strict=True)
    ]
    # First, since it explains the wrong numbers of a kernel that updates the state in place.
    return (_worst(unchanged, "inputs unchanged"), written, *explained)


def _explained(
    failed: GateResult, gate: Gate, actual: torch.Tensor, expected: Oracle, axes: Sequence[str], launch: LaunchFacts
) -> GateResult:
    """Adds the usual mistake that explains the wrong elements, if one does."""
    failing = _failing(gate, actual, expected)
    return replace(failed, told=likely_mistake(failing, actual, expected.outputs[gate.tensor], axes, launch))


def passes_all(workspace: Workspace, outputs: Sequence[torch.Tensor], expected: Oracle) -> bool:
    """Whether `check_all` would pass, and raises as that; waits for the device once, and makes no descriptions."""
    right = expected.outputs
    named = name_outputs(workspace.op, outputs, {name: tensor.shape for name, tensor in right.items()})
    failing = [differs(before, workspace.inputs[name]).any() for name, before in workspace.pristine.items()]
    failing += [is_poison(tensor, right[name]).any() for name, tensor in named.items()]
    failing += [_fails(gate, named[gate.tensor], expected) for gate in workspace.op.gates]
    return not bool(torch.stack(failing).any())


def _fails(gate: Gate, actual: torch.Tensor, expected: Oracle) -> torch.Tensor:
    if isinstance(gate, RmsGate):
        return ~(relative_rms(actual, expected.outputs[gate.tensor]) <= gate.limit)
    return _failing(gate, actual, expected).any()


def _failing(gate: Gate, actual: torch.Tensor, expected: Oracle) -> torch.Tensor:
    """The elements that a gate refuses, of an `RmsGate` those whose own error exceeds its limit."""
    if isinstance(gate, RmsGate):
        return far_from_rms(gate, actual, expected.outputs[gate.tensor])
    return gate_error(gate, actual, expected) > 1.0


def gate_error(gate: Gate, actual: torch.Tensor, expected: Oracle) -> torch.Tensor:
    """By element, the error relative to the largest that passes: an `RmsGate` has one, an `ExactGate` 2 or none."""
    right = expected.outputs[gate.tensor]
    match gate:
        case UlpGate():
            return ulp_error(gate, actual, right)
        case RmsGate():
            return (relative_rms(actual, right) / gate.limit).expand_as(right)
        case RoundoffGate():
            return roundoff_error(gate, actual, right, expected.roundoff[gate.tensor]) / gate.limit
        case ExactGate():
            return 2.0 * is_unequal(actual, right)


def verify_kernel(
    kernel: Kernel,
    run: Launcher,
    workspace: Workspace,
    consult: Callable[[], Oracle],
    scenario: str,
    synchronize: Callable[[], None],
    on_outputs: OnOutputs | None = None,
) -> tuple[GateResult, ...]:
    """Verifies as `verify_launcher`, but an empty floor or an ablation not at all, and a copying floor by its copy.

    `consult` is called once the launch is over, and `on_outputs` with its result after the gates; neither is for a
    floor.
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
    outputs, expected = launch_once(run, workspace, synchronize, kernel.in_place), consult()
    gates = check_all(workspace, outputs, expected, scenario)
    if on_outputs:
        on_outputs(dict(zip((spec.name for spec in workspace.op.outputs), outputs, strict=True)), expected)
    return gates


def verify_strided(
    kernel: Kernel,
    bind: Callable[[Workspace], Launcher],
    workspace: Workspace,
    consult: Callable[[], Oracle],
    scenario: str,
    synchronize: Callable[[], None],
) -> tuple[GateResult, ...]:
    """Verifies a kernel that claims tensors to be strided once more, with poison between their members.

    Nothing is verified of another kernel. What lies between must stay as it is.
    """
    if not kernel.strided or kernel.floor:
        return ()
    apart, where = workspace.apart(kernel.strided), f"{scenario}, strided"
    gates = verify_kernel(kernel, bind(apart), apart, consult, where, synchronize)
    named = [(name, padding_of((apart.inputs | apart.outputs)[name])) for name in kernel.strided]
    return (*gates, *(padding_gate(name, where, padding) for name, padding in named))


def compare_launches(
    run: Launcher, workspace: Workspace, synchronize: Callable[[], None], in_place: Mapping[str, str] = NOTHING_IN_PLACE
) -> str:
    """Launches twice on the same inputs and describes which outputs differ in their bits; empty if none do.

    A kernel that adds up sums in the order in which blocks end may pass its gates every time. That is not a failure,
    but its results cannot be repeated.
    """
    launches = [[each.clone() for each in launch_once(run, workspace, synchronize, in_place)] for _ in range(2)]
    differing = []
    for spec, one, other in zip(workspace.op.outputs, *launches, strict=True):
        if count := int(differs(one, other).sum()):
            differing.append(f"{count:,} of {one.numel():,} elements of {spec.name}")
    return f"two launches on the same inputs differ in {' and '.join(differing)}" if differing else ""


def check_outputs(op: Op, outputs: Sequence[torch.Tensor], expected: Oracle, scenario: str) -> tuple[GateResult, ...]:
    """Applies the gates on outputs alone, that for unwritten elements first; raises as `name_outputs`."""
    axes, right = _axes(op), expected.outputs
    named = name_outputs(op, outputs, {name: tensor.shape for name, tensor in right.items()})
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
    """Checks that a copying floor moved every bit that it claims to move; DeclarationError without the op's `copy`."""
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
    worst = max(gates, key=lambda gate: gate.worst)
    return worst if not worst.passed else GateResult(name, worst.scenario, worst.worst, worst.limit, "", Status.OK)


def _axes(op: Op) -> dict[str, tuple[str, ...]]:
    return {
        spec.name: tuple(dim if isinstance(dim, str) else f"axis {place}" for place, dim in enumerate(spec.dims))
        for spec in (*op.inputs, *op.outputs)
    }


def name_outputs(
    op: Op, outputs: Sequence[torch.Tensor], sizes: Mapping[str, Sequence[int]]
) -> dict[str, torch.Tensor]:
    """Names a kernel's outputs; `sizes` has the shape of each.

    Only plain tensors are accepted, since another class might compute only when it is read. Raises DeclarationError for
    a wrong number of outputs, a wrong shape or dtype, or another class.
    """
    names = [spec.name for spec in op.outputs]
    if not isinstance(outputs, (tuple, list)) or len(outputs) != len(names):
        returned = type(outputs).__name__ + (f" of {len(outputs)}" if isinstance(outputs, tuple | list) else "")
        expected = call_of(op, None, "", names)
        said = f"the kernel must return {', '.join(names)}; it returned {returned}; expected: {expected}"
        raise DeclarationError(said)
    named = dict(zip(names, outputs, strict=True))
    for spec in op.outputs:
        tensor, wanted = named[spec.name], tuple(sizes[spec.name])
        if type(tensor) is not torch.Tensor:
            raise DeclarationError(f"{spec.name} is a {type(tensor).__name__}, and must be a torch.Tensor")
        if tuple(tensor.shape) != wanted or tensor.dtype != TORCH_DTYPES[spec.settled]:
            raise DeclarationError(f"{spec.name} is {tensor.dtype} {tuple(tensor.shape)}, not {spec.settled} {wanted}")
    return named


_LEAST = 1e-8  # added to the denominator of a relative error


def contest_error(outputs: Mapping[str, torch.Tensor], expected: Oracle) -> float:
    """The largest error of any element of any output, in units of the contest's tolerance: more than 1 fails there.

    An element's error is the smaller of its absolute and its relative one, since it fails only if both are too large;
    that of infinity and NaN is infinite. As in flashinfer-bench 0.1.2, both sides are in fp32, and the expected one is
    rounded to the output's type first. Its reference computes in fp32 instead of float64.
    """
    written = {name: tensor for name, tensor in outputs.items() if tensor.numel()}
    return max((_error(tensor, expected.outputs[name]) for name, tensor in written.items()), default=0.0)


def _error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    if not bool(torch.isfinite(actual.to(torch.float32)).all()):
        return math.inf
    rounded = expected.to(actual.dtype, copy=True)
    right = rounded.to(torch.float32)
    size = right.abs().add_(_LEAST)
    absolute = (actual.to(torch.float32) - right).abs_()
    worst = torch.minimum(absolute, absolute / size).nan_to_num_(nan=math.inf).max()
    # A kernel may get this memory once it is freed: right numbers in it would pass for outputs that it has not written.
    for each in (rounded, right, size):
        each.zero_()
    return float(worst) / CONTEST_TOLERANCE
