"""Inputs of what comes before a decode step's recurrence, its float64 oracle, and the roundoff that is allowed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

EPS = 1e-6  # below the root of a norm
TAPS = 4
FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pool, as op.py declares its size
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 16.0  # of inputs: SiLU is the identity or zero, and sums of taps cancel
SMALL = 2.0**-11  # of inputs: EPS is then as large as the squares of a query or key
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
NORM_ROUNDOFFS = 4.0  # of the root, the quotient and the products that a norm takes, beside its sum
TO_BF16 = 2.0**13  # a rounding to bf16 is no more than 2^16 roundoffs of fp32, and the gate allows 8 times what is here


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs.

    x and the last inputs ~ N(0, 1), taps ~ U(-1/2, 1/2) as a convolution of width 4 is initialised; A_log = log U(1,
    16); dt_bias is the inverse softplus of U(1e-3, 0.1); a, b ~ N(0, 1). The batch's slots are drawn from 1 on without
    repetition.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`; `padded`, every third entry of the batch, the first among them, is none, by a slot of 0
            and of -1 in turn; `saturated-gates`, a and b at ±30; `large-inputs`, 16 times as large; `small-inputs`, so
            small that the norms' epsilon counts; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalar, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    B, HV, mixed = shape.B, shape.HV, 2 * shape.HQ * shape.K + shape.HV * shape.V
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * B)
    size = {"large-inputs": LARGE, "small-inputs": SMALL}.get(scenario, 1.0)
    dt = torch.empty(HV).uniform_(1e-3, 0.1, generator=random)
    tensors = {
        "x": (size * torch.randn(B, mixed, generator=random)).bfloat16(),
        "conv_weight": torch.empty(mixed, TAPS).uniform_(-0.5, 0.5, generator=random).bfloat16(),
        "conv_pool": (size * torch.randn(count, mixed, TAPS - 1, generator=random)).bfloat16(),
        "slot": 1 + torch.randperm(count - 1, generator=random)[:B].int(),
        "a": torch.randn(B, HV, generator=random).bfloat16(),
        "b": torch.randn(B, HV, generator=random).bfloat16(),
        "A_log": torch.empty(HV).uniform_(1.0, 16.0, generator=random).log(),
        "dt_bias": dt + torch.log(-torch.expm1(-dt)),
    }
    if scenario == "saturated-gates":
        for name in ("a", "b"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    if scenario == "padded":
        tensors["slot"][::6], tensors["slot"][3::6] = 0, -1
    tensors = {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}
    return tensors, {"beta_limit": float(shape.BETA)}


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live = tensors["slot"] > 0
    inputs = _inputs(tensors, torch.float64)
    y = F.silu((inputs * tensors["conv_weight"].double()).sum(-1))
    q, k, v = _split(y, workload)
    g = torch.exp(-tensors["A_log"].double().exp() * F.softplus(tensors["a"].double() + tensors["dt_bias"].double()))
    beta = scalars["beta_limit"] * torch.sigmoid(tensors["b"].double())
    outputs = {"q": _normalised(q), "k": _normalised(k), "v": v, "g": g, "beta": beta}
    outputs = {name: _where_live(live, output) for name, output in outputs.items()}
    return {**outputs, "new_conv_pool": shifted(tensors, inputs)}


def shifted(tensors: Tensors, inputs: torch.Tensor) -> torch.Tensor:
    """The pool [slots, mixed, 3] after the step, in the dtype of the inputs [B, mixed, 4] of the convolution."""
    live = tensors["slot"] > 0
    pool = tensors["conv_pool"].to(inputs.dtype)
    pool[tensors["slot"][live].long()] = inputs[live][..., 1:]
    return pool


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the outputs may be off by where all is fp32, but a convolved input is rounded to bf16, in units of 2^-24.

    To first order, one roundoff an operation (see the decode step's over a pool). An input that was rounded to bf16
    counts as much as such a rounding can be. A norm's error is common to all elements of its key or query: of a sum of
    squares whose elements were each rounded it is the root of the sum of squares of what each adds to it, as they are
    independent, times three; or their sum, where that is less.
    """
    live = tensors["slot"] > 0
    y, y_off = convolved(tensors)
    (q, k, _), (q_off, k_off, v_off) = _split(y, workload), _split(y_off, workload)
    found = {"v": v_off}
    for name, rows, rows_off in (("q", q, q_off), ("k", k, k_off)):
        rounded_off = rows_off + TO_BF16 * rows.abs()
        inverse, common = norm_of(rows, rounded_off)
        found[name] = inverse * rounded_off + (inverse * rows).abs() * common
    x, b = tensors["a"].float() + tensors["dt_bias"], tensors["b"].float()
    rate, softplus = tensors["A_log"].exp(), F.softplus(x)
    off = 1 + softplus + torch.sigmoid(x) * x.abs()  # softplus(x)
    off = rate * (off + softplus * (1 + tensors["A_log"].abs()))  # exp(A_log) softplus(x)
    sigmoid = torch.sigmoid(b)
    found["g"] = torch.exp(-rate * softplus) * (1 + rate * softplus + off) + UNDERFLOW
    # A limit of 1 or 2 is exact.
    found["beta"] = scalars["beta_limit"] * (sigmoid * (1 + (1 - sigmoid) * b.abs()) + UNDERFLOW)
    return {name: _where_live(live, each) for name, each in found.items()}


def convolved(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """SiLU of the convolution, [B, mixed] in fp32, and its roundoff where that is fp32."""
    products = _inputs(tensors, torch.float32) * tensors["conv_weight"].float()
    c, c_off = products.sum(-1), math.sqrt(TAPS) * products.abs().sum(-1)
    gate = torch.sigmoid(c)
    slope = gate * (1 + c * (1 - gate))
    return c * gate, slope.abs() * c_off + (c * gate).abs() * (2 + (1 - gate) * c.abs()) + UNDERFLOW


def norm_of(rows: torch.Tensor, off: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """1 / sqrt(|row|^2 + EPS) of rows whose elements have a roundoff, and its own roundoff, relative; [..., 1] both."""
    squares = rows.square().sum(-1, keepdim=True) + EPS
    added = (rows * off).abs()
    most = torch.minimum(3 * added.square().sum(-1, keepdim=True).sqrt(), added.sum(-1, keepdim=True))
    return squares.rsqrt(), most / squares + math.sqrt(rows.shape[-1]) / 2 + NORM_ROUNDOFFS


def _inputs(tensors: Tensors, dtype: torch.dtype) -> torch.Tensor:
    """What each channel's taps are multiplied with, the oldest first: [B, mixed, 4]. Of padding it is anything."""
    before = tensors["conv_pool"][tensors["slot"].clamp(min=0).long()]
    return torch.cat([before, tensors["x"][..., None]], dim=-1).to(dtype)


def _split(y: torch.Tensor, workload: Shape) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Channels [B, mixed] as queries and keys [B, HQ, K] and values [B, HV, V]."""
    HQ, HV, K, V = workload.HQ, workload.HV, workload.K, workload.V
    q, k, v = y.split((HQ * K, HQ * K, HV * V), dim=1)
    return q.unflatten(1, (HQ, K)), k.unflatten(1, (HQ, K)), v.unflatten(1, (HV, V))


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    return rows / torch.sqrt((rows * rows).sum(-1, keepdim=True) + EPS)


def _where_live(live: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows [B, ...] of sequences, and zeros for padding."""
    return torch.where(live.reshape(-1, *(1,) * (rows.dim() - 1)), rows, 0.0)
