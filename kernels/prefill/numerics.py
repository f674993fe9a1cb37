"""Inputs of the prefill, its float64 oracle in chunks, and the roundoff of a kernel that multiplies in bf16.

A chunk of C tokens that begins with the state S, with G_i the product of its first i decays, ends with G_C S + Σ_j
(G_C / G_j) u_j k_jᵀ, where u_i = beta_i (v_i - G_i S k_i - Σ_{j<i} (G_i / G_j) (k_i·k_j) u_j). With the strictly lower
triangular A_ij = beta_i (G_i / G_j) (k_i·k_j), that is U = (I + A)⁻¹ (diag(beta) V - diag(beta G) K Sᵀ) = W - Y Sᵀ,
whose W and Y need no state (Yang, Wang, Zhang, Shen and Kim, NeurIPS 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from gdnbench import sequences
from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

CHUNK = 64
WARM_UP_TOKENS = 8
BLOCK = 1 << 24  # numbers that are drawn at a time
# SplitMix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014; as signed numbers
GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
MIXES = ((30, 0xBF58476D1CE4E5B9 - (1 << 64)), (27, 0x94D049BB133111EB - (1 << 64)), (31, 1))  # shift, then factor
PER_HASH = 4  # numbers of 16 bits
QUANTILES = 1 << 16
STEP = 2.0**-20  # of the quantiles
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
CLOSED = -40.0  # beta and 1 - g are below 1e-15: the state passes through
SLOW = 6.0  # taken off a: the state forgets within some thousand tokens
LARGE = 1e3
FP32_IN_BF16 = 2.0**-16  # fp32's unit roundoff in units of bf16's
ADDED = 1e-10  # to each decay, by FlashInfer
LEAST_DECAY = ADDED * 2.0**8  # the error of a decay that comes of it, in unit roundoffs of bf16
SEGMENT = 8  # chunks; kernels that cut sequences among SMs cut them no shorter
CUT = 2.0**-12 * 2.0**8  # of the state, in unit roundoffs of bf16; 4 of these are a truncation to 11 bits
LONG = 32  # chunks; cuts from there on may round the state to bf16
CUT_IN_BF16 = 2.0**-10 * 2.0**8  # as CUT, there; 4 of these are a rounding to bf16


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of whole sequences.

    q and k are L2-normalised; v ~ N(0, 1); A_log = log U(1, 16); dt_bias is the inverse softplus of U(1e-3, 0.1);
    a, b ~ N(0, 1); each state has seen a few tokens of the recurrence, so that it correlates with keys as in use.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, which forgets within some dozen tokens; `slow-decay`, a lower by 6; `saturated-gates`, a
            and b at ±30; `large-state`, states of about 1e3; `closed-gates`, a and b so low that nothing decays or is
            written; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    sequences, heads = len(shape.lengths), shape.HV
    dt = torch.empty(heads).uniform_(1e-3, 0.1, generator=random)
    gates = {
        "A_log": torch.empty(heads).uniform_(1.0, 16.0, generator=random).log().to(device),
        "dt_bias": (dt + torch.log(-torch.expm1(-dt))).to(device),
    }
    tensors = {**gates, **_draw(shape, sum(shape.lengths), random, device)}
    sizes = (sequences, heads, shape.V, shape.K)
    if scenario == "large-state":
        state = _normal(sizes, random, device, torch.float32).mul_(LARGE)
    else:
        before = {**gates, **_draw(shape, WARM_UP_TOKENS * sequences, random, device)}
        before["state"] = torch.zeros(sizes, dtype=torch.float64, device=device)
        before["cu_seqlens"] = WARM_UP_TOKENS * torch.arange(sequences + 1, device=device)
        # Devices add up in different orders: in float64, so that few elements of fp32 differ, and those in the last bit
        state = delta_rule(before, torch.float64).new_state.float()
    match scenario:
        case "slow-decay":
            tensors["a"] -= SLOW
        case "saturated-gates":
            for name in ("a", "b"):
                tensors[name] = SATURATED * torch.sign(tensors[name])
        case "closed-gates":
            for name in ("a", "b"):
                tensors[name] = torch.full_like(tensors[name], CLOSED)
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    tensors |= {"state": state, "cu_seqlens": torch.tensor([0, *accumulate(shape.lengths)], device=device)}
    return tensors, {"scale": shape.K**-0.5}


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are (bf16 inputs are exact in float64)."""
    found = delta_rule(tensors, torch.float64)
    return {"output": scalars["scale"] * found.output, "new_state": found.new_state}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where products take bf16 and add up in fp32, in unit roundoffs of bf16 (2^-8)."""
    found = variances(tensors)
    return {"output": scalars["scale"] * found.output.sqrt(), "new_state": found.last.sqrt()}


class Variances(NamedTuple):
    """Of each output, not scaled [T, HV, V]; of the state at each chunk's beginning; of each sequence's last state."""

    output: torch.Tensor
    begun: torch.Tensor
    last: torch.Tensor


def variances(tensors: Tensors, segment: int = SEGMENT) -> Variances:
    """The squares of what products of bf16 that add up in fp32 may be off by, in unit roundoffs of bf16 (2^-8).

    The root of a sum of squares: roundings are as good as independent, and a sum of n products is rounded n times in
    its operands (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815). Rounded are: the entries of A and its inverse,
    beta v and beta G k, W, Y, U and the keys that it is multiplied with, the state where it is multiplied, and the
    products q·k, and their partial sums in fp32; q, k and v come as bf16. The state itself is kept in fp32, and decays
    by factors in fp32 that never quite reach 0, of which softplus may be log(1 + exp(x)), which loses a roundoff of 1
    however small it is. What an error in the state adds to later ones shrinks by the decay, and by
    1 - beta (2 - beta) / K a token, for the rule projects on each key what it wrote. An error in the state decays, as
    the state does, by factors of which each may be 1e-10 too large: where the state is forgotten twice, or an element
    of it is near 0, what is left is of that size.

    Kernels that cut a sequence into segments, which SMs take side by side, multiply the state at each cut with the
    segment's transition in tf32 or fp16, of 11 bits. So at the beginning of every eighth chunk but the first the
    state's error is at least 2^-12 of the state. Of a limit of 8 a truncation to 11 bits takes 4 and a rounding to bf16
    up to 16, which must not pass. It is the larger of that and what the error is already, not their sum, as rounding
    adds nothing to a state that has not changed since it was last rounded: with a sum, the state in bf16 would pass
    after 4 cuts. Of long sequences, from the chunk numbered LONG on, it is 2^-10: FlashQLA's products with transitions
    are of bf16, as the others are.

    Each comment says of which value the line has the variance. Computed in fp32, which is enough for a size.

    Args:
        tensors: the inputs.
        segment: chunks between the beginnings of segments; SEGMENT where kernels choose how they cut.
    """
    found = delta_rule(tensors, torch.float32)
    chunks, inverse = found.chunks, found.inverse.square()
    x, A = tensors["a"].float() + tensors["dt_bias"], tensors["A_log"].exp()
    softplus = F.softplus(x)
    off = A * (1 + softplus + torch.sigmoid(x) * x.abs() + softplus * (1 + tensors["A_log"].abs()))  # log g of a token
    kept_off = FP32_IN_BF16 * (1 + chunks.gather(off).sum(-1))
    beta_v = (found.beta[..., None] * found.v).square()
    beta_k = ((found.beta * found.since.exp())[..., None] * found.k).square()
    u, y, state = found.u.square(), found.y.square(), found.begun.square()

    own = u + found.w.square() + 2 * inverse @ beta_v + inverse @ (found.coupling.square() @ u)  # U, had S no error
    own += (2 * y + 2 * inverse @ beta_k) @ state.mT
    shrink = torch.log1p(-found.beta * (2 - found.beta) / found.k.shape[-1]).cumsum(-1)
    fades = (2 * found.until + shrink[..., -1:] - shrink).exp()

    whole = (found.since[..., -1].exp() + ADDED).square() * shrink[..., -1].exp()
    cuts = {step.start: CUT for step in chunks.steps[segment:LONG:segment]}
    cuts |= {step.start: CUT_IN_BF16 for step in chunks.steps[LONG::segment]}

    def written(step: slice, begun: torch.Tensor) -> torch.Tensor:  # what a chunk adds to the state's
        kept = (found.since[step, :, -1].exp() * kept_off[step] + LEAST_DECAY).square()
        scaled = (fades[step] + LEAST_DECAY**2)[..., None] * found.k[step].square()
        added = (own[step] + u[step]).mT @ scaled + kept[..., None, None] * state[step]
        if step.start in cuts:
            added += whole[step][..., None, None] * (cuts[step.start] ** 2 * state[step] - begun).clamp(min=0)
        return added

    begun, last = chunks.carry(torch.zeros_like(tensors["state"]), whole, written)  # the state's
    total = own + y @ begun.mT  # U
    read = ((found.since.exp() + LEAST_DECAY)[..., None] * found.q).square()
    ratios = (found.ratios + LEAST_DECAY).tril().square()
    products = (found.q @ found.k.mT).square()
    partial = found.q.shape[-1] / 2 * (found.q.square() @ found.k.square().mT)  # sums, of half the terms on average
    size = read @ (2 * state + begun).mT  # the output, not scaled
    size += (ratios * products) @ (2 * u + total) + (ratios * FP32_IN_BF16**2 * partial) @ u
    return Variances(chunks.scatter(size, len(tensors["v"])), begun, last)


@dataclass(frozen=True)
class Chunks:
    """Sequences cut into chunks, in the order in which all sequences are walked side by side.

    Attributes:
        tokens: [chunks, CHUNK], the number of each token; 0 at the places after a sequence's end.
        is_token: [chunks, CHUNK].
        sequences: [N], by how many chunks they have, the most first.
        steps: the chunks of each step, which are those of the first sequences.
    """

    tokens: torch.Tensor
    is_token: torch.Tensor
    sequences: torch.Tensor
    steps: tuple[slice, ...]

    @classmethod
    def cut(cls, ends: torch.Tensor) -> Chunks:
        """Cuts sequences that begin and end at [N + 1]."""
        spans = list(pairwise(ends.tolist()))
        order = sorted(range(len(spans)), key=lambda number: spans[number][0] - spans[number][1])
        table: list[tuple[int, int]] = []
        steps: list[slice] = []
        for walked in range(0, max(end - begin for begin, end in spans), CHUNK):
            taken = [(spans[number][0] + walked, spans[number][1]) for number in order]
            taken = [(begin, end) for begin, end in taken if begin < end]
            steps.append(slice(len(table), len(table) + len(taken)))
            table += taken
        begins, ends_of = torch.tensor(table, device=ends.device)[..., None].unbind(1)
        tokens = begins + torch.arange(CHUNK, device=ends.device)
        return cls(tokens.where(tokens < ends_of, 0), tokens < ends_of, torch.tensor(order), tuple(steps))

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, heads, …] as [chunks, heads, CHUNK, …], zeros after a sequence's end."""
        mask = self.is_token.reshape(*self.is_token.shape, *(1,) * (rows.dim() - 1))
        return rows[self.tokens].where(mask, 0).transpose(1, 2)

    def scatter(self, found: torch.Tensor, tokens: int) -> torch.Tensor:
        """[chunks, heads, CHUNK, …] as [tokens, heads, …]."""
        rows = found.transpose(1, 2)
        out = rows.new_empty(tokens, *rows.shape[2:])
        out[self.tokens[self.is_token]] = rows[self.is_token]
        return out

    def carry(
        self, state: torch.Tensor, decay: torch.Tensor, written: Callable[[slice, torch.Tensor], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Walks all sequences side by side, a chunk a step.

        Args:
            state: [N, heads, V, K] at the beginnings of the sequences.
            decay: [chunks, heads] of whole chunks.
            written: what chunks add to the decayed state, by which they are and the state at their beginning.

        Returns:
            The state at each chunk's beginning, [chunks, heads, V, K], and at the end of each sequence, as `state`.
        """
        at, last = state[self.sequences], torch.empty_like(state)
        begun = state.new_empty(len(self.tokens), *state.shape[1:])
        for step in self.steps:
            now = begun[step] = at[: step.stop - step.start]
            at[: len(now)] = decay[step][..., None, None] * now + written(step, now)
        last[self.sequences] = at
        return begun, last


@dataclass(frozen=True)
class Found:
    """What the recurrence gives, in the names of the module's docstring.

    Attributes:
        chunks: of the sequences.
        q, k, v, beta: [chunks, HV, CHUNK, …].
        since: [chunks, HV, CHUNK], log G_i.
        until: [chunks, HV, CHUNK], log (G_C / G_i).
        ratios: [chunks, HV, CHUNK, CHUNK], G_i / G_j up to the diagonal, zero above it.
        coupling: A, of the same sizes.
        inverse: (I + A)⁻¹, likewise.
        w, y, u: [chunks, HV, CHUNK, V or K].
        begun: [chunks, HV, V, K], the state at each chunk's beginning.
        output: [T, HV, V], not scaled.
        new_state: [N, HV, V, K].
    """

    chunks: Chunks
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    beta: torch.Tensor
    since: torch.Tensor
    until: torch.Tensor
    ratios: torch.Tensor
    coupling: torch.Tensor
    inverse: torch.Tensor
    w: torch.Tensor
    y: torch.Tensor
    u: torch.Tensor
    begun: torch.Tensor
    output: torch.Tensor
    new_state: torch.Tensor


def delta_rule(t: Tensors, dtype: torch.dtype) -> Found:
    """The recurrence in chunks, in a dtype; the scale is left to the caller."""
    chunks = Chunks.cut(t["cu_seqlens"])
    share = t["v"].shape[1] // t["q"].shape[1]
    q, k = (chunks.gather(t[name].to(dtype).repeat_interleave(share, dim=1)) for name in ("q", "k"))
    v, beta = chunks.gather(t["v"].to(dtype)), chunks.gather(torch.sigmoid(t["b"].to(dtype)))
    rate = -torch.exp(t["A_log"].to(dtype)) * F.softplus(t["a"].to(dtype) + t["dt_bias"].to(dtype))
    since = chunks.gather(rate).cumsum(-1)
    until = since[..., -1:] - since

    above = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    ratios = (since[..., :, None] - since[..., None, :]).masked_fill(above, -torch.inf).exp()
    coupling = (beta[..., None] * ratios * (k @ k.mT)).tril(-1)
    eye = torch.eye(CHUNK, dtype=dtype, device=q.device)
    inverse = torch.linalg.solve_triangular(eye + coupling, eye, upper=False, unitriangular=True)
    w = inverse @ (beta[..., None] * v)
    y = inverse @ ((beta * since.exp())[..., None] * k)
    u, faded = torch.empty_like(w), until.exp()[..., None] * k

    def written(step: slice, begun: torch.Tensor) -> torch.Tensor:
        u[step] = w[step] - y[step] @ begun.mT
        return u[step].mT @ faded[step]

    begun, last = chunks.carry(t["state"].to(dtype), since[..., -1].exp(), written)
    rows = (since.exp()[..., None] * q) @ begun.mT + (ratios * (q @ k.mT)) @ u
    output = chunks.scatter(rows, len(t["v"]))
    return Found(
        chunks, q, k, v, beta, since, until, ratios, coupling, inverse, w, y, u, begun, output, last
    )  # fmt: skip


def _draw(shape: Shape, tokens: int, random: torch.Generator, device: str) -> Tensors:
    """The tensors of so many tokens, in bf16; a seed means the same numbers on every device."""
    HQ, HV, K, V = shape.HQ, shape.HV, shape.K, shape.V
    return {
        "q": _unit((tokens, HQ, K), random, device),
        "k": _unit((tokens, HQ, K), random, device),
        "v": _normal((tokens, HV, V), random, device, torch.bfloat16),
        "a": _normal((tokens, HV), random, device, torch.bfloat16),
        "b": _normal((tokens, HV), random, device, torch.bfloat16),
    }


def _normal(sizes: tuple[int, ...], random: torch.Generator, device: str, dtype: torch.dtype) -> torch.Tensor:
    """Normal numbers, each one of 65,536 quantiles at random; the same on every device, as only integers are computed.

    None is beyond 4.33, on either side, as 1.5e-5 of normal numbers are. Within that they are distributed normally, to
    a distance of 2^-17 between the distribution functions.
    """
    numbers = torch.empty(sizes, dtype=dtype, device=device)
    for rows, drawn in _blocks(numbers, random):
        rows.copy_(drawn)
    return numbers


def _unit(sizes: tuple[int, ...], random: torch.Generator, device: str) -> torch.Tensor:
    """Rows of unit norm in random directions, in bf16.

    The same on every device, too: up to 2^13, sums of squares of multiples of 2^-20 are exact in float64, in whatever
    order they are added up, and roots and quotients are rounded correctly.
    """
    numbers = torch.empty(sizes, dtype=torch.bfloat16, device=device)
    for rows, drawn in _blocks(numbers, random):
        wide = drawn.double()
        rows.copy_(wide.div_(wide.square().sum(-1, keepdim=True).sqrt_()).float())
    return numbers


def _blocks(numbers: torch.Tensor, random: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of a tensor, and normal numbers for them in fp32, both [rows, size], until all of it had some.

    A tensor's numbers are a stream of its own, whose seed is drawn. They do not depend on how many a block has.
    """
    seed = int(torch.randint(2**63 - 1, (), generator=random))
    quantiles = _quantiles().to(numbers.device)  # a copy for each tensor: a kernel's stray writes spoil no later one
    rows = numbers.view(-1, numbers.shape[-1])
    count = PER_HASH * max(1, BLOCK // (PER_HASH * rows.shape[1]))
    for first, block in zip(range(0, len(rows), count), rows.split(count), strict=True):
        begin = first * rows.shape[1] // PER_HASH
        end = begin - (-block.numel() // PER_HASH)
        chosen = _hashes(seed, begin, end, block.device).view(torch.uint16)[: block.numel()]
        yield block, quantiles.index_select(0, chosen.int()).view_as(block)


def _hashes(seed: int, begin: int, end: int, device: torch.device) -> torch.Tensor:
    """The numbers from `begin` to `end` that SplitMix64 gives after a seed, as int64: products and sums wrap."""
    bits = torch.arange(begin + 1, end + 1, device=device).mul_(GOLDEN_GAMMA).add_(seed)
    for shift, factor in MIXES:
        shifted = (bits >> shift).bitwise_and_((1 << (64 - shift)) - 1)  # zeros come in, not the sign
        bits.bitwise_xor_(shifted).mul_(factor)
    return bits


@cache
def _quantiles() -> torch.Tensor:
    """The normal distribution's quantiles at (i + 1/2) / 65,536, to the nearest multiple of 2^-20; fp32, on the CPU.

    Each is 1e-5 of a step or more away from the middle between two multiples, so that no CPU's rounding matters.
    """
    chances = (torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES
    return (torch.special.ndtri(chances) / STEP).round_().mul_(STEP).float()


def draw_tokens(shape: Shape, stretch: sequences.Stretch, fixed: Tensors) -> Tensors:
    """The inputs of a sequence's next tokens, [tokens, …]; `fixed` are inputs, of which those of all tokens count."""
    return sequences.in_bf16(stretch.draw(shape, fixed))


def ready(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What `advance` takes, from inputs of tokens with any axes before their own."""
    return sequences.ready(tensors, **scalars)


advance = sequences.advance
