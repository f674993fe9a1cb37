"""Inputs of a whole layer's decode step, its float64 oracle, and the roundoff that kernels may have on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

EPS = 1e-6  # below the root of each norm
TAPS = 4
FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pools, as op.py declares their sizes
WRITTEN = 8  # keys and values that a state holds
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
SMALL = 2.0**-11  # of inputs: EPS is then as large as the squares of a query or key
SMALL_STATE = 2.0**-4  # and as the mean square of an output
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
NORM_ROUNDOFFS = 4.0  # of the root, the quotient and the products that a norm takes, beside its sum
TO_BF16 = 2.0**13  # a rounding to bf16 is no more than 2^16 roundoffs of fp32, and the gate allows 8 times what is here


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs.

    x, the last inputs and z ~ N(0, 1); taps ~ U(-1/2, 1/2), as a convolution of width 4 is initialised; weights ~ N(1,
    1/4); A_log = log U(1, 16); dt_bias is the inverse softplus of U(1e-3, 0.1); a, b ~ N(0, 1). The batch's slots are
    drawn from 1 on without repetition; to their states a few keys and values have been written, and all other slots
    hold other numbers. A pool may have gigabytes, so that it is made on the device, from draws on the CPU: a seed means
    the same numbers everywhere but for roundoff.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`; `padded`, every third entry of the batch, the first among them, is none, by a slot of 0
            and of -1 in turn; `saturated-gates`, a, b and z at ±30; `large-state`, states of about 1e3; `small-inputs`,
            inputs and states so small that all norms' epsilon counts; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    B, HV, V, K = shape.B, shape.HV, shape.V, shape.K
    channels = 2 * shape.HQ * K + HV * V
    dt = torch.empty(HV).uniform_(1e-3, 0.1, generator=random)
    tensors = {
        "conv_weight": torch.empty(channels, TAPS).uniform_(-0.5, 0.5, generator=random).bfloat16(),
        "A_log": torch.empty(HV).uniform_(1.0, 16.0, generator=random).log(),
        "dt_bias": dt + torch.log(-torch.expm1(-dt)),
        "weight": (1 + 0.5 * torch.randn(V, generator=random)).bfloat16(),
    }
    states = _written_states(shape, random, device)
    states *= {"large-state": LARGE, "small-inputs": SMALL_STATE}.get(scenario, 1.0)
    tensors |= _draw(shape, random)
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * B)
    tensors["conv_pool"] = torch.randn(count, channels, TAPS - 1, generator=random).bfloat16()
    if scenario == "saturated-gates":
        for name in ("a", "b", "z"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    if scenario == "small-inputs":
        for name in ("x", "conv_pool"):
            tensors[name] *= SMALL
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    slot = 1 + torch.randperm(count - 1, generator=random)[:B]
    if scenario == "padded":
        slot[::6], slot[3::6] = 0, -1
    pool = _other_states(shape, count, random, device)
    live = slot > 0
    pool[slot[live].to(device)] = states[live.to(device)]
    tensors |= {"pool": pool, "slot": slot.int()}
    scalars = {"scale": K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def _draw(shape: Shape, random: torch.Generator) -> Tensors:
    """One step's own tensors on the CPU, so that a seed means the same numbers on every device."""
    B, HV = shape.B, shape.HV
    return {
        "x": torch.randn(B, 2 * shape.HQ * shape.K + HV * shape.V, generator=random).bfloat16(),
        "a": torch.randn(B, HV, generator=random).bfloat16(),
        "b": torch.randn(B, HV, generator=random).bfloat16(),
        "z": torch.randn(B, HV, shape.V, generator=random).bfloat16(),
    }


def _written_states(shape: Shape, random: torch.Generator, device: str) -> torch.Tensor:
    """States [B, HV, V, K] of values that were written with normalised keys, and decayed since."""
    written = (shape.B, shape.HV, WRITTEN)
    keys = F.normalize(torch.randn(*written, shape.K, generator=random), dim=-1)
    kept = torch.rand(*written, 1, generator=random)
    values = kept * torch.randn(*written, shape.V, generator=random)
    return values.to(device).mT @ keys.to(device)


