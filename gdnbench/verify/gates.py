"""The gates, pure functions of a kernel's outputs and the expected ones.

A failed gate describes the pattern of the wrong elements: a head, a row, every other column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from gdnbench.launch.workspace import TORCH_DTYPES, is_poison
from gdnbench.model.declaration import FACTS, DtypeFacts, ExactGate, Gate, RmsGate, RoundoffGate, UlpGate
from gdnbench.model.status import GateResult, Status, WrongElements
from gdnbench.wording import spans_of, spans_text

MOST_RANGES = 4  # ranges of indices along one axis that a line shows as a pattern

_FACTS = {TORCH_DTYPES[name]: facts for name, facts in FACTS.items() if facts.significand_bits}

Index = tuple[int, ...]
"""An element's index along each axis."""


def ulp_gate(
    gate: UlpGate,
    scenario: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    axes: Sequence[str] = (),
    *,
    dtype: torch.dtype | None = None,
) -> GateResult:
    """Checks errors in units of the tolerance `ulps * ulp(expected) + atol * max(1, rms(expected))`.

    A NaN or infinity is an infinite error. An ulp of a type with p bits of significand is 2^(e - p) at |x| in [2^(e-1),
    2^e), and no smaller than its smallest subnormal; `dtype` is the tensor's own by default.
    """
    name = f"{gate.tensor} within {gate.ulps:g} ulp + {gate.atol:g}"
    return _error_gate(name, scenario, ulp_error(gate, actual, expected, dtype), 1.0, actual, expected, axes)


