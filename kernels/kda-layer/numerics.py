"""Inputs of a Kimi Delta Attention layer's decode step, its float64 oracle, and the roundoff that kernels may have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from gdnbench import delta_rule
from gdnbench.decays import channel_gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

EPS = 1e-5  # below the root of the norm of outputs
TAPS = 4
FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pools, as op.py declares their sizes
BOUNDED = 1  # of GATE
LOWER_BOUND = {0: 0.0, 1: -5.0}  # of a channel's log decay by GATE; 0 is none
RATES = {0: (1.0, 16.0), 1: (0.5, 1.5)}  # exp(A_log) by GATE; that with a bound is drawn so that bf16 resolves it
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
SMALL = 2.0**-11  # of inputs: the norms' epsilon is then as large as the squares of a query or key
SMALL_STATE = 2.0**-4  # and as the mean square of an output
BF16 = 16  # bits of a state's element
WHOLE = (5, 9)  # inputs in fours whose convolution is a whole number from 20 to 128
ALLOWED = 8.0  # times what is here, by the gate
TO_BF16 = 2.0**15 / ALLOWED  # the most that a rounding to bf16 is, in roundoffs of fp32, relative


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs.

    x, the last inputs, b and z ~ N(0, 1); taps ~ U(-1/2, 1/2), as a convolution of width 4 is initialised; weights ~
    N(1, 1/4); A_log = log U(1, 16), or log U(0.5, 1.5) with a bound; dt_bias is the inverse softplus of U(1e-3, 0.1); g
    gives the profile's decays with these. The batch's slots are drawn from 1 on without repetition; to their states a
    few keys and values have been written, and all other slots hold other numbers.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, decays as in `spread`, and so in the others; `padded`, every third entry of the batch, the
            first among them, is none, by a slot of 0 and of -1 in turn; `saturated-gates`, g, b and z at ±30;
            `large-state`, states of about 1e3; `small-inputs`, inputs and states so small that all norms' epsilon
            counts; `whole-numbers`, inputs and weights whose convolution is a whole number, so that no rounding to bf16
            behind it hides another error; or a profile of `gdnbench.decays.CHANNEL_PROFILES`.

    Returns:
        The input tensors and the scalars, by name.
    """
    B, H, K, V = shape.B, shape.H, shape.K, shape.V
    random = torch.Generator(device="cpu").manual_seed(seed)
    count, mixed = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * B), 3 * H * K
    A_log = torch.empty(H).uniform_(*RATES[shape.GATE], generator=random).log()
    dt = torch.empty(H, K).uniform_(1e-3, 0.1, generator=random)
    dt_bias = dt + torch.log(-torch.expm1(-dt))
    tensors = {
        "conv_weight": torch.empty(3, TAPS, H * K).uniform_(-0.5, 0.5, generator=random),
        "weight": 1 + 0.5 * torch.randn(V, generator=random),
        "x": torch.randn(B, mixed, generator=random).bfloat16(),
        "conv_pool": torch.randn(count, TAPS - 1, mixed, generator=random).bfloat16(),
        "g": torch.randn(B, H, K, generator=random).bfloat16(),
        "b": torch.randn(B, H, generator=random).bfloat16(),
        "z": torch.randn(B, H, V, generator=random).bfloat16(),
    }
    drawn = tensors["g"]
    tensors["g"] = channel_gate_of_profile(scenario, drawn, A_log, dt_bias, shape.GATE == BOUNDED, random)
    if scenario == "saturated-gates":
        tensors["g"] = drawn
        for name in ("g", "b", "z"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    if scenario == "whole-numbers":
        tensors["conv_weight"] = torch.randint(1, 5, (3, TAPS, H * K), generator=random) / 4
        for name in ("x", "conv_pool"):
            tensors[name] = 4 * torch.randint(*WHOLE, tensors[name].shape, generator=random).bfloat16()
    if scenario == "small-inputs":
        for name in ("x", "conv_pool"):
            tensors[name] *= SMALL
    states = delta_rule.written_states((B, H, V, K), random, device)
    states *= {"large-state": LARGE, "small-inputs": SMALL_STATE}.get(scenario, 1.0)
    slot = delta_rule.drawn_slots(count, B, scenario == "padded", random)
    dtype = torch.bfloat16 if shape.STATE == BF16 else torch.float32
    pool = delta_rule.other_states((count, H, V, K), dtype, random, device)
    live = slot > 0
    pool[slot[live].to(device)] = states[live.to(device)].to(dtype)
    tensors |= {"A_log": A_log, "dt_bias": dt_bias, "pool": pool, "slot": slot.int()}
    scalars = {"scale": K**-0.5, "lower_bound": LOWER_BOUND[shape.GATE]}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live, slot = _live(tensors)
    inputs, pool = _inputs(tensors, live), tensors["pool"].double()
    convolved, _ = convolution(inputs.double(), tensors["conv_weight"].double())
    o, states = delta_rule.recurrence(_tokens(tensors, live, convolved), pool[slot], beta_limit=1.0, **scalars)
    pool[slot], o = states[:, 0], o[:, 0]
    y = o / torch.sqrt(o.square().mean(-1, keepdim=True) + EPS)
    y *= tensors["weight"].double() * torch.sigmoid(tensors["z"][live].double())
    conv_pool = tensors["conv_pool"].double()
    conv_pool[slot] = inputs[:, 1:].double()
    return {"y": _of_batch(live, y), "new_conv_pool": conv_pool, "new_pool": pool}


def convolution(inputs: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """SiLU of the sums of taps, and their roundoff in fp32, both [N, mixed].

    Args:
        inputs: [N, 4, mixed], the oldest first.
        weight: [3, 4, mixed / 3], of queries, keys and values.
    """
    products = inputs * weight.transpose(0, 1).flatten(1)
    c, c_off = products.sum(1), math.sqrt(TAPS) * products.abs().sum(1)
    gate = torch.sigmoid(c)
    slope = gate * (1 + c * (1 - gate))
    off = slope.abs() * c_off + (c * gate).abs() * (2 + (1 - gate) * c.abs()) + delta_rule.UNDERFLOW
    return c * gate, off


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where all is fp32, but for roundings to bf16 between launches, in units of 2^-24.

    To first order, one roundoff an operation (see `delta_rule.roundoff`), and for each of the roundings that op.py
    names what it may change. These are independent of each other, so that a sum of products with what was rounded has
    the root of the sum of squares, times three, or the plain sum, where that is less; but rows of the state share what
    is rounded in q and k, so that for the norm of outputs it is the plain sum. A norm's error is common to all elements
    of its row.

    What is not touched, and the output of what is no sequence, has none. Each comment says of which value the line has
    the roundoff. Computed in fp32, which is enough for a size.
    """
    live, slot = _live(tensors)
    state = tensors["pool"][slot].float()
    terms, scale = math.sqrt(state.shape[-1]), scalars["scale"]
    convolved, off = convolution(_inputs(tensors, live).float(), tensors["conv_weight"])
    raw, raw_off = (_split(each, state.shape[1:]) for each in (convolved, _rounded_off(convolved, off)))
    t = _tokens(tensors, live, convolved)
    q, k, v, v_off = t.q[:, 0], t.k[:, 0], t.v[:, 0], raw_off[2]
    (q_off, q_common), (k_off, k_common) = (_normalised_off(raw[i], raw_off[i]) for i in (0, 1))
    g, g_off, beta, beta_off = (each[:, 0] for each in delta_rule.gates_of(t, 1.0, scalars["lower_bound"]))

    def along(row: torch.Tensor, off: torch.Tensor, common: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The decayed state times a vector [N, H, K], and its roundoff, both [N, H, V]."""
        product, own = delta_rule.decayed_times(state, state.abs(), row, g, g_off, terms + 1, 0.0)
        return product, own + _sum_off(state, g * off) + common * product.abs()

    retrieved, retrieved_off = along(k, k_off, k_common)
    delta = beta * (v - retrieved)
    delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v_off + v.abs() + retrieved.abs())
    state_off = (g + g_off)[..., None, :] * state.abs()
    state_off += (delta.abs() + delta_off + k_common * delta.abs())[..., None] * k.abs()[..., None, :]
    state_off += delta.abs()[..., None] * (k.abs() + k_off)[..., None, :]

    kept, kept_off = along(q, q_off, q_common)
    qk = (q * k).sum(-1, keepdim=True)
    qk_off = (terms + 2) * (q * k).abs().sum(-1, keepdim=True) + (q_common + k_common) * qk.abs()
    qk_off += 3 * ((q_off * k).square() + (q * k_off).square()).sum(-1, keepdim=True).sqrt()
    o = scale * (kept + delta * qk)
    o_off = scale * (kept_off + delta_off * qk.abs() + delta.abs() * qk_off) + o.abs()
    o_off = _rounded_off(o, o_off)

    squares = o.square().mean(-1, keepdim=True) + EPS
    common = (o.abs() * o_off).mean(-1, keepdim=True) / squares
    common += math.sqrt(o.shape[-1]) / 2 + delta_rule.NORM_ROUNDOFFS
    z = tensors["z"][live].float()
    factor = squares.rsqrt() * tensors["weight"].abs() * torch.sigmoid(z)
    sigmoid_off = 2 + (1 - torch.sigmoid(z)) * z.abs()  # relative
    y_off = factor * (o_off + o.abs() * (common + sigmoid_off + 3)) + delta_rule.UNDERFLOW
    pool_off = torch.zeros_like(tensors["pool"], dtype=torch.float32)
    pool_off[slot] = state_off
    return {"y": _of_batch(live, y_off), "new_pool": pool_off}


def _rounded_off(rows: torch.Tensor, off: torch.Tensor) -> torch.Tensor:
    """Of rows that were off by so much, and are rounded to bf16: where they are near to one, less than it can be."""
    distance = (rows - rows.bfloat16().float()).abs() * 2.0**24 / ALLOWED
    return off + torch.minimum(2 * TO_BF16 * rows.abs(), 2 * distance + off)


def _sum_off(state: torch.Tensor, off: torch.Tensor) -> torch.Tensor:
    """Of the state [N, H, V, K] times a vector whose elements are off by so much, [N, H, V]."""
    independent = 3 * torch.einsum("nhvk,nhk->nhv", state.square(), off.square()).sqrt()
    return torch.minimum(independent, torch.einsum("nhvk,nhk->nhv", state.abs(), off))


def _normalised_off(rows: torch.Tensor, off: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of normalised rows [N, H, K] that were off before: an element's own, and the norm's, relative."""
    squares = rows.square().sum(-1, keepdim=True) + delta_rule.EPS
    added = (rows * off).abs()
    most = torch.minimum(3 * added.square().sum(-1, keepdim=True).sqrt(), added.sum(-1, keepdim=True))
    return squares.rsqrt() * off, most / squares + math.sqrt(rows.shape[-1]) / 2 + delta_rule.NORM_ROUNDOFFS


def _live(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Which entries of the batch are sequences, and the slots of those."""
    live = tensors["slot"] > 0
    return live, tensors["slot"][live].long()


def _inputs(tensors: Tensors, live: torch.Tensor) -> torch.Tensor:
    """What the taps of each sequence's channels are multiplied with, the oldest first, [N, 4, mixed]."""
    before = tensors["conv_pool"][tensors["slot"][live].long()]
    return torch.cat([before, tensors["x"][live, None]], dim=1)


def _split(convolved: torch.Tensor, sizes: torch.Size) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values, each [N, H, K]; sizes are H, V and K."""
    H, _, K = sizes
    return tuple(convolved.unflatten(1, (3, H, K)).unbind(1))


def _tokens(tensors: Tensors, live: torch.Tensor, convolved: torch.Tensor) -> delta_rule.Tokens:
    """One token of each sequence, from what the convolution leaves, in that dtype."""
    q, k, v = (each[:, None] for each in _split(convolved, tensors["pool"].shape[1:]))
    g, b, dt_bias, A_log = (tensors[name].to(convolved.dtype) for name in ("g", "b", "dt_bias", "A_log"))
    q, k = delta_rule.normalised(q), delta_rule.normalised(k)
    return delta_rule.Tokens(q, k, v, (g[live] + dt_bias)[:, None], A_log, b[live, None])


def _of_batch(live: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of the sequences among those of the whole batch, where padding has zero."""
    outputs = rows.new_zeros(len(live), *rows.shape[1:])
    outputs[live] = rows
    return outputs
