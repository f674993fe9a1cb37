"""Decay profiles of ops whose state decays by g = exp(-exp(A_log) softplus(a + dt_bias)).

A profile is a distribution of r = -log g, the nats that a head forgets per token. A_log, dt_bias and a ~ N(0, 1) are
drawn as always; `raw_gate` then turns a into the gate that gives the profile's r with these A_log and dt_bias, so that
a kernel which misuses one of them still fails. The op's oracle takes the gate rounded to bf16.

Prefill kernels cut a sequence where a head has forgotten everything before, and must not cut where it has not. Their
speed therefore depends on r, and their authors' benchmarks differ in it: FLA's draws r = softplus(-n), FlashQLA's
softplus(-n) / 16 with a quarter of the heads at 0, where its authors report 20 to 40 % of the heads of deployed models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gdnbench.model.declaration import Profile

if TYPE_CHECKING:
    from torch import Generator, Tensor, dtype

_KEEPS_ALL = -40.0  # argument of softplus: gives 4e-18, so that g is 1 in fp32, and in float64 to 1e-16
_BURST = 8.0  # nats: the head then keeps 3e-4
_BETWEEN_BURSTS = 512  # tokens
_THRESHOLDS = (10.0, 23.5 * math.log(2.0), 24.0 * math.log(2.0))  # nats: e^-10, 2^-23.5 and 2^-24
_WINDOWS = (64, 128, 256, 512)  # tokens
_ASIDE = 0.01  # distance from a threshold, relative to it


@dataclass(frozen=True)
class Decays(Profile):
    """A distribution of r, for normal numbers n.

    Attributes:
        slower: r = softplus(-n) / slower; 0 for a as drawn.
        never: the heads that never forget, r = 0; the seed draws which.
        form: `bursts`, r = 8 at one token in 512 and 0 at all others; `edge`, r = 1.01 or 0.99 times a kernel's
            threshold divided by a window, drawn for each head.
    """

    slower: float = 0.0
    never: Literal["none", "one", "quarter", "all"] = "none"
    form: Literal["", "bursts", "edge"] = ""

    def raw_gate(self, a: Tensor, A_log: Tensor, dt_bias: Tensor, random: Generator) -> Tensor:
        """Returns the gate that gives this profile's decays, in a's shape and dtype; a itself for the profile as drawn.

        Args:
            a: normal numbers, [..., heads], bf16; or float32 where only one number per head is drawn.
            A_log: [heads], float32.
            dt_bias: [heads], float32.
            random: a CPU generator that draws which heads never forget, and the edges.
        """
        import torch

        if not self.slower and self.never == "none" and not self.form:
            return a
        n, rate = a.double(), A_log.double().exp()
        heads = n.shape[-1]
        order = torch.randperm(heads, generator=random)
        match self.form:
            case "bursts":
                often = torch.special.ndtri(torch.tensor(1.0 - 1.0 / _BETWEEN_BURSTS, dtype=torch.float64)).item()
                r = torch.where(n > often, _BURST, 0.0)
            case "edge":
                r = _edges(heads, random).to(n.device).expand(n.shape)
            case _:
                r = torch.nn.functional.softplus(-n) / (self.slower or 1.0)
        r = r.clone()
        r[..., order[: self._count(heads)].to(n.device)] = 0.0
        over_rate = r / rate
        # the inverse of softplus; where r is 0, a number that stands for minus infinity
        x = torch.where(r > 0, over_rate + torch.log(-torch.expm1(-over_rate)), _KEEPS_ALL)
        exact = x - dt_bias.double()
        return _rounded_at_random(exact, n, a.dtype) if self.form == "edge" else exact.to(a.dtype)

    def _count(self, heads: int) -> int:
        return {"none": 0, "one": 1, "quarter": max(1, heads // 4), "all": heads}[self.never]


def _edges(heads: int, random: Generator) -> Tensor:
    """Draws r of each head: a threshold divided by a window, 1 % above or below it."""
    import torch

    def pick(values: tuple[float, ...]) -> Tensor:
        chosen = torch.randint(len(values), (heads,), generator=random)
        return torch.tensor(values, dtype=torch.float64)[chosen]

    return pick(_THRESHOLDS) / pick(_WINDOWS) * pick((1.0 - _ASIDE, 1.0 + _ASIDE))


def _rounded_at_random(exact: Tensor, n: Tensor, to: dtype) -> Tensor:
    """Rounds up or down with the probability that keeps the mean exact, and so the sum over a window, too."""
    import torch

    down = exact.to(to)
    away = torch.full_like(down, math.inf)
    down = torch.where(down.double() > exact, torch.nextafter(down, -away), down)
    up = torch.nextafter(down, away)
    chance = (exact - down.double()) / (up.double() - down.double())
    return torch.where(torch.special.ndtr(n) < chance, up, down)


FORGETFUL = Decays("forgetful", "A U(1, 16), dt U(0.001, 0.1), a N(0, 1): forgets within some 30 tokens", extreme=True)
DECODE_PROFILES = (
    FORGETFUL,
    Decays("fla", "r = softplus(-n): FLA's own benchmark, forgets within some 20 tokens", slower=1.0),
    Decays("mixed-heads", "r = softplus(-n)/16, but 0 for a quarter of the heads", slower=16.0, never="quarter"),
    Decays("one-never", "r = softplus(-n)/16, but 0 for one head", slower=16.0, never="one"),
    Decays("slow", "r = softplus(-n)/1024: forgets within some 20,000 tokens", slower=1024.0),
    Decays("never", "r = 0: nothing is ever forgotten", never="all", extreme=True),
)
"""Profiles of ops that take one or a few tokens: those that do not vary along a sequence."""
PROFILES = (
    *DECODE_PROFILES,
    Decays("bursty", "r = 0, but 8 at one token in 512 of each head: resets", form="bursts"),
    Decays("edge", "sums over 64 to 512 tokens 1 % above or below the thresholds at which kernels cut", form="edge"),
)
"""Profiles of ops that take whole sequences."""


def gate_of_profile(name: str, tensors: dict[str, Tensor], random: Generator) -> Tensor:
    """Returns input `a` of a profile or scenario from drawn `a`, `A_log` and `dt_bias`; as drawn without a profile."""
    profile = next((each for each in PROFILES if each.name == name), FORGETFUL)
    return profile.raw_gate(tensors["a"], tensors["A_log"], tensors["dt_bias"], random)
