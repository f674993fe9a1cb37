"""Runs a kernel once on known inputs and passes what it wrote through every gate of its op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch import TORCH_DTYPES, Launcher, Workspace
from gdnbench.model.kernel import NOTHING_IN_PLACE, Kernel
from gdnbench.model.op import ExactGate, Gate, Op, RmsGate, UlpGate
from gdnbench.model.status import GateResult, Status
from gdnbench.verify.gates import copied_gate, exact_gate, rms_gate, ulp_gate, unchanged_gate, written_gate

Oracle = dict[str, torch.Tensor]
"""The op's outputs by name, in float64."""


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
        expected: the oracle's outputs.
        scenario: the kind of inputs, for the record.
        synchronize: waits for the device.
        in_place: what the kernel updates in place, as declared; that is not poisoned, and its oracle tells an update.

    Raises:
        DeclarationError: if `run` returns something else than the op's outputs.
    """
    workspace.restore()  # an earlier kernel, or an earlier launch of this one, may have changed them
    workspace.reset_all(in_place)
    synchronize()
    outputs = run()
    synchronize()
    before = workspace.pristine
    axes = _axes(workspace.op)
    unchanged = [
        unchanged_gate(name, scenario, before[name], now, axes[name]) for name, now in workspace.inputs.items()
    ]
    # First, for a kernel that updates the state in place has wrong numbers, too, and this is why.
    return (_worst(unchanged, "inputs unchanged"), *check_outputs(workspace.op, outputs, expected, scenario))


def verify_kernel(
    kernel: Kernel,
    run: Launcher,
    workspace: Workspace,
    expected: Oracle,
    scenario: str,
    synchronize: Callable[[], None],
) -> tuple[GateResult, ...]:
    """As `verify_launcher`; of a floor only what it claims to do: an empty one does nothing, a copying one copies."""
    match kernel.floor:
        case "empty":
            run()
            synchronize()
            return ()
        case "copy":
            workspace.reset_all(kernel.in_place)
            outputs = run()
            synchronize()
            return check_copy(outputs, workspace, scenario)
        case _:
            return verify_launcher(run, workspace, expected, scenario, synchronize, kernel.in_place)


def check_outputs(op: Op, outputs: Sequence[torch.Tensor], expected: Oracle, scenario: str) -> tuple[GateResult, ...]:
    """The gates on outputs alone, that for unwritten elements first.

    Raises:
        DeclarationError: if there are too few or too many outputs, or one has another shape or dtype.
    """
    named, axes = _named(op, outputs, expected), _axes(op)
    written = [written_gate(name, scenario, tensor, axes[name], expected[name]) for name, tensor in named.items()]
    accuracy = [
        _apply(gate, scenario, named[gate.tensor], expected[gate.tensor], axes[gate.tensor]) for gate in op.gates
    ]
    return (_worst(written, "outputs written"), *accuracy)


def _apply(gate: Gate, scenario: str, actual: torch.Tensor, expected: torch.Tensor, axes: Sequence[str]) -> GateResult:
    match gate:
        case UlpGate():
            return ulp_gate(gate, scenario, actual, expected, axes)
        case RmsGate():
            return rms_gate(gate, scenario, actual, expected, axes)
        case ExactGate():
            return exact_gate(gate, scenario, actual, expected, axes)


def check_copy(outputs: Sequence[torch.Tensor], workspace: Workspace, scenario: str) -> tuple[GateResult, ...]:
    """For the copying floor: that it moved every bit that it claims to move.

    Raises:
        DeclarationError: if the op does not say which tensors are copied.
    """
    if workspace.op.copy is None:
        raise DeclarationError(f"{workspace.op.name} has no `copy`, the tensors that a copying floor moves")
    source, target = workspace.op.copy
    named = dict(zip(workspace.outputs, outputs, strict=True))
    axes = _axes(workspace.op)[source]
    return (copied_gate(source, scenario, workspace.inputs[source], named[target], axes),)


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
    names = [spec.name for spec in op.outputs]
    if not isinstance(outputs, (tuple, list)) or len(outputs) != len(names):
        raise DeclarationError(f"the kernel must return {', '.join(names)}; it returned {type(outputs).__name__}")
    named = dict(zip(names, outputs, strict=True))
    for spec in op.outputs:
        tensor, sizes = named[spec.name], tuple(expected[spec.name].shape)
        if tuple(tensor.shape) != sizes or tensor.dtype != TORCH_DTYPES[spec.dtype]:
            raise DeclarationError(f"{spec.name} is {tensor.dtype} {tuple(tensor.shape)}, not {spec.dtype} {sizes}")
    return named
