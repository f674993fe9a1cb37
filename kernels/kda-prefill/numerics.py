"""Inputs of Kimi Delta Attention over whole prompts, their float64 oracle in chunks, and what products of bf16 may do.

A chunk of C tokens that begins with the state S, with G_i [K] the product of its first i decays, has U = (I + A)⁻¹
(diag(beta) V - diag(beta) (G ∘ K) Sᵀ) = W - Y Sᵀ, with A_ij = beta_i Σ_c k_ic k_jc G_ic / G_jc below the diagonal. It
ends with S diag(G_C) + Σ_j u_j (k_j ∘ G_C / G_j)ᵀ, and its outputs are (q_i ∘ G_i) Sᵀ + Σ_{j≤i} P_ij u_jᵀ with P_ij =
Σ_c q_ic k_jc G_ic / G_jc (Kimi Team, Kimi Linear, arXiv 2510.26692). Ratios are of a later to an earlier token's G, and
so at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from gdnbench import delta_rule
from gdnbench.decays import channel_gate_of_profile
from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]
Known = TypeVar("Known", "_Known", "_Rounded")

prefill = load_file(Path(__file__).parent.parent / "prefill" / "numerics.py")

BOUNDED = 1  # of GATE
LOWER_BOUND = {0: 0.0, 1: -5.0}  # of a channel's log decay by GATE; 0 is none
RATES = {0: (1.0, 16.0), 1: (0.5, 1.5)}  # exp(A_log) by GATE; that with a bound is drawn so that bf16 resolves it
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
CLOSED = -40.0  # beta and 1 - g are below 1e-15: the state passes through
LARGE = 1e3
SMALL = 2.0**-10  # of keys and queries: the norms' epsilon is then as large as their squares
COMMON = 2.0  # times a vector that keys have in common, where they are alike
BLOCK = 16  # tokens
AT_ONCE = 16  # chunks whose own part is worked out at once
LEAST_DECAY = 2.0**-26 * 2.0**8  # what is kept less of may be forgotten, in unit roundoffs of bf16


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of whole sequences.

    q, k, v and b ~ N(0, 1); A_log = log U(1, 16), or log U(0.5, 1.5) with a bound; dt_bias is the inverse softplus of
    U(1e-3, 0.1); g gives the profile's decays with these; to the states a few keys and values have been written.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, decays as in `spread`, and so in the others; `saturated-gates`, g and b at ±30;
            `closed-gates`, g and b so low that nothing decays or is written; `large-state`, states of about 1e3;
            `small-keys`, queries and keys so small that the norms' epsilon counts; `alike-keys`, the keys of a
            sequence near each other; or a profile of `gdnbench.decays.CHANNEL_PROFILES`.

    Returns:
        The input tensors and the scalars, by name.
    """
    T, H, K, V = sum(shape.lengths), shape.H, shape.K, shape.V
    random = torch.Generator(device="cpu").manual_seed(seed)

    def normal(*sizes: int) -> torch.Tensor:
        # On the device: 8,192 tokens have 134 million numbers.
        return prefill._normal(sizes, random, device, torch.bfloat16)

    q, k, v, drawn, b = normal(T, H, K), normal(T, H, K), normal(T, H, V), normal(T, H, K), normal(T, H)
    A_log = torch.empty(H).uniform_(*RATES[shape.GATE], generator=random).log().to(device)
    dt = torch.empty(H, K).uniform_(1e-3, 0.1, generator=random)
    dt_bias = (dt + torch.log(-torch.expm1(-dt))).to(device)
    g = channel_gate_of_profile(scenario, drawn, A_log, dt_bias, shape.GATE == BOUNDED, random)
    state = delta_rule.written_states((len(shape.lengths), H, V, K), random, device)
    match scenario:
        case "saturated-gates":
            g, b = (SATURATED * torch.sign(each) for each in (drawn, b))
        case "closed-gates":
            g, b = (torch.full_like(each, CLOSED) for each in (drawn, b))
        case "large-state":
            state *= LARGE
        case "small-keys":
            q, k = SMALL * q, SMALL * k
        case "alike-keys":
            k = k + COMMON * normal(H, K)
    tensors = {"q": q, "k": k, "v": v, "g": g, "b": b, "A_log": A_log, "dt_bias": dt_bias, "state": state}
    tensors["cu_seqlens"] = torch.tensor([0, *accumulate(shape.lengths)], device=device)
    scalars = {"scale": K**-0.5, "lower_bound": LOWER_BOUND[shape.GATE]}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, a chunk of all sequences at a time; what needs no state for many chunks at once.

    Exact as the recurrence token by token is: all exponents are of differences, and at most 0.
    """
    t, chunks = _Chunks.of(tensors, scalars, torch.float64), prefill.Chunks.cut(tensors["cu_seqlens"])
    state, output = tensors["state"].double()[chunks.sequences], torch.empty_like(t.v)
    for step, known in _known(t, chunks.steps, _Known.of):
        count = step.stop - step.start
        u = known.w - known.y @ state[:count].mT
        output[step] = known.queries @ state[:count].mT + known.products @ u
        state[:count] = known.whole * state[:count] + u.mT @ known.keys
    new_state = torch.empty_like(state)
    new_state[chunks.sequences] = state
    return {"output": scalars["scale"] * chunks.scatter(output, len(tensors["v"])), "new_state": new_state}


class _Known(NamedTuple):
    """Of chunks [chunks, H, CHUNK, …], what they tell without the state, in the module's names."""

    w: torch.Tensor
    y: torch.Tensor
    queries: torch.Tensor  # Q ∘ G
    products: torch.Tensor  # P
    keys: torch.Tensor  # K ∘ (G_C / G)
    whole: torch.Tensor  # G_C, [chunks, H, 1, K]

    @classmethod
    def of(cls, t: _Chunks) -> _Known:
        since = t.nats.cumsum(-2)
        kept = since.exp()
        coupling, products = _pairs(torch.stack([t.k, t.q]), t.k, since)
        right = t.beta * torch.cat([t.v, kept * t.k], dim=-1)
        coupling = t.beta * coupling.tril(-1)
        solved = torch.linalg.solve_triangular(coupling, right, upper=False, unitriangular=True)
        w, y = solved.split([t.v.shape[-1], t.k.shape[-1]], dim=-1)
        return cls(w, y, kept * t.q, products, (since[..., -1:, :] - since).exp() * t.k, kept[..., -1:, :])


