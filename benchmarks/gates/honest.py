"""Honest decode steps: every intermediate result in fp32, in the ways that kernels of this repository and libraries go.

A kernel's arithmetic here is a pair of gates, an order of summation and a formula; what a variant mirrors is its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .units import (
    LN_2,
    LOG2_E,
    Dot,
    SpecialFunctions,
    fma,
    four_a_lane,
    log1p_polynomial,
    one_chain,
    rounded_tree,
    shuffled,
    two_chains,
)

Outputs = tuple[Tensor, Tensor]
"""Output [B, 1, HV, V], before it is rounded to bf16, and new state [B, HV, V, K], both fp32."""

GatePair = tuple[Tensor, Tensor]
"""The decay g and beta, [B, HV, 1] in fp32."""


@dataclass(frozen=True)
class Step:
    """One decode step's inputs in fp32, heads spread out.

    Attributes:
        q, k: [B, HV, 1, K].
        v: [B, HV, V].
        state: [B, HV, V, K].
        A_log, dt_bias: [HV].
        a, b: [B, HV].
        scale: of the output.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    state: Tensor
    A_log: Tensor
    dt_bias: Tensor
    a: Tensor
    b: Tensor
    scale: float

    @classmethod
    def of(cls, tensors: dict[str, Tensor], scalars: dict[str, float]) -> Step:
        """From the op's inputs."""
        share = tensors["v"].shape[2] // tensors["q"].shape[2]
        q, k = (tensors[name][:, 0].float().repeat_interleave(share, dim=1)[:, :, None] for name in ("q", "k"))
        v, a, b = (tensors[name][:, 0].float() for name in ("v", "a", "b"))
        return cls(q, k, v, tensors["state"], tensors["A_log"], tensors["dt_bias"], a, b, scalars["scale"])


def library_gates(step: Step) -> GatePair:
    """By exp and log1p of a mathematical library, to 1 ulp."""
    g = torch.exp(-torch.exp(step.A_log) * F.softplus(step.a + step.dt_bias))
    return g[..., None], torch.sigmoid(step.b)[..., None]


def short_gates(step: Step, unit: SpecialFunctions) -> GatePair:
    """Special functions, and a polynomial for log1p: decode-v7 to v9 and decode-triton-one."""
    x = step.a + step.dt_bias
    softplus = x.clamp(min=0) + log1p_polynomial(unit.ex2(-LOG2_E * x.abs(), towards=-1))
    rate = unit.ex2(LOG2_E * step.A_log, towards=-1) * softplus
    return unit.ex2(-LOG2_E * rate)[..., None], _sigmoid(step.b, unit)[..., None]


def threshold_gates(step: Step, unit: SpecialFunctions) -> GatePair:
    """Softplus as log(1 + exp(x)) up to x = 20, and x beyond: FLA, and many more."""
    x = step.a + step.dt_bias
    power = unit.ex2(LOG2_E * x.clamp(max=20), towards=-1)
    softplus = torch.where(x > 20, x, LN_2 * unit.lg2(1 + power, towards=-1))
    log_decay = -unit.ex2(LOG2_E * step.A_log, towards=-1) * softplus
    return unit.ex2(LOG2_E * log_decay)[..., None], _sigmoid(step.b, unit)[..., None]


def _sigmoid(b: Tensor, unit: SpecialFunctions) -> Tensor:
    return unit.rcp(1 + unit.ex2(-LOG2_E * b, towards=-1))


def decay_first(step: Step, gates: GatePair, dot: Dot) -> Outputs:
    """The formula as it is written; the update is one multiply-add."""
    g, beta = gates
    decayed = g[..., None] * step.state
    delta = beta * (step.v - dot(decayed, step.k))
    state = fma(delta[..., None], step.k, decayed)
    return (step.scale * dot(state, step.q))[:, None], state


def query_scaled_first(step: Step, gates: GatePair, dot: Dot) -> Outputs:
    """FLA: q is scaled before the sums, and the update is rounded before it is added."""
    g, beta = gates
    decayed = step.state * g[..., None]
    delta = beta * (step.v - dot(decayed, step.k))
    state = decayed + step.k * delta[..., None]
    return dot(state, step.q * step.scale)[:, None], state


def decay_last(step: Step, gates: GatePair, dot: Dot) -> Outputs:
    """decode-v7 to v9: all sums are over what was loaded."""
    g, beta = gates
    sk, sq, qk = dot(step.state, step.k), dot(step.state, step.q), dot(step.q, step.k)
    delta = beta * fma(-g, sk, step.v)
    state = fma(delta[..., None], step.k, g[..., None] * step.state)
    return (step.scale * fma(g, sq, delta * qk))[:, None], state


def beta_distributed(step: Step, gates: GatePair, dot: Dot) -> Outputs:
    """The update as beta v - (beta g) (S k), nothing fused: products that cancel where S k is near v."""
    g, beta = gates
    delta = beta * step.v - (beta * g) * dot(step.state, step.k)
    state = g[..., None] * step.state + delta[..., None] * step.k
    output = step.scale * (g * dot(step.state, step.q)) + step.scale * (delta * dot(step.q, step.k))
    return output[:, None], state


def library_dot(x: Tensor, y: Tensor) -> Tensor:
    """Torch's own sum."""
    return (x * y).sum(-1)


def honest_outputs(step: Step, random: torch.Generator) -> Iterator[tuple[str, Outputs]]:
    """What each variant writes for a step.

    Args:
        step: the inputs.
        random: of special functions' errors and orders of summation.
    """
    unit, high, low = (SpecialFunctions(random, always) for always in (0, 1, -1))
    library, threshold = library_gates(step), threshold_gates(step, unit)
    variants: dict[str, Callable[[], Outputs]] = {
        "reference": lambda: decay_first(step, library, library_dot),
        "v1 to v6": lambda: decay_first(step, library, four_a_lane),
        "v7 to v9": lambda: decay_last(step, short_gates(step, unit), two_chains),
        "triton-one": lambda: decay_last(step, short_gates(step, unit), rounded_tree),
        "FLA": lambda: query_scaled_first(step, threshold, rounded_tree),
        "one chain": lambda: decay_first(step, library, one_chain),
        "shuffled": lambda: beta_distributed(step, threshold, shuffled(random)),
        "worst, high": lambda: decay_first(step, threshold_gates(step, high), one_chain),
        "worst, low": lambda: beta_distributed(step, threshold_gates(step, low), one_chain),
    }
    for name, compute in variants.items():
        yield name, compute()
