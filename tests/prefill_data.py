"""Prefill as kernels compute it, in torch: products of bf16 that add up in fp32, with a mistake if one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import Numerics, load_numerics
from gdnbench.model.op import Op

CHUNK = 64
MISTAKES = (
    "the state of the sequence's first chunk in every other",
    "a chunk's decay without its last token",
    "the state in bf16 from chunk to chunk",
    "the next sequence's tokens to fill up the last chunk",
    "no decay between tokens of a chunk",
    "beta left out of the coupling",
    "the first sequences swapped",
    "one element a thirtieth off",
)


@cache
def prefill_op() -> tuple[Op, Numerics]:
    """The op and its numerics."""
    catalog = load_catalog(default_roots())
    op = catalog.ops["prefill"]
    return op, load_numerics(op, catalog.op_folders[op.name])


def rounded(x: torch.Tensor) -> torch.Tensor:
    """As an operand of a product."""
    return x.bfloat16().float()


def naive_rate(t: dict[str, Any]) -> torch.Tensor:
    """log g as the logarithm of 1 + exp(x), which loses what is small beside 1; fp32 [T, HV]."""
    return -torch.exp(t["A_log"]) * torch.log(1 + torch.exp((t["a"].float() + t["dt_bias"]).clamp(max=80.0)))


def clipped_rate(t: dict[str, Any]) -> torch.Tensor:
    """log (g + 1e-10); fp32 [T, HV]."""
    return torch.log(torch.exp(naive_rate(t)) + 1e-10)


def truncated(x: torch.Tensor) -> torch.Tensor:
    """To the 11 bits of tf32, as tensor cores take fp32."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def rounded_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """To the nearest of 11 bits."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def as_it_is(x: torch.Tensor) -> torch.Tensor:
    """An operand in fp32."""
    return x


def computed(
    t: dict[str, Any],
    scale: float,
    mistake: str = "",
    *,
    rate: torch.Tensor | None = None,
    chunk: int = CHUNK,
    operand: Callable[[torch.Tensor], torch.Tensor] = rounded,
    cut: Callable[[torch.Tensor], torch.Tensor] = as_it_is,
    first_cut: int = 8,
) -> dict[str, torch.Tensor]:
    """The outputs of a kernel that takes so many tokens at once and rounds the operands of its products.

    Args:
        t: the inputs.
        scale: of the output.
        mistake: what it does wrong.
        rate: log g, [T, HV], if not as it should be.
        chunk: tokens.
        operand: rounds an operand.
        cut: rounds the state at the beginning of every eighth chunk from `first_cut` on.
        first_cut: a multiple of 8.
    """
    share = t["v"].shape[1] // t["q"].shape[1]
    q, k = (t[name].float().repeat_interleave(share, dim=1) for name in ("q", "k"))
    if rate is None:
        rate = -torch.exp(t["A_log"]) * F.softplus(t["a"].float() + t["dt_bias"])
    beta = torch.sigmoid(t["b"].float())
    output, state = torch.empty_like(t["v"]), t["state"].clone()
    for number, (begin, end) in enumerate(pairwise(t["cu_seqlens"].tolist())):
        for first in range(begin, end, chunk):
            if first - begin >= first_cut * chunk and (first - begin) % (8 * chunk) == 0:
                state[number] = cut(state[number])
            taken = slice(first, first + chunk if mistake == MISTAKES[3] else min(first + chunk, end))
            rows = [x[taken].transpose(0, 1) for x in (q, k, t["v"].float())]
            before = t["state"][number] if mistake == MISTAKES[0] else state[number]
            found, after = _chunk(*rows, rate[taken].T, beta[taken].T, before, mistake, operand)
            written = slice(first, min(first + chunk, end))
            output[written] = (scale * found.transpose(0, 1)[: min(chunk, end - first)]).bfloat16()
            state[number] = rounded(after) if mistake == MISTAKES[2] else after
    if mistake == MISTAKES[6]:
        state[:2] = state[:2].flip(0)
    if mistake == MISTAKES[7]:
        state.view(-1)[12345] += 0.03 * state.square().mean().sqrt()
    return {"output": output, "new_state": state}


def _chunk(q, k, v, rate, beta, state, mistake, operand):
    """One chunk of one sequence: q, k, v [heads, tokens, …], rate and beta [heads, tokens], state [heads, V, K]."""
    since = rate.cumsum(-1)
    above = torch.ones(since.shape[-1], since.shape[-1], dtype=torch.bool).triu(1)
    ratio = (since[..., :, None] - since[..., None, :]).masked_fill(above, -torch.inf).exp()
    if mistake == MISTAKES[4]:
        ratio = torch.ones_like(ratio).tril()
    g, column = since.exp()[..., None], beta[..., None]
    A = ((1.0 if mistake == MISTAKES[5] else column) * ratio * (k @ k.mT)).tril(-1)
    eye = torch.eye(A.shape[-1])
    inverse = operand(torch.linalg.solve_triangular(operand(A) + eye, eye, upper=False))
    w, y = operand(inverse @ operand(column * v)), operand(inverse @ operand(column * g * k))
    read = operand(state)
    u = operand(w - y @ read.mT)
    output = operand(g * q) @ read.mT + operand(ratio * (q @ k.mT)) @ u
    last = since[..., -2:-1] if mistake == MISTAKES[1] and since.shape[-1] > 1 else since[..., -1:]
    faded = operand((last - since).exp()[..., None] * k)
    return output, last.exp()[..., None] * state + u.mT @ faded


def token_after_token(t, scale, added=0.0):
    """The recurrence as the op declares it, in float64, but for what is added to each decay."""
    share = t["v"].shape[1] // t["q"].shape[1]
    q, k = (t[name].double().repeat_interleave(share, dim=1) for name in ("q", "k"))
    g = torch.exp(-torch.exp(t["A_log"].double()) * F.softplus(t["a"].double() + t["dt_bias"].double())) + added
    beta, v, state = torch.sigmoid(t["b"].double()), t["v"].double(), t["state"].double()
    output = torch.empty_like(v)
    for number, (begin, end) in enumerate(pairwise(t["cu_seqlens"].tolist())):
        for token in range(begin, end):
            decayed = g[token][:, None, None] * state[number]
            delta = beta[token][:, None] * (v[token] - torch.einsum("hvk,hk->hv", decayed, k[token]))
            state[number] = decayed + delta[:, :, None] * k[token][:, None, :]
            output[token] = scale * torch.einsum("hvk,hk->hv", state[number], q[token])
    return {"output": output, "new_state": state}