def _known(t: _Chunks, steps: tuple[slice, ...], find: Callable[[_Chunks], Known]) -> Iterator[tuple[slice, Known]]:
    """Yields each step with what `find` finds of its chunks; it is called with those of some steps at once."""
    while steps:
        begin, count = steps[0].start, 1
        while count < len(steps) and steps[count].stop - begin <= AT_ONCE:
            count += 1
        found = find(t.at(slice(begin, steps[count - 1].stop)))
        for step in steps[:count]:
            yield step, type(found)(*(each[step.start - begin : step.stop - begin] for each in found))
        steps = steps[count:]


@dataclass(frozen=True)
class _Chunks:
    """The inputs by chunk, [chunks, H, CHUNK, …]; after a sequence's end nothing is written or forgotten.

    Attributes:
        q, k, v: queries and keys divided by their norms.
        nats: log decays, at most 0.
        beta: [chunks, H, CHUNK, 1].
        nats_off: what nats may be off by in fp32, in its unit roundoffs.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    nats: torch.Tensor
    beta: torch.Tensor
    nats_off: torch.Tensor

    @classmethod
    def of(cls, tensors: Tensors, scalars: dict[str, float], dtype: torch.dtype) -> _Chunks:
        """Cuts the inputs of `make_inputs`."""
        q, k, v, g, b = (tensors[name].to(dtype) for name in ("q", "k", "v", "g", "b"))
        x, A_log, bound = g + tensors["dt_bias"].to(dtype), tensors["A_log"].to(dtype), scalars["lower_bound"]
        nats = delta_rule.log_decay(x, A_log, bound)
        gates = delta_rule.gates_of(delta_rule.Tokens(q, k, v, x, A_log, b), 1.0, bound)
        rows = (delta_rule.normalised(q), delta_rule.normalised(k), v, nats, gates.beta)
        rows += (gates.g_off / gates.g.clamp(min=torch.finfo(torch.float32).tiny),)
        chunks = prefill.Chunks.cut(tensors["cu_seqlens"])
        return cls(*(chunks.gather(each) for each in rows))

    def at(self, step: slice) -> _Chunks:
        """Some of them."""
        return _Chunks(*(each[step] for each in (self.q, self.k, self.v, self.nats, self.beta, self.nats_off)))


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where products take bf16 and add up in fp32, in unit roundoffs of bf16 (2^-8).

    As for `prefill`: the root of a sum of squares, of roundings that are as good as independent. Rounded are: keys and
    queries, once when they are divided by their norms and once when they are decayed, on both sides of each product;
    A, its inverse, W, Y and U; P; and the state where it is multiplied. The state itself is kept in fp32. An error in
    it shrinks by the decays, and by 1 - beta (2 - beta) / K a token, for the rule projects on each key what it wrote.
    Decays are worked out in fp32; what is kept less than 2^-26 of may be dropped.
    """
    t, chunks = _Chunks.of(tensors, scalars, torch.float32), prefill.Chunks.cut(tensors["cu_seqlens"])
    at = tensors["state"].float()[chunks.sequences]
    none = at.new_zeros(*at.shape[:2], prefill.CHUNK, 1)
    off = _Variance(torch.zeros_like(at), *(none.expand(*none.shape[:3], size) for size in at.shape[2:]))
    output, last = torch.empty_like(t.v), torch.empty_like(at)
    for step, known in _known(t, chunks.steps, _Rounded.of):
        count, done = step.stop - step.start, chunks.sequences[step.stop - step.start : len(at)]
        last[done] = off.all[count:]
        at, off = at[:count], _Variance(*(each[:count] for each in off))
        output[step], at, off = _take(known, at, off)
    last[chunks.sequences[: len(at)]] = off.all
    return {
        "output": scalars["scale"] * chunks.scatter(output, len(tensors["v"])).sqrt(),
        "new_state": last.sqrt(),
    }


