"""Holds a wrong output against the usual mistakes, such as a missing factor, and says which one explains it.

Each mistake predicts every element from the oracle's output or from an input. It explains an output if nearly all wrong
elements, at least `FEWEST`, are what it predicts, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt
import torch

from gdnbench.launch.workspace import TORCH_DTYPES
from gdnbench.model.declaration import FACTS, Dtype

FEWEST = 16
"""Wrong elements: fewer may fit a mistake by chance."""

_MOST = 4096  # wrong elements that are looked at, evenly spread
_MISFITS = 1 / 32  # the most of them that may differ from what a mistake predicts
_NEAR = 1e-5  # of the root mean square: more than the roundoff of fp32
_BETTER = 0.25  # a prediction's error over that of the right number, at most
_SMALLEST_SIZE = 8  # of an axis that may be a factor: smaller ones equal too many other numbers
_NARROW: tuple[Dtype, ...] = ("bf16", "fp16")

_Numbers = npt.NDArray[np.float64]
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LaunchFacts:
    """What predictions are made from: inputs as they were before the launch, scalars, and sizes of axes, by name."""

    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


@np.errstate(all="ignore")
def likely_mistake(
    failing: torch.Tensor,
    actual: torch.Tensor,
    expected: torch.Tensor,
    axes: Sequence[str] = (),
    launch: LaunchFacts | None = None,
) -> str:
    """Returns what the wrong elements of an output are, and a question; empty if no usual mistake explains them.

    `failing` (boolean) are the elements of the output `actual` that a gate refuses; `expected` is the oracle's output,
    float64 or integers. All are of one shape, whose axes have these names.
    """
    places = failing.reshape(-1).nonzero().flatten()
    if len(places) < FEWEST:
        return ""
    places = places[:: -(-len(places) // _MOST)]
    launch, right = launch or LaunchFacts(), expected.reshape(-1)
    got, wanted = (values[places].double().cpu().numpy() for values in (actual.reshape(-1), right))
    bits = next(facts.significand_bits for name, facts in FACTS.items() if TORCH_DTYPES[name] is actual.dtype)
    names = [*axes, *(f"axis {number}" for number in range(len(axes), actual.dim()))]
    wrong = _WrongValues(got, wanted, places.cpu().numpy(), right, 2.0**-bits if bits else 0.0)
    return next(wrong.mistakes(names, tuple(actual.shape), launch), "")


@dataclass(frozen=True)
class _WrongValues:
    """Wrong elements of an output, and the right ones, at places of the flattened tensor.

    `right` is the whole oracle's output, flattened; `unit` the unit roundoff of the output's type.
    """

    got: _Numbers
    expected: _Numbers
    places: _Places
    right: torch.Tensor
    unit: float

    def mistakes(self, axes: Sequence[str], shape: tuple[int, ...], launch: LaunchFacts) -> Iterator[str]:
        """Yields each mistake that explains them, in words, the plainest first."""
        if np.isnan(self.got).all():
            yield "the wrong ones are NaN, as is memory that nobody wrote: is some read before it is written?"
        if self._are(np.zeros_like(self.got)):
            yield "the wrong ones are 0, or nearly: is the result never added up, or stored elsewhere?"
        for name, tensor in launch.inputs.items():
            if tuple(tensor.shape) == shape and self._are(_taken(tensor.reshape(-1), self.places)):
                yield f"the wrong ones are those of the input `{name}`: are they never updated?"
        yield from self._scaled(launch)
        yield from self._exchanged(axes, shape)
        yield from self._shifted(axes, shape)
        for dtype in _NARROW:
            rounded = torch.from_numpy(self.expected).to(TORCH_DTYPES[dtype]).double().numpy()
            if self.unit and self._are(rounded):
                yield f"the wrong ones are the right ones rounded to {dtype}: are they kept in {dtype} on the way?"

    def _are(self, predicted: _Numbers) -> bool:
        """Whether nearly all are what is predicted; NaN where nothing is, which may be at most half of them."""
        error = np.abs(self.got - predicted)[~np.isnan(predicted)]
        got, expected = self.got[~np.isnan(predicted)], self.expected[~np.isnan(predicted)]
        near = error <= 1.01 * self.unit * np.abs(got) + _NEAR * np.sqrt(np.mean(np.square(self.expected)))
        near &= error <= _BETTER * np.abs(got - expected)
        return 2 * len(near) >= len(self.got) and len(near) >= FEWEST and bool(np.mean(~near) <= _MISFITS)

    def _scaled(self, launch: LaunchFacts) -> Iterator[str]:
        size = np.abs(self.expected).max()
        if not np.ptp(self.expected) > 0.1 * size:  # of a constant, every other one is a multiple
            return
        factor = float(np.median((self.got / self.expected)[np.abs(self.expected) > 0.01 * size]))
        if not math.isfinite(factor) or not self._are(factor * self.expected):
            return
        precision = 2 * max(self.unit, _NEAR)
        if abs(factor + 1) <= precision:
            yield "the wrong ones are the right ones with the other sign"
        elif abs(factor - 1) > 8 * precision:
            named = _named_factor(factor, precision, launch)
            yield f"the wrong ones are {factor:.4g} times the right ones: {named}"

    def _exchanged(self, axes: Sequence[str], shape: tuple[int, ...]) -> Iterator[str]:
        for one, other in combinations([axis for axis, size in enumerate(shape) if size > 1], 2):
            order = [*range(len(shape))]
            order[one], order[other] = other, one
            index = np.unravel_index(self.places, [shape[axis] for axis in order])
            source = np.ravel_multi_index([index[axis] for axis in order], shape)
            if self._are(_taken(self.right, source)):
                both = f"{axes[one]} and {axes[other]}"
                yield f"the wrong ones are the right ones with {both} exchanged: is it transposed?"

    def _shifted(self, axes: Sequence[str], shape: tuple[int, ...]) -> Iterator[str]:
        index = np.unravel_index(self.places, shape)
        for axis, name in enumerate(axes):
            for step, which in ((1, "next"), (-1, "previous")):
                moved = index[axis] + step
                source = np.ravel_multi_index([*index[:axis], moved % shape[axis], *index[axis + 1 :]], shape)
                is_inside = (moved >= 0) & (moved < shape[axis])
                if self._are(np.where(is_inside, _taken(self.right, source), np.nan)):
                    yield f"the wrong ones are the right ones of the {which} {name}: is an index one off?"


def _taken(values: torch.Tensor, places: _Places) -> _Numbers:
    taken: _Numbers = values[torch.from_numpy(places).to(values.device)].double().cpu().numpy()
    return taken


def _named_factor(factor: float, precision: float, launch: LaunchFacts) -> str:
    """Returns the question that a factor leads to; a scalar or size names it if it is equal within `precision`."""

    def is_it(number: float) -> bool:
        return abs(number - 1) > 8 * precision and abs(factor / number - 1) <= precision

    for name, value in launch.scalars.items():
        if value and is_it(1 / value):
            return f"is `{name}` ({value:.4g}) missing?"
        if value and is_it(value):
            return f"is `{name}` applied twice?"
    for name, size in launch.sizes.items():
        for number, what in ((size, name), (math.sqrt(size), f"the root of {name}")):
            if size >= _SMALLEST_SIZE and is_it(number):
                return f"is a division by {what} missing?"
            if size >= _SMALLEST_SIZE and is_it(1 / number):
                return f"is a factor of {what} missing?"
    return "is a factor missing, or applied twice?"
