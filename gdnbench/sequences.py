"""Sequences of Gated Delta Net token by token: inputs of the next tokens, and the recurrence.

What an op's numerics say for `gdnbench verify --length` is made of these (docs/verifying.md). A token of a value head,
whose state S is [V, K], takes S <- g S, then S <- S + beta (v - S k) kᵀ, and gives scale S q.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from gdnbench.model.workload import Workload

    Tensors = dict[str, Tensor]

COMMON = 2.0  # times a vector that the keys of a head have in common, where they are alike


@dataclass(frozen=True)
class Stretch:
    """The next tokens of one sequence, whose draws depend on nothing but the sequence and where in it they are."""

    tokens: int  # how many
    number: int  # of the stretch in its sequence, from 0 on
    seed: int  # of the sequence; it decides, too, which heads never forget, and what alike keys have in common
    device: str  # a torch device; another kind of device draws other numbers
    profile: str  # of `gdnbench.decays`
    alike: bool  # whether the keys of a head are n + 2 c, with c common to all of its tokens, in place of n

    def draw(self, shape: Workload, fixed: Tensors) -> Tensors:
        """Draws q, k [tokens, HQ, K] and v [tokens, HV, V], N(0, 1) in fp32, and the gates a, b [tokens, HV] in bf16.

        `fixed` has the A_log and dt_bias [HV] with which `a` gives the profile's decays; b ~ N(0, 1).
        """
        import torch

        keys, values = (self.tokens, shape.HQ, shape.K), (self.tokens, shape.HV, shape.V)
        random = torch.Generator(self.device).manual_seed(Random(f"{self.seed} {self.number}").getrandbits(63))
        q, k, v, a, b = (_normal(sizes, random) for sizes in (keys, keys, values, values[:2], values[:2]))
        of_all = torch.Generator().manual_seed(self.seed)
        if self.alike:
            k += COMMON * _normal(keys[1:], of_all).to(self.device)
        gates = {name: fixed[name] for name in ("A_log", "dt_bias")}
        a = gate_of_profile(self.profile, {"a": a.bfloat16(), **gates}, of_all)
        return {"q": q, "k": k, "v": v, "a": a, "b": b.bfloat16()}


def in_bf16(t: Tensors) -> Tensors:
    """Draws as an op takes them whose queries and keys come with unit length, in bf16."""
    from torch.nn.functional import normalize

    return {name: (normalize(t[name], dim=-1) if name in {"q", "k"} else t[name]).bfloat16() for name in t}


def packed(t: Tensors) -> Tensors:
    """Draws as servers' ops take them: queries, keys and values of a token one after the other, in bf16."""
    import torch

    mixed = torch.cat([t[name].flatten(1) for name in ("q", "k", "v")], dim=1)
    return {"mixed_qkv": mixed.bfloat16(), "a": t["a"], "b": t["b"]}


def _normal(sizes: tuple[int, ...], random: Generator) -> Tensor:
    import torch

    return torch.randn(sizes, generator=random, device=random.device)


def ready(t: Tensors, scale: float, beta_limit: float = 1.0) -> Tensors:
    """What `advance` takes of tokens, in float64: q, scaled, and k [..., HV, K], v [..., HV, V], g, beta [..., HV, 1].

    `t` has q, k [..., HQ, K] as they are multiplied, v [..., HV, V], a, b [..., HV], and A_log, dt_bias [HV]; beta is
    between 0 and `beta_limit`.
    """
    from gdnbench.delta_rule import decay

    t = {name: tensor.double() for name, tensor in t.items()}
    share = t["v"].shape[-2] // t["q"].shape[-2]
    q, k = (t[name].repeat_interleave(share, dim=-2) for name in ("q", "k"))
    g = decay((t["a"] + t["dt_bias"])[..., None], t["A_log"])
    return {"q": scale * q, "k": k, "v": t["v"], "g": g, "beta": beta_limit * t["b"].sigmoid()[..., None]}


def advance(token: Tensors, state: Tensor) -> Tensor:
    """Takes one token, of the form of `ready`, updates the state [..., HV, V, K] in place, and gives the output."""
    k = token["k"][..., None, :]
    state.mul_(token["g"][..., None, :])
    state.addcmul_((token["beta"] * (token["v"] - (state * k).sum(-1)))[..., None], k)
    return (state * token["q"][..., None, :]).sum(-1)
