"""The prefill in eager torch, fp32, all sequences side by side; the lengths are known on the host.

What a chunk's tokens are to each other has a factor for each channel. All exponents are of a later token's sum less an
earlier one's, and so at most 0: exp(-sum) overflows within a chunk.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

CHUNK, BLOCK = 64, 16
EPS = 1e-6
BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    lower_bound = tensors.lower_bound if shape.GATE == BOUNDED else None
    return partial(kda_prefill, tensors, lay_out(shape.lengths, tensors.q.device), lower_bound)


def lay_out(lengths, device):
    """Tokens by sequence and chunk, [N, chunks, CHUNK], where none is 0; where one is; places of all, [T]."""
    begins = torch.tensor([0, *accumulate(lengths)][:-1])
    chunks = -(-max(lengths) // CHUNK)
    places = torch.arange(chunks * CHUNK).reshape(chunks, CHUNK)
    is_token = places < torch.tensor(lengths)[:, None, None]
    tokens = (begins[:, None, None] + places).where(is_token, 0)
    return tokens.to(device), is_token.to(device), is_token.flatten().nonzero()[:, 0].to(device)


def kda_prefill(t, tables, lower_bound):
    """By chunks; without a lower bound, the decay is that by softplus."""
    tokens, is_token, places = tables
    prepared = prepare(t, tokens, is_token, lower_bound)
    state, outputs = t.state, []
    for chunk in range(tokens.shape[1]):
        output, state = take_chunk(state, *(each[:, chunk] for each in prepared))
        outputs.append(output)
    rows = torch.stack(outputs, dim=1).transpose(2, 3).flatten(0, 2)
    return (t.scale * rows[places]).bfloat16(), state


def prepare(t, tokens, is_token, lower_bound):
    """What every chunk tells without its state, [N, chunks, H, …]: see the op's numerics."""

    def laid(rows):
        """[T, H, …] as [N, chunks, H, CHUNK, …]."""
        return (rows[tokens] * is_token[..., None, None]).transpose(2, 3)

    q, k, v = (laid(each) for each in (normalised(t.q.float()), normalised(t.k.float()), t.v.float()))
    beta = laid(torch.sigmoid(t.b.float())[..., None])
    x, rate = t.g.float() + t.dt_bias, torch.exp(t.A_log)[:, None]
    nats = laid(-rate * F.softplus(x) if lower_bound is None else lower_bound * torch.sigmoid(rate * x))
    since = nats.cumsum(-2)
    A, products = products_of_tokens(torch.stack([k, q]), k, since)
    right = beta * torch.cat([v, since.exp() * k], dim=-1)
    solved = torch.linalg.solve_triangular((beta * A).tril(-1), right, upper=False, unitriangular=True)
    w, y = solved.split([v.shape[-1], k.shape[-1]], -1)
    to_end = (since[..., -1:, :] - since).exp() * k
    return w, y, since.exp() * q, products, to_end, since[..., -1:, :].exp()


def take_chunk(state, w, y, queries, products, to_end, kept):
    """The output, not scaled, and the state after one chunk of every sequence."""
    u = w - y @ state.mT
    return queries @ state.mT + products @ u, kept * state + u.mT @ to_end


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)


def products_of_tokens(rows, k, since):
    """Sums over channels c of rows_ic k_jc exp(since_ic - since_jc) for j <= i, else 0; [..., CHUNK, CHUNK].

    Tokens of one block pair by pair; those of earlier blocks by way of the block's beginning, as products of matrices.
    """
    found = rows.new_zeros(*rows.shape[:-1], CHUNK)
    above = torch.ones(BLOCK, BLOCK, dtype=torch.bool, device=k.device).triu(1)[..., None]
    for begin in range(0, CHUNK, BLOCK):
        block = slice(begin, begin + BLOCK)
        own = (since[..., block, None, :] - since[..., None, block, :]).masked_fill(above, -torch.inf).exp()
        found[..., block, block] = ((own * k[..., None, block, :]) @ rows[..., block, :, None])[..., 0]
        if begin:
            middle = since[..., begin - 1 : begin, :]
            others = (middle - since[..., :begin, :]).exp() * k[..., :begin, :]
            found[..., block, :begin] = (rows[..., block, :] * (since[..., block, :] - middle).exp()) @ others.mT
    return found
