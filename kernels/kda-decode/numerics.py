"""Inputs of Kimi Delta Attention's decode step; its oracle and roundoff are those of the delta rule's family."""

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
LOWER_BOUND = {0: 0.0, 1: -5.0}  # of a channel's log decay by GATE; 0 is none
RATES = {0: (1.0, 16.0), 1: (0.5, 1.5)}  # exp(A_log) by GATE; that with a bound is drawn so that bf16 resolves it
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
SMALL = 2.0**-10  # of keys and queries: the norms' epsilon is then as large as their squares
BF16 = 16  # bits of a state's element


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs.

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
            or a profile of `gdnbench.decays.CHANNEL_PROFILES`.

    Returns:
        The input tensors and the scalars, by name.
    """
    B, H, K, V = shape.B, shape.H, shape.K, shape.V
    random = torch.Generator(device="cpu").manual_seed(seed)
    mixed_qkv = torch.randn(B, H * (2 * K + V), generator=random).bfloat16()
    b = torch.randn(B, H, generator=random).bfloat16()
    A_log = torch.empty(H).uniform_(*RATES[shape.GATE], generator=random).log()
    dt = torch.empty(H, K).uniform_(1e-3, 0.1, generator=random)
    dt_bias = dt + torch.log(-torch.expm1(-dt))
    drawn = torch.randn(B, H, K, generator=random).bfloat16()
    g = channel_gate_of_profile(scenario, drawn, A_log, dt_bias, shape.GATE == BOUNDED, random)
    states = delta_rule.written_states((B, H, V, K), random, device)
    if scenario == "large-state":
        states *= LARGE
    if scenario == "saturated-gates":
        g, b = (SATURATED * torch.sign(each.float()).bfloat16() for each in (drawn, b))
    if scenario == "small-keys":
        mixed_qkv[:, : 2 * H * K] *= SMALL
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


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live, slot = _live(tensors)
    pool = tensors["pool"].double()
    output, states = delta_rule.recurrence(_tokens(tensors, live, torch.float64), pool[slot], **scalars)
    pool[slot] = states[:, 0]
    return {"output": _of_batch(live, output[:, 0]), "new_pool": pool}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by in fp32, in unit roundoffs; what is not touched has none."""
    live, slot = _live(tensors)
    state = tensors["pool"][slot].float()
    output_off, states_off = delta_rule.roundoff(_tokens(tensors, live, torch.float32), state, **scalars)
    pool_off = torch.zeros_like(tensors["pool"], dtype=torch.float32)
    pool_off[slot] = states_off[:, 0]
    return {"output": _of_batch(live, output_off[:, 0]), "new_pool": pool_off}


def _live(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Which entries of the batch are sequences, and the slots of those."""
    live = tensors["slot"] > 0
    return live, tensors["slot"][live].long()


def _tokens(tensors: Tensors, live: torch.Tensor, dtype: torch.dtype) -> delta_rule.Tokens:
    """One token of each sequence."""
    H, V, K = tensors["pool"].shape[1:]
    mixed_qkv, g, b = (tensors[name][live, None].to(dtype) for name in ("mixed_qkv", "g", "b"))
    q, k, v = delta_rule.unpacked(mixed_qkv, (H, H, V, K))
    return delta_rule.Tokens(q, k, v, g + tensors["dt_bias"].to(dtype), tensors["A_log"].to(dtype), b)


def _of_batch(live: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of the sequences among those of the whole batch, where padding has zero."""
    outputs = rows.new_zeros(len(live), *rows.shape[1:])
    outputs[live] = rows
    return outputs
