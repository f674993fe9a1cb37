"""Inputs of Kimi Delta Attention over draft tokens; oracle and roundoff are those of the delta rule's family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdnbench import delta_rule
from gdnbench.decays import channel_gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pool, as op.py declares its size
BOUNDED = 1  # of GATE
EACH, NONE = 1, 2  # of KEEP: which states are written, but for the last
LOWER_BOUND = {0: 0.0, 1: -5.0}  # of a channel's log decay by GATE; 0 is none
RATES = {0: (1.0, 16.0), 1: (0.5, 1.5)}  # exp(A_log) by GATE; that with a bound is drawn so that bf16 resolves it
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
SMALL = 2.0**-10  # of keys and queries: the norms' epsilon is then as large as their squares
BF16 = 16  # bits of a state's element


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of a step.

    q, k, v and b ~ N(0, 1); A_log = log U(1, 16), or log U(0.5, 1.5) with a bound; dt_bias is the inverse softplus of
    U(1e-3, 0.1); g gives the profile's decays with these. The batch's slots are drawn from 1 on without repetition; to
    their states a few keys and values have been written, and all other slots hold other numbers.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, decays as in `spread`, and so in the others; `padded`, every third entry of the batch, the
            first among them, is none, by a slot of 0 and of -1 in turn; `saturated-gates`, g and b at ±30;
            `large-state`, states of about 1e3; `small-keys`, queries and keys so small that the norms' epsilon counts;
            `alike-keys`, the keys of a sequence's tokens near each other, so that they see each other; or a profile of
            `gdnbench.decays.CHANNEL_PROFILES`.

    Returns:
        The input tensors and the scalars, by name.
    """
    B, T, H, K, V = shape.B, shape.T, shape.H, shape.K, shape.V
    random = torch.Generator(device="cpu").manual_seed(seed)
    mixed_qkv = torch.randn(B, T, H * (2 * K + V), generator=random).bfloat16()
    b = torch.randn(B, T, H, generator=random).bfloat16()
    A_log = torch.empty(H).uniform_(*RATES[shape.GATE], generator=random).log()
    dt = torch.empty(H, K).uniform_(1e-3, 0.1, generator=random)
    dt_bias = dt + torch.log(-torch.expm1(-dt))
    drawn = torch.randn(B, T, H, K, generator=random).bfloat16()
    g = channel_gate_of_profile(scenario, drawn, A_log, dt_bias, shape.GATE == BOUNDED, random)
    states = delta_rule.written_states((B, H, V, K), random, device)
    if scenario == "large-state":
        states *= LARGE
    if scenario == "saturated-gates":
        g, b = (SATURATED * torch.sign(each.float()).bfloat16() for each in (drawn, b))
    if scenario == "small-keys":
        mixed_qkv[..., : 2 * H * K] *= SMALL
    if scenario == "alike-keys":
        mixed_qkv[..., H * K : 2 * H * K] += 2 * mixed_qkv[:, :1, H * K : 2 * H * K].clone()
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * B)
    slot = delta_rule.drawn_slots(count, B, scenario == "padded", random)
    dtype = torch.bfloat16 if shape.STATE == BF16 else torch.float32
    pool = delta_rule.other_states((count, H, V, K), dtype, random, device)
    live = slot > 0
    pool[slot[live].to(device)] = states[live.to(device)].to(dtype)
    tensors = {"mixed_qkv": mixed_qkv, "g": g, "b": b, "A_log": A_log, "dt_bias": dt_bias, "pool": pool}
    tensors["slot"] = slot.int()
    scalars = {"scale": K**-0.5, "lower_bound": LOWER_BOUND[shape.GATE], "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    return _of_batch(tensors, workload, delta_rule.recurrence(*_of_sequences(tensors, torch.float64), **scalars))


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the outputs may be off by in fp32, in unit roundoffs; what is no sequence has none."""
    return _of_batch(tensors, workload, delta_rule.roundoff(*_of_sequences(tensors, torch.float32), **scalars))


def _of_sequences(tensors: Tensors, dtype: torch.dtype) -> tuple[delta_rule.Tokens, torch.Tensor]:
    """The tokens of those entries of the batch that are sequences, and their states."""
    live = tensors["slot"] > 0
    H, V, K = tensors["pool"].shape[1:]
    mixed_qkv, g, b = (tensors[name][live].to(dtype) for name in ("mixed_qkv", "g", "b"))
    x = g + tensors["dt_bias"].to(dtype)
    tokens = delta_rule.Tokens(*delta_rule.unpacked(mixed_qkv, (H, H, V, K)), x, tensors["A_log"].to(dtype), b)
    return tokens, tensors["pool"][tensors["slot"][live].long()].to(dtype)


def _of_batch(tensors: Tensors, workload: Shape, of_sequences: tuple[torch.Tensor, torch.Tensor]) -> Tensors:
    """What is known of the sequences, as outputs of the whole batch: padding is zero, and some states are not kept."""
    live, (output, states) = tensors["slot"] > 0, of_sequences
    if workload.KEEP != EACH:
        states = states[:, :0] if workload.KEEP == NONE else states[:, -1:]
    outputs = {"output": output, "states": states}
    spread = {name: each.new_zeros(len(live), *each.shape[1:]) for name, each in outputs.items()}
    for name, each in outputs.items():
        spread[name][live] = each
    return spread