class _Variance(NamedTuple):
    """Of the state's error: that of its elements, and what the chunk before wrote.

    What is wrong in a row of U is written with one key, so that a key near it reads all of that, and not as much as of
    as many errors in any directions.
    """

    elements: torch.Tensor  # [N, H, V, K]
    written: torch.Tensor  # of U, [N, H, CHUNK, V]
    keys: torch.Tensor  # [N, H, CHUNK, K], decayed

    @property
    def all(self) -> torch.Tensor:
        """[N, H, V, K]."""
        return self.elements + self.written.mT @ self.keys.square()

    def times(self, rows: torch.Tensor) -> torch.Tensor:
        """That of rows Sᵀ, [N, H, CHUNK, V]."""
        return rows.square() @ self.elements.mT + (rows @ self.keys.mT).square() @ self.written


class _Rounded(NamedTuple):
    """What `_take` takes of chunks, [chunks, H, CHUNK, …]: squares are of what they are named after."""

    w: torch.Tensor
    y: torch.Tensor
    keys: torch.Tensor  # beta K ∘ G
    queries: torch.Tensor  # Q ∘ G, and what of it may be dropped
    last_keys: torch.Tensor  # K ∘ (G_C / G)
    whole: torch.Tensor  # G_C, [chunks, H, 1, K]
    inverse2: torch.Tensor  # of (I + A)⁻¹
    known2: torch.Tensor  # W² and what comes of V
    keys2: torch.Tensor
    coupling_off: torch.Tensor
    products2: torch.Tensor
    products_off: torch.Tensor
    faded: torch.Tensor  # K ∘ (G_C / G), as errors shrink
    shrunk2: torch.Tensor  # of an error in the state, [chunks, H, 1, K]
    kept_off2: torch.Tensor  # of G_C, [chunks, H, 1, K]
    written_off2: torch.Tensor  # of what a row of U is written with

    @classmethod
    def of(cls, t: _Chunks) -> _Rounded:
        since = t.nats.cumsum(-2)
        kept = since.exp()
        both = torch.stack([t.k, t.q])
        coupling, products = _pairs(both, t.k, since)
        keys_off, queries_off = 4 * _pairs(both.square(), t.k.square(), 2 * since)  # of their four factors
        coupling = t.beta * coupling.tril(-1)
        eye = torch.eye(prefill.CHUNK, device=since.device)
        eyes = eye.expand_as(coupling)
        inverse = torch.linalg.solve_triangular(eye + coupling, eyes, upper=False, unitriangular=True)
        values, keys, solved = t.beta * t.v, t.beta * kept * t.k, inverse.square()
        w, y = inverse @ values, inverse @ keys
        shrink = torch.log1p(-t.beta * (2 - t.beta) / t.k.shape[-1]).cumsum(-2)
        until, whole = since[..., -1:, :] - since, kept[..., -1:, :]
        faded = (until + (shrink[..., -1:, :] - shrink) / 2).exp() * t.k
        kept_off = whole * prefill.FP32_IN_BF16 * (prefill.CHUNK + t.nats_off.sum(-2, keepdim=True)) + LEAST_DECAY
        return cls(
            w,
            y,
            keys,
            (kept + LEAST_DECAY) * t.q,
            until.exp() * t.k,
            whole,
            solved,
            w.square() + 2 * solved @ values.square(),
            2 * y.square() + 2 * solved @ keys.square(),
            coupling.square() + t.beta.square() * keys_off.tril(-1),
            products.square(),
            2 * products.square() + queries_off,
            faded,
            whole.square() * shrink[..., -1:, :].exp(),
            kept_off.square(),
            2 * faded.square() + LEAST_DECAY**2 * t.k.square(),
        )


