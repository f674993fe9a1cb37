"""Dishonest decode steps: fp32 with one thing wrong or left out, each of a kind that has passed for an optimisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from .honest import GatePair, Outputs, Step, decay_first, library_dot, library_gates

PARTS = 8  # partial sums of a row


def tf32(x: Tensor) -> Tensor:
    """Rounded to the 10 explicit bits of significand that TF32 keeps, to nearest."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def bf16(x: Tensor) -> Tensor:
    """Rounded to bf16, and back."""
    return x.bfloat16().float()


def same(x: Tensor) -> Tensor:
    """Nothing rounded."""
    return x


Rounding = Callable[[Tensor], Tensor]


def update(
    step: Step,
    gates: GatePair,
    *,
    operand: Rounding = same,
    retrieved: Rounding = same,
    delta: Rounding = same,
    query: Rounding = same,
    dot: Callable[[Tensor, Tensor], Tensor] = library_dot,
) -> Outputs:
    """The formula as it is written, with something rounded on the way.

    Args:
        step: the inputs.
        gates: g and beta.
        operand: what happens to the decayed state before it meets k.
        retrieved: what happens to S k.
        delta: what happens to beta (v - S k) before it meets k.
        query: what happens to the new state before it meets q.
        dot: the sum of products.
    """
    g, beta = gates
    decayed = g[..., None] * step.state
    change = delta(beta * (step.v - retrieved(dot(operand(decayed), step.k))))
    state = decayed + change[..., None] * step.k
    return (step.scale * dot(query(state), step.q))[:, None], state


def bf16_parts(x: Tensor, y: Tensor) -> Tensor:
    """Partial sums in fp32, each rounded to bf16, then added."""
    products = x * y
    return bf16(products.reshape(*products.shape[:-1], PARTS, -1).sum(-1)).sum(-1)


def mistaken_outputs(step: Step, random: torch.Generator) -> Iterator[tuple[str, Outputs]]:
    """What each mistake writes for a step.

    Args:
        step: the inputs.
        random: which head or element is wrong.
    """
    g, beta = gates = library_gates(step)
    heads = g.shape[1]
    head = int(torch.randint(heads, (), generator=random))
    here = (torch.arange(heads) == head)[:, None]
    output, state = decay_first(step, gates, library_dot)
    neighbour = (torch.arange(heads) + 1) % heads
    yield "state kept in bf16", (output, bf16(state))
    yield "state kept in fp16", (output, state.half().float())
    yield "k.S in TF32", update(step, gates, operand=tf32)
    yield "update in TF32", update(step, gates, delta=tf32)
    yield "S.q in TF32", update(step, gates, query=tf32)
    yield "update in bf16", update(step, gates, delta=bf16)
    yield "S.k rounded to bf16", update(step, gates, retrieved=bf16)
    yield "partial sums in bf16", update(step, gates, dot=bf16_parts)
    yield "output rounded, then scaled", (_rounded_twice(step, state), state)
    yield "no scale", decay_first(replace(step, scale=1.0), gates, library_dot)
    yield "no beta", decay_first(step, (g, torch.ones_like(beta)), library_dot)
    for name, wrong in (
        ("no decay in one head", (torch.where(here, 1.0, g), beta)),
        ("one head's g of the next", (torch.where(here, g[:, neighbour], g), beta)),
        ("one head's beta of the next", (g, torch.where(here, beta[:, neighbour], beta))),
    ):
        yield name, decay_first(step, wrong, library_dot)
    yield "one element of the state", (output, _one_off(state, random))
    yield "one element of the output", (_two_ulps_off(output, random), state)


def _rounded_twice(step: Step, state: Tensor) -> Tensor:
    """The output's sum rounded to bf16, then scaled."""
    return (step.scale * bf16(library_dot(state, step.q)))[:, None]


def _one_off(state: Tensor, random: torch.Generator) -> Tensor:
    """One element off by a thousandth of its row's root mean square."""
    state = state.clone()
    row = state.view(-1, state.shape[-1])[int(torch.randint(state[..., 0].numel(), (), generator=random))]
    row[int(torch.randint(len(row), (), generator=random))] += 1e-3 * float(row.square().mean().sqrt())
    return state


def _two_ulps_off(output: Tensor, random: torch.Generator) -> Tensor:
    """One element off by two units in the last place of bf16."""
    output = output.bfloat16()
    output.view(-1).view(torch.int16)[int(torch.randint(output.numel(), (), generator=random))] += 2
    return output.float()
