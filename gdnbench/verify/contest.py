"""The error of a kernel's outputs by the measure of the FlashInfer contest's tool, which is not one of our gates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from gdnbench.model.contest import CONTEST_TOLERANCE
from gdnbench.verify.check import Oracle

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