def _take(t: _Rounded, state: torch.Tensor, off: _Variance) -> tuple[torch.Tensor, torch.Tensor, _Variance]:
    """One chunk of each sequence: the variance of its outputs, the state after it, and the variance of that.

    Each comment says of which value the line has the variance.
    """
    u = t.w - t.y @ state.mT
    s2, u2 = state.square(), u.square()
    own = u2 + t.known2 + t.inverse2 @ (t.coupling_off @ u2)  # U, had S no error
    own += t.inverse2 @ (t.keys @ state.mT).square() + t.keys2 @ s2.mT
    total = own + off.times(t.y)  # U
    size = 3 * t.queries.square() @ s2.mT + off.times(t.queries) + t.products2 @ total + t.products_off @ u2
    left = t.shrunk2 * off.all + t.kept_off2 * s2  # the state, less total's
    left += u2.mT @ t.written_off2
    return size, t.whole * state + u.mT @ t.last_keys, _Variance(left, total, t.faded)


def _pairs(rows: torch.Tensor, keys: torch.Tensor, since: torch.Tensor) -> torch.Tensor:
    """Sums over channels c of rows_ic keys_jc exp(since_ic - since_jc) for tokens j <= i, else 0.

    Of a block of tokens pair by pair; with those of earlier blocks by way of the block's beginning.

    Args:
        rows: [..., chunks, H, CHUNK, K].
        keys: [chunks, H, CHUNK, K].
        since: logarithms that never grow, as keys.

    Returns:
        [..., chunks, H, CHUNK, CHUNK].
    """
    found = rows.new_zeros(*rows.shape[:-1], prefill.CHUNK)
    above = torch.ones(BLOCK, BLOCK, dtype=torch.bool, device=rows.device).triu(1)[..., None]
    for begin in range(0, prefill.CHUNK, BLOCK):
        block = slice(begin, begin + BLOCK)
        ratios = (since[..., block, None, :] - since[..., None, block, :]).masked_fill_(above, -torch.inf).exp_()
        others = ratios.mul_(keys[..., None, block, :])
        found[..., block, block] = (others @ rows[..., block, :, None])[..., 0]
        if begin:
            middle = since[..., begin - 1 : begin, :]
            before = (middle - since[..., :begin, :]).exp() * keys[..., :begin, :]
            found[..., block, :begin] = (rows[..., block, :] * (since[..., block, :] - middle).exp()) @ before.mT
    return found