def ulp_error(
    gate: UlpGate, actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The errors that `ulp_gate` compares with 1, by element."""
    ulp = _ulp(expected, _FACTS[dtype or actual.dtype])
    atol = gate.atol * expected.square().nanmean().sqrt().clamp(min=1.0)
    error = (actual.double() - expected).abs() / (gate.ulps * ulp + atol)
    return torch.where(torch.isfinite(error), error, torch.inf)


def roundoff_gate(
    gate: RoundoffGate,
    scenario: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    size: torch.Tensor,
    axes: Sequence[str] = (),
) -> GateResult:
    """Checks errors in units of the effect of a rounding error in each operation of the gate's arithmetic.

    Half an ulp of the tensor's own type is subtracted first, and the arithmetic's smallest normal number, below which a
    GPU may flush to zero, so that the worst error is 0 for the oracle's numbers, rounded. The ulp is that of the larger
    of the two numbers, since roundoff may carry a number over a power of two before it is rounded, to a grid twice as
    coarse. `expected` is float64; `size` is the op's `roundoff` on these inputs, in unit roundoffs, and broadcasts to
    `expected`.
    """
    error, name = roundoff_error(gate, actual, expected, size), f"{gate.tensor} {gate.arithmetic} roundoff"
    return _error_gate(name, scenario, error, gate.limit, actual, expected, axes)


def _error_gate(
    name: str,
    scenario: str,
    error: torch.Tensor,
    limit: float,
    actual: torch.Tensor,
    expected: torch.Tensor,
    axes: Sequence[str],
) -> GateResult:
    place = _largest(error)
    worst = float(error[place]) if error.numel() else 0.0
    if worst <= limit:
        return GateResult(name, scenario, worst, limit, _index(place), Status.OK)
    wrong = describe_wrong(error > limit, place, actual, expected, axes)
    return GateResult(name, scenario, worst, limit, _index(place), Status.WRONG_NUMBERS, wrong)


def roundoff_error(
    gate: RoundoffGate, actual: torch.Tensor, expected: torch.Tensor, size: torch.Tensor
) -> torch.Tensor:
    """The errors that `roundoff_gate` compares with its limit, by element."""
    facts = FACTS[gate.arithmetic]
    smallest = 2.0 ** (facts.smallest_exponent + facts.significand_bits - 1)
    wide = actual.double()
    error = (wide - expected).abs_()
    larger = torch.maximum(wide.abs(), expected.abs())
    error.sub_(_ulp(larger, _FACTS[actual.dtype]).mul_(0.5).add_(smallest)).clamp_(min=0.0)  # a NaN stays one
    least = torch.finfo(torch.float64).tiny  # makes 0 / 0 zero, and anything else / 0 as good as infinite
    error.div_((size.double() * 2.0**-facts.significand_bits).add_(least))
    return error.nan_to_num_(nan=torch.inf, posinf=torch.inf)


def in_gate(gate: Gate, one: torch.Tensor, other: torch.Tensor, expected: torch.Tensor, size: torch.Tensor) -> float:
    """The largest difference of two outputs, where 1 is what the gate lets an element differ from the oracle.

    `expected` and `size` are the oracle's and the op's `roundoff` there, the latter for a `RoundoffGate` alone.
    """
    wide = other.double()
    match gate:
        case RmsGate():
            found = relative_rms(one, wide) / gate.limit
        case ExactGate():
            found = torch.where(is_unequal(one, wide), torch.inf, 0.0).max()
        case UlpGate():
            found = ulp_error(gate, one, wide).max()
        case RoundoffGate():
            facts = FACTS[gate.arithmetic]
            allowed = _ulp(torch.maximum(wide.abs(), expected.abs()), _FACTS[one.dtype]).mul_(0.5)
            allowed += gate.limit * size.double() * 2.0**-facts.significand_bits
            found = ((one.double() - wide).abs() / allowed).nan_to_num(torch.inf, torch.inf).max()
    return float(found)


_EXPONENT = 0x7FF0_0000_0000_0000  # exponent bits of a float64; with all others zero it is the power of two below


def ulp(numbers: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The ulp of each number in float64 in a type."""
    return _ulp(numbers, _FACTS[dtype])


def _ulp(expected: torch.Tensor, facts: DtypeFacts) -> torch.Tensor:
    """2^(e - p) at |x| in [2^(e-1), 2^e) for p bits of significand, and no smaller than the smallest subnormal."""
    power = (expected.view(torch.int64) & _EXPONENT).view(torch.float64)
    return power.mul_(2.0 ** (1 - facts.significand_bits)).clamp_(min=2.0**facts.smallest_exponent)


def rms_gate(
    gate: RmsGate, scenario: str, actual: torch.Tensor, expected: torch.Tensor, axes: Sequence[str] = ()
) -> GateResult:
    """Checks the root mean square error relative to the oracle's root mean square; the index is of the largest error.

    No single element fails this gate. Reported as wrong are elements whose own error exceeds the limit times the
    oracle's root mean square: if all others were within it, the gate would pass.
    """
    relative = float(relative_rms(actual, expected))
    worst = math.inf if math.isnan(relative) else relative
    size = (actual.double() - expected).abs().nan_to_num(torch.inf)
    place, name = _largest(size), f"{gate.tensor} relative RMS"
    if worst <= gate.limit:
        return GateResult(name, scenario, worst, gate.limit, _index(place), Status.OK)
    wrong = describe_wrong(far_from_rms(gate, actual, expected), place, actual, expected, axes)
    return GateResult(name, scenario, worst, gate.limit, _index(place), Status.WRONG_NUMBERS, wrong)


def far_from_rms(gate: RmsGate, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The elements whose own error exceeds the limit times the oracle's root mean square, as a boolean tensor."""
    rms = expected.square().mean().sqrt().nan_to_num(0.0)
    return (actual.double() - expected).abs().nan_to_num(torch.inf) > gate.limit * rms


def relative_rms(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The ratio that `rms_gate` compares with its limit; NaN if an element is."""
    tiny = torch.finfo(torch.float64).tiny
    relative: torch.Tensor = (actual.double() - expected).norm() / expected.norm().clamp(min=tiny)
    return relative


def exact_gate(
    gate: ExactGate, scenario: str, actual: torch.Tensor, expected: torch.Tensor, axes: Sequence[str] = ()
) -> GateResult:
    """Counts the elements that are not equal to the oracle's."""
    wrong = is_unequal(actual, expected)
    return _count_gate(f"{gate.tensor} exact", scenario, wrong, Status.WRONG_NUMBERS, actual, expected, axes)


def is_unequal(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The elements that are not equal to the oracle's, as a boolean tensor."""
    return actual.to(expected.dtype) != expected


def written_gate(
    name: str, scenario: str, actual: torch.Tensor, axes: Sequence[str] = (), expected: torch.Tensor | None = None
) -> GateResult:
    """Counts the elements that still hold the poison from before the launch."""
    return _count_gate(f"{name} written", scenario, is_poison(actual, expected), Status.UNWRITTEN, axes=axes)


def unchanged_gate(
    name: str, scenario: str, before: torch.Tensor, after: torch.Tensor, axes: Sequence[str] = ()
) -> GateResult:
    """Counts the elements of an input whose bits changed."""
    changed = differs(before, after)
    return _count_gate(f"{name} unchanged", scenario, changed, Status.CHANGED_INPUT, after, before, axes)


def padding_gate(name: str, scenario: str, padding: torch.Tensor) -> GateResult:
    """Counts the elements behind each member of a strided tensor, [members, …], that hold poison no more."""
    gate = f"{name} padding unchanged"
    return _count_gate(gate, scenario, ~is_poison(padding), Status.UNSAFE, padding, axes=("member", "padding"))


def copied_gate(
    name: str, scenario: str, source: torch.Tensor, target: torch.Tensor, axes: Sequence[str] = ()
) -> GateResult:
    """Counts the elements of a copy whose bits are not the source's."""
    gate = f"{name} copied"
    return _count_gate(gate, scenario, differs(source, target), Status.WRONG_NUMBERS, target, source, axes)


def _count_gate(
    gate: str,
    scenario: str,
    failing: torch.Tensor,
    failure: Status,
    got: torch.Tensor | None = None,
    expected: torch.Tensor | None = None,
    axes: Sequence[str] = (),
) -> GateResult:
    if not failing.any():  # the usual case: a pool of states leaves no memory for what follows
        return GateResult(gate, scenario, 0.0, 0.0, "", Status.OK)
    place = _largest(failing.double())
    wrong = describe_wrong(failing, place, got, expected, axes)
    return GateResult(gate, scenario, float(wrong.count), 0.0, _index(place), failure, wrong)


def differs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The elements whose bits differ, as a boolean tensor."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return left.contiguous().view(bits) != right.contiguous().view(bits)


def _largest(error: torch.Tensor) -> Index:
    # torch.unravel_index would import sympy: 0.6 s of every worker that verifies. An output may have no elements.
    place = np.unravel_index(int(error.argmax()), error.shape) if error.numel() else ()
    return tuple(int(axis) for axis in place)


def _index(place: Index) -> str:
    return f"[{', '.join(map(str, place))}]"


def describe_wrong(
    failing: torch.Tensor,
    worst: tuple[int, ...],
    got: torch.Tensor | None,
    expected: torch.Tensor | None,
    axes: Sequence[str] = (),
) -> WrongElements:
    """Describes the elements that failed a gate (`failing`, boolean).

    `worst` is the index of one of them; `got` is None for an unwritten tensor, `expected` None if unknown.
    """
    names = [*axes, *(f"axis {number}" for number in range(len(axes), failing.dim()))]
    return WrongElements(
        count=int(failing.sum()),
        of=failing.numel(),
        got=None if got is None else float(got[worst]),
        expected=None if expected is None else float(expected[worst]),
        spread=_spread(failing, names),
    )


def _spread(failing: torch.Tensor, names: Sequence[str]) -> str:
    """The indices with a wrong element along each axis; axes with errors everywhere come last."""
    partly, everywhere = [], []
    for axis, (name, size) in enumerate(zip(names, failing.shape, strict=True)):
        others = [other for other in range(failing.dim()) if other != axis]
        hit = (failing.any(dim=others) if others else failing).nonzero().flatten().tolist()
        if size > 1 and len(hit) == size:
            everywhere.append(name)
        elif size > 1:
            partly.append(f"{name} {_indices(hit)} of {size}")
    return "; ".join([*partly, *([f"every {', '.join(everywhere)}"] if everywhere else [])]) or "its one element"


def _indices(hit: Sequence[int]) -> str:
    if len(list(spans_of(hit))) <= MOST_RANGES:
        return spans_text(hit)
    if len({after - before for before, after in pairwise(hit)}) == 1:
        return f"{hit[0]},{hit[1]},…,{hit[-1]}"
    return f"at {len(hit)} places from {hit[0]} to {hit[-1]}"
