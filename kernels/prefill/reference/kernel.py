"""The prefill in eager torch, fp32, all sequences side by side; the lengths are known on the host."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

CHUNK = 64


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    return partial(gdn_prefill, tensors, lay_out(shape.lengths, tensors.q.device), prepare, take_chunk)


def lay_out(lengths, device):
    """Tokens by sequence and chunk, [N, chunks, CHUNK], where none is 0; where one is; places of all, [T]."""
    begins = torch.tensor([0, *accumulate(lengths)][:-1])
    chunks = -(-max(lengths) // CHUNK)
    places = torch.arange(chunks * CHUNK).reshape(chunks, CHUNK)
    is_token = places < torch.tensor(lengths)[:, None, None]
    tokens = (begins[:, None, None] + places).where(is_token, 0)
    return tokens.to(device), is_token.to(device), is_token.flatten().nonzero()[:, 0].to(device)


def gdn_prefill(t, tables, prepare, take_chunk):
    """By chunks; `prepare` and `take_chunk` are the functions below, or those compiled."""
    tokens, is_token, places = tables
    prepared = prepare(t.q, t.k, t.v, t.A_log, t.dt_bias, t.a, t.b, tokens, is_token)
    state, outputs = t.state, []
    for chunk in range(tokens.shape[1]):
        output, state = take_chunk(state, *(x[:, chunk] for x in prepared))
        outputs.append(output)
    rows = torch.stack(outputs, dim=1).transpose(2, 3).flatten(0, 2)
    return (t.scale * rows[places]).bfloat16(), state


def prepare(q, k, v, A_log, dt_bias, a, b, tokens, is_token):
    """What every chunk tells without its state, [N, chunks, heads, …]: see the op's numerics."""

    def laid(rows):
        """[T, heads, …] as [N, chunks, heads, CHUNK, …]."""
        mask = is_token.reshape(*is_token.shape, *(1,) * (rows.dim() - 1))
        return (rows.float()[tokens] * mask).transpose(2, 3)

    share = v.shape[1] // q.shape[1]
    q, k = (laid(x.repeat_interleave(share, dim=1)) for x in (q, k))
    v, beta = laid(v), laid(torch.sigmoid(b.float()))
    log_g = laid(-torch.exp(A_log) * F.softplus(a.float() + dt_bias)).cumsum(-1)
    g = log_g.exp()[..., None]
    above = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    ratio = (log_g[..., :, None] - log_g[..., None, :]).masked_fill(above, -torch.inf).exp()

    A = (beta[..., None] * ratio * (k @ k.mT)).tril(-1)
    right = beta[..., None] * torch.cat([v, g * k], dim=-1)
    w, y = torch.linalg.solve_triangular(A, right, upper=False, unitriangular=True).split(
        [v.shape[-1], k.shape[-1]], -1
    )
    to_end = (log_g[..., -1:] - log_g).exp()[..., None] * k
    return w, y, g * q, ratio * (q @ k.mT), to_end, g[..., -1:, :]


def take_chunk(state, w, y, gq, qk, to_end, last):
    """U = W - Y S^T, the output, not scaled, and S = G_C S + U^T (G_C / G) K; of one chunk of every sequence."""
    u = w - y @ state.mT
    return gq @ state.mT + qk @ u, last * state + u.mT @ to_end
