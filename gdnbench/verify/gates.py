"""The gates: each a pure function of what a kernel wrote and what it should have written."""

from __future__ import annotations

import math

import torch

from gdnbench.launch.workspace import is_poison
from gdnbench.model import GateResult, RmsGate, Status, UlpGate

BF16_SIGNIFICAND_BITS = 8  # one implicit, seven stored
SMALLEST_BF16_ULP = 2.0**-133  # of the subnormals


def ulp_gate(gate: UlpGate, scenario: str, actual: torch.Tensor, expected: torch.Tensor) -> GateResult:
    """Errors in units of the tolerance `ulps * ulp(expected) + atol * max(1, rms(expected))`.

    A NaN or infinity is an infinite error. An ulp of bf16 at x is 2^(e - 8) for |x| in [2^(e-1), 2^e).
    """
    _, exponent = torch.frexp(expected)
    ulp = torch.ldexp(torch.ones_like(expected), exponent - BF16_SIGNIFICAND_BITS)
    ulp = torch.where(expected == 0, 0.0, ulp).clamp(min=SMALLEST_BF16_ULP)  # frexp gives zero the exponent of 1/2
    atol = gate.atol * expected.square().nanmean().sqrt().clamp(min=1.0)
    error = (actual.double() - expected).abs() / (gate.ulps * ulp + atol)
    error = torch.where(torch.isfinite(error), error, torch.inf)
    worst = float(error.max())
    name = f"{gate.tensor} within {gate.ulps:g} ulp + {gate.atol:g}"
    return GateResult(name, scenario, worst, 1.0, _index(error), _wrong_if(worst > 1.0))


def rms_gate(gate: RmsGate, scenario: str, actual: torch.Tensor, expected: torch.Tensor) -> GateResult:
    """Root mean square error relative to the oracle's root mean square; the index is of the largest error."""
    error = actual.double() - expected
    relative = float(error.norm() / expected.norm().clamp(min=torch.finfo(torch.float64).tiny))
    worst = math.inf if math.isnan(relative) else relative
    where = _index(error.abs().nan_to_num(torch.inf))
    return GateResult(f"{gate.tensor} relative RMS", scenario, worst, gate.limit, where, _wrong_if(worst > gate.limit))


def written_gate(name: str, scenario: str, actual: torch.Tensor) -> GateResult:
    """Counts the elements that still hold the poison they were filled with before the launch."""
    return _count_gate(f"{name} written", scenario, is_poison(actual), Status.UNWRITTEN)


def unchanged_gate(name: str, scenario: str, before: torch.Tensor, after: torch.Tensor) -> GateResult:
    """Counts the elements of an input whose bits changed."""
    return _count_gate(f"{name} unchanged", scenario, _differs(before, after), Status.CHANGED_INPUT)


def copied_gate(name: str, scenario: str, source: torch.Tensor, target: torch.Tensor) -> GateResult:
    """Counts the elements of a copy whose bits are not the source's."""
    return _count_gate(f"{name} copied", scenario, _differs(source, target), Status.WRONG_NUMBERS)


def _count_gate(gate: str, scenario: str, failing: torch.Tensor, failure: Status) -> GateResult:
    count = int(failing.sum())
    if not count:
        return GateResult(gate, scenario, 0.0, 0.0, "", Status.OK)
    return GateResult(gate, scenario, float(count), 0.0, _index(failing.double()), failure)


def _differs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    bits = {2: torch.int16, 4: torch.int32}[left.element_size()]
    return left.contiguous().view(bits) != right.contiguous().view(bits)


def _wrong_if(failed: bool) -> Status:
    return Status.WRONG_NUMBERS if failed else Status.OK


def _index(error: torch.Tensor) -> str:
    place = torch.unravel_index(error.argmax(), error.shape)
    return "[" + ", ".join(str(int(axis)) for axis in place) + "]"
