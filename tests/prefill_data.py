"""Prefill as kernels compute it, in torch: products of bf16 that add up in fp32, with a mistake if one is asked for."""

from __future__ import annotations

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


def in_bf16(t: dict[str, Any], scale: float, mistake: str = "") -> dict[str, torch.Tensor]:
    """The outputs of a chunked kernel that rounds every operand of its products to bf16."""
    share = t["v"].shape[1] // t["q"].shape[1]
    q, k = (t[name].float().repeat_interleave(share, dim=1) for name in ("q", "k"))
    rate = -torch.exp(t["A_log"]) * F.softplus(t["a"].float() + t["dt_bias"])
    beta = torch.sigmoid(t["b"].float())
    output, state = torch.empty_like(t["v"]), t["state"].clone()
    for number, (begin, end) in enumerate(pairwise(t["cu_seqlens"].tolist())):
        for first in range(begin, end, CHUNK):
            taken = slice(first, first + CHUNK if mistake == MISTAKES[3] else min(first + CHUNK, end))
            rows = [x[taken].transpose(0, 1) for x in (q, k, t["v"].float())]
            before = t["state"][number] if mistake == MISTAKES[0] else state[number]
            found, after = _chunk(*rows, rate[taken].T, beta[taken].T, before, mistake)
            written = slice(first, min(first + CHUNK, end))
            output[written] = (scale * found.transpose(0, 1)[: min(CHUNK, end - first)]).bfloat16()
            state[number] = rounded(after) if mistake == MISTAKES[2] else after
    if mistake == MISTAKES[6]:
        state[:2] = state[:2].flip(0)
    if mistake == MISTAKES[7]:
        state.view(-1)[12345] += 0.03 * state.square().mean().sqrt()
    return {"output": output, "new_state": state}


def _chunk(q, k, v, rate, beta, state, mistake):
    """One chunk of one sequence: q, k, v [heads, tokens, …], rate and beta [heads, tokens], state [heads, V, K]."""
    since = rate.cumsum(-1)
    above = torch.ones(since.shape[-1], since.shape[-1], dtype=torch.bool).triu(1)
    ratio = (since[..., :, None] - since[..., None, :]).masked_fill(above, -torch.inf).exp()
    if mistake == MISTAKES[4]:
        ratio = torch.ones_like(ratio).tril()
    g, column = since.exp()[..., None], beta[..., None]
    A = ((1.0 if mistake == MISTAKES[5] else column) * ratio * (k @ k.mT)).tril(-1)
    eye = torch.eye(A.shape[-1])
    inverse = rounded(torch.linalg.solve_triangular(rounded(A) + eye, eye, upper=False))
    w, y = rounded(inverse @ rounded(column * v)), rounded(inverse @ rounded(column * g * k))
    read = rounded(state)
    u = rounded(w - y @ read.mT)
    output = rounded(g * q) @ read.mT + rounded(ratio * (q @ k.mT)) @ u
    last = since[..., -2:-1] if mistake == MISTAKES[1] and since.shape[-1] > 1 else since[..., -1:]
    faded = rounded((last - since).exp()[..., None] * k)
    return output, last.exp()[..., None] * state + u.mT @ faded
