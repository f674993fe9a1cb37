"""Decay profiles of ops whose state decays by g = exp(-exp(A_log) softplus(a + dt_bias)).

A profile is a distribution of r = -log g, the nats that a head forgets per token. A_log, dt_bias and a ~ N(0, 1) are
drawn as always; `raw_gate` then turns a into the gate that gives the profile's r with these A_log and dt_bias, so that
a kernel which misuses one of them still fails. The op's oracle takes the gate rounded to bf16.

Prefill kernels cut a sequence where a head has forgotten everything before, and must not cut where it has not. Their
speed therefore depends on r, and their authors' benchmarks differ in it: FLA's draws r = softplus(-n), FlashQLA's
softplus(-n) / 16 with a quarter of the heads at 0, where its authors report 20 to 40 % of the heads of deployed models.

In Kimi Delta Attention each channel of a key decays on its own, and its models have two forms of the gate: the one
above, and one with a bound, g = exp(lower_bound sigmoid(exp(A_log) (a + dt_bias))). Its profiles are of r by channel,
and no channel loses more than the bound that its models have, 5 nats a token.
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
_BOUND = 5.0  # nats that a channel loses at the most, as in the models whose gate has a bound
_SATURATES = 40.0  # argument of sigmoid that stands for infinity
_RAMP = 9.0  # over the channels of a key: r then lies between 0.0006 and 2.5 at its median
_SLOWER = 1024.0


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
        exact = _before_softplus(r / rate) - dt_bias.double()
        return _rounded_at_random(exact, n, a.dtype) if self.form == "edge" else exact.to(a.dtype)

    def _count(self, heads: int) -> int:
        return {"none": 0, "one": 1, "quarter": max(1, heads // 4), "all": heads}[self.never]


@dataclass(frozen=True)
class ChannelDecays(Profile):
    """A distribution of r for each channel of a head's key, for normal numbers n; the name says which.

    `spread`: 5 sigmoid(n - 9 + 9 c), c from 0 at the first channel to 1 at the last. `production`: 5 sigmoid(n).
    `saturated`: 5 for a third of each head's channels and 0 for another, which the seed draws, `spread` for the rest.
    `slow`: softplus(-n) / 1024. `never`: 0.
    """

    def raw_gate(self, n: Tensor, A_log: Tensor, dt_bias: Tensor, bounded: bool, random: Generator) -> Tensor:
        """Returns the raw gate, in n's shape and dtype, that gives this profile's decays.

        Args:
            n: normal numbers, [..., heads, channels].
            A_log: [heads], float32.
            dt_bias: [heads, channels], float32.
            bounded: the gate's form: with a bound of 5 nats, or else by softplus.
            random: a CPU generator that draws which channels are saturated.
        """
        import torch

        r, rate = self._nats(n.double(), random), A_log.double().exp()[:, None]
        logit = torch.logit(r / _BOUND).clamp(-_SATURATES, _SATURATES)
        x = logit / rate if bounded else _before_softplus(r / rate)
        return (x - dt_bias.double()).to(n.dtype)

    def _nats(self, n: Tensor, random: Generator) -> Tensor:
        """r, in n's shape and float64."""
        import torch

        heads, channels = n.shape[-2:]
        ramp = torch.linspace(-_RAMP, 0.0, channels, dtype=torch.float64)
        spread = _BOUND * torch.sigmoid(n + ramp.to(n.device))
        match self.name:
            case "production":
                return _BOUND * torch.sigmoid(n)
            case "saturated":
                rank = torch.rand(heads, channels, generator=random).argsort(-1).to(n.device)
                r = torch.where(rank < channels // 3, _BOUND, spread)
                return torch.where(rank >= channels - channels // 3, 0.0, r)
            case "slow":
                return torch.nn.functional.softplus(-n) / _SLOWER
            case "never":
                return torch.zeros_like(n)
        return spread


def _before_softplus(over_rate: Tensor) -> Tensor:
    """The inverse of softplus; at 0, a number that stands for minus infinity."""
    import torch

    return torch.where(over_rate > 0, over_rate + torch.log(-torch.expm1(-over_rate)), _KEEPS_ALL)


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
CHANNEL_PROFILES = (
    ChannelDecays("spread", "r = 5 sigmoid(n - 9 + 9c), c from 0 at the first channel of a key to 1 at the last"),
    ChannelDecays("production", "r = 5 sigmoid(n): the libraries' own benchmarks, forgets within some 7 tokens", True),
    ChannelDecays("saturated", "r = 5 for a third of a head's channels, 0 for a third, spread for the others"),
    ChannelDecays("slow", "r = softplus(-n)/1024: forgets within some 20,000 tokens"),
    ChannelDecays("never", "r = 0: nothing is ever forgotten", True),
)
"""Profiles of ops whose decay is one of each channel of a key."""


def gate_of_profile(name: str, tensors: dict[str, Tensor], random: Generator) -> Tensor:
    """Returns input `a` of a profile or scenario from drawn `a`, `A_log` and `dt_bias`; as drawn without a profile."""
    profile = next((each for each in PROFILES if each.name == name), FORGETFUL)
    return profile.raw_gate(tensors["a"], tensors["A_log"], tensors["dt_bias"], random)


def channel_gate_of_profile(
    name: str, n: Tensor, A_log: Tensor, dt_bias: Tensor, bounded: bool, random: Generator
) -> Tensor:
    """Returns the raw gate by channel of a profile or scenario, from normal numbers; of `spread` without a profile."""
    profile = next((each for each in CHANNEL_PROFILES if each.name == name), CHANNEL_PROFILES[0])
    return profile.raw_gate(n, A_log, dt_bias, bounded, random)