def _other_states(shape: Shape, count: int, random: torch.Generator, device: str) -> torch.Tensor:
    """A pool [count, HV, V, K] whose slots differ: one draw, rolled and scaled for each."""
    drawn = torch.randn(shape.HV, shape.V, shape.K, generator=random).to(device)
    pool = torch.empty(count, *drawn.shape, device=device)
    for place in range(count):
        pool[place] = 0.05 * (1 + place % 7) * drawn.roll(place, dims=1)
    return pool


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live = tensors["slot"] > 0
    slot, t = tensors["slot"][live].long(), _live(tensors, live)
    inputs, pool = t["inputs"].double(), tensors["pool"].double()
    heads = _heads(convolved(inputs, t), t, pool.shape[1:])
    o, pool[slot] = recurrence(heads, pool[slot], **scalars)
    normalised = o / torch.sqrt(o.square().mean(-1, keepdim=True) + EPS)
    y = torch.zeros(tensors["z"].shape, dtype=torch.float64, device=o.device)
    y[live] = normalised * t["weight"].double() * F.silu(t["z"].double())
    conv_pool = tensors["conv_pool"].double()
    conv_pool[slot] = inputs[..., 1:]
    return {"y": y, "new_conv_pool": conv_pool, "new_pool": pool}


def convolved(inputs: torch.Tensor, t: Tensors) -> torch.Tensor:
    """SiLU of the sums of taps, [N, mixed], of inputs [N, mixed, 4], the oldest first; in their dtype."""
    return F.silu((inputs * t["conv_weight"].to(inputs.dtype)).sum(-1))


