"""Inputs of what comes after a decode step's recurrence, its float64 oracle, and the roundoff of fp32 arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

EPS = 1e-6  # below the root of the norm
SATURATED = 30.0  # SiLU is the identity, or as good as zero
LARGE = 1e3
SMALL = 2.0**-10  # of outputs: EPS is then as large as their mean square
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
NORM_ROUNDOFFS = 4.0  # of the mean, the root and the quotient, beside the sum


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs: o ~ 0.05 N(0, 1), z ~ N(0, 1), weights ~ N(1, 1/4).

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`; `small-outputs`, o so small that the norm's epsilon counts; `large-outputs`, o of about
            1e3; `saturated-gates`, z at ±30.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    rows = (shape.B, shape.HV, shape.V)
    size = {"small-outputs": SMALL, "large-outputs": LARGE}.get(scenario, 0.05)
    tensors = {
        "o": (size * torch.randn(rows, generator=random)).bfloat16(),
        "z": torch.randn(rows, generator=random).bfloat16(),
        "weight": (1 + 0.5 * torch.randn(shape.V, generator=random)).bfloat16(),
    }
    if scenario == "saturated-gates":
        tensors["z"] = SATURATED * torch.sign(tensors["z"])
    return {name: tensor.to(device) for name, tensor in tensors.items()}, {}


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The output in float64, from the inputs as they are."""
    del scalars
    o, z = tensors["o"].double(), tensors["z"].double()
    normalised = o / torch.sqrt(o.square().mean(-1, keepdim=True) + EPS)
    return {"y": normalised * tensors["weight"].double() * F.silu(z)}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the output may be off by where all arithmetic is fp32, element by element, in unit roundoffs (2^-24).

    All that happens to an element is products, so that relative errors add up: those of the norm, half of what its sum
    of squares has and its own, those of SiLU, and one for each product.
    """
    del scalars
    z = tensors["z"].float()
    y = oracle(tensors, {})["y"].float().abs()
    norm_off = math.sqrt(z.shape[-1]) / 2 + NORM_ROUNDOFFS
    silu_off = 2 + (1 - torch.sigmoid(z)) * z.abs()
    return {"y": y * (norm_off + silu_off + 3) + UNDERFLOW}