def recurrence(t: Tensors, state: torch.Tensor, scale: float, beta_limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence in the state's dtype; gives outputs [N, HV, V] and the new states [N, HV, V, K]."""
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"] + t["dt_bias"]))
    state = g[..., None, None] * state
    retrieved = torch.einsum("nhvk,nhk->nhv", state, t["k"])
    delta = beta_limit * torch.sigmoid(t["b"])[..., None] * (t["v"] - retrieved)
    state = state + delta[..., :, None] * t["k"][..., None, :]
    return scale * torch.einsum("nhvk,nhk->nhv", state, t["q"]), state


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where all is fp32, but for roundings to bf16 between launches, in units of 2^-24.

    To first order, one roundoff an operation (see the decode step's over a pool), and for each of the roundings that
    op.py names as much as it can be. These are independent of each other, so that a sum of products with what was
    rounded has the root of the sum of squares, times three, or the plain sum, where that is less; but rows of the state
    share what is rounded in q and k, so that for the norm of outputs it is the plain sum. A norm's error is common to
    all elements of its row.

    What is not touched, and the output of what is no sequence, has none. Each comment says of which value the line has
    the roundoff. Computed in fp32, which is enough for a size.
    """
    live = tensors["slot"] > 0
    slot, t = tensors["slot"][live].long(), _live(tensors, live)
    scale, limit = scalars["scale"], scalars["beta_limit"]
    state = tensors["pool"][slot].float()
    sizes, terms = state.shape[1:], math.sqrt(state.shape[-1])
    rows_off = convolution_off(t)  # what the convolution leaves
    heads = _heads(convolved(t["inputs"].float(), t), t, sizes)
    raw, raw_off = (_split(each, sizes) for each in (convolved(t["inputs"].float(), t), rows_off))
    q, k, v = heads["q"], heads["k"], heads["v"]
    q_off, q_common = _normalised_off(raw[0], raw_off[0])
    k_off, k_common = _normalised_off(raw[1], raw_off[1])
    v_off = raw_off[2] + TO_BF16 * v.abs()

    x, b, rate = heads["a"] + heads["dt_bias"], heads["b"], heads["A_log"].exp()
    softplus = F.softplus(x)
    off = 1 + softplus + torch.sigmoid(x) * x.abs()  # softplus(x)
    off = rate * (off + softplus * (1 + heads["A_log"].abs()))  # exp(A_log) softplus(x)
    g = torch.exp(-rate * softplus)[..., None]
    g_off = g * (1 + rate * softplus + off)[..., None] + UNDERFLOW
    sigmoid = torch.sigmoid(b)[..., None]  # a limit of 1 or 2 is exact
    beta_off = limit * (sigmoid * (1 + (1 - sigmoid) * b.abs()[..., None]) + UNDERFLOW)
    beta = limit * sigmoid

    def along(row: torch.Tensor, off: torch.Tensor, common: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The decayed state, g S, times a vector [N, HV, K], and its roundoff, both [N, HV, V]."""
        product = torch.einsum("nhvk,nhk->nhv", state, row)
        magnitude = torch.einsum("nhvk,nhk->nhv", state.abs(), row.abs())
        summed_off = torch.minimum(
            3 * torch.einsum("nhvk,nhk->nhv", state.square(), off.square()).sqrt(),
            torch.einsum("nhvk,nhk->nhv", state.abs(), off),
        )
        return g * product, g_off * product.abs() + g * ((terms + 1) * magnitude + summed_off + common * product.abs())

    retrieved, retrieved_off = along(k, k_off, k_common)
    delta = beta * (v - retrieved)
    delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v_off + v.abs() + retrieved.abs())
    state_off = (g + g_off)[..., None] * state.abs()
    state_off += (delta.abs() + delta_off + k_common * delta.abs())[..., None] * k.abs()[..., None, :]
    state_off += delta.abs()[..., None] * (k.abs() + k_off)[..., None, :]

    kept, kept_off = along(q, q_off, q_common)
    qk = (q * k).sum(-1, keepdim=True)
    qk_off = (terms + 2) * (q * k).abs().sum(-1, keepdim=True) + (q_common + k_common) * qk.abs()
    qk_off += 3 * ((q_off * k).square() + (q * k_off).square()).sum(-1, keepdim=True).sqrt()
    o = scale * (kept + delta * qk)
    o_off = scale * (kept_off + delta_off * qk.abs() + delta.abs() * qk_off) + (TO_BF16 + 1) * o.abs()

    squares = o.square().mean(-1, keepdim=True) + EPS
    inverse = squares.rsqrt()
    common = (o.abs() * o_off).mean(-1, keepdim=True) / squares + math.sqrt(o.shape[-1]) / 2 + NORM_ROUNDOFFS
    z = t["z"].float()
    factor = t["weight"].float() * F.silu(z)
    silu_off = 2 + (1 - torch.sigmoid(z)) * z.abs()  # relative
    y_off = (inverse * factor).abs() * (o_off + o.abs() * (common + silu_off + 3)) + UNDERFLOW

    found = {
        "y": torch.zeros(tensors["z"].shape, device=o.device),
        "new_pool": torch.zeros_like(tensors["pool"], dtype=torch.float32),
    }
    found["y"][live], found["new_pool"][slot] = y_off, state_off
    return found


def convolution_off(t: Tensors) -> torch.Tensor:
    """Of what the convolution leaves, [N, mixed], in fp32."""
    products = t["inputs"].float() * t["conv_weight"].float()
    c, c_off = products.sum(-1), math.sqrt(TAPS) * products.abs().sum(-1)
    gate = torch.sigmoid(c)
    slope = gate * (1 + c * (1 - gate))
    return slope.abs() * c_off + (c * gate).abs() * (2 + (1 - gate) * c.abs()) + UNDERFLOW


def _normalised_off(rows: torch.Tensor, off: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of normalised rows [N, HV, K], rounded to bf16 before and behind: an element's own, and the norm's, relative."""
    off = off + TO_BF16 * rows.abs()
    squares = rows.square().sum(-1, keepdim=True) + EPS
    added = (rows * off).abs()
    most = torch.minimum(3 * added.square().sum(-1, keepdim=True).sqrt(), added.sum(-1, keepdim=True))
    own = squares.rsqrt() * (off + TO_BF16 * rows.abs())
    return own, most / squares + math.sqrt(rows.shape[-1]) / 2 + NORM_ROUNDOFFS


def _live(tensors: Tensors, live: torch.Tensor) -> Tensors:
    """Of those entries of the batch that are sequences; `inputs` are what each channel's taps are multiplied with."""
    own = {name: tensors[name][live] for name in ("x", "a", "b", "z")}
    before = tensors["conv_pool"][tensors["slot"][live].long()]
    return {**tensors, **own, "inputs": torch.cat([before, own["x"][..., None]], dim=-1)}


def _split(y: torch.Tensor, sizes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Channels [N, mixed] as queries and keys [N, HV, K], which value heads share, and values [N, HV, V]."""
    HV, V, K = sizes
    HQ = (y.shape[1] - HV * V) // (2 * K)
    q, k, v = y.split((HQ * K, HQ * K, HV * V), dim=1)
    q, k = (each.unflatten(1, (HQ, K)).repeat_interleave(HV // HQ, dim=1) for each in (q, k))
    return q, k, v.unflatten(1, (HV, V))


def _heads(y: torch.Tensor, t: Tensors, sizes: tuple[int, ...]) -> Tensors:
    """What the recurrence takes, from what the convolution leaves, in that dtype."""
    q, k, v = _split(y, sizes)
    q, k = (rows / torch.sqrt((rows * rows).sum(-1, keepdim=True) + EPS) for rows in (q, k))
    return {"q": q, "k": k, "v": v, **{name: t[name].to(y.dtype) for name in ("a", "b", "A_log", "dt_bias")}}
