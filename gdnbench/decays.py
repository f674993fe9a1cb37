"""How soon heads forget: the profiles of ops whose state decays by g = exp(-exp(A_log) softplus(a + dt_bias)).

A profile is a distribution of r = -log g, the nats that a head loses at a token. Numerics draw A_log, dt_bias and a as
ever, a ~ N(0, 1), and `raw_gate` then makes of a the gate that gives the profile's r with these A_log and dt_bias, so
that a kernel which misuses one of them still shows. The op's oracle takes what was rounded to bf16.

Kernels of the prefill cut a sequence where a head has forgotten all that came before, and what a head has never
forgotten no cut may lose. How fast they are so depends on r, and their authors' benchmarks differ in it: FLA's draws
r = softplus(-n), FlashQLA's softplus(-n) / 16 with a quarter of the heads at 0, where its authors report 20 to 40 % of
the heads of deployed models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gdnbench.model.profile import Profile

if TYPE_CHECKING:
    from torch import Generator, Tensor, dtype

_KEEPS_ALL = -40.0  # as the argument of softplus: 4e-18, so that g is 1 in fp32 and in float64 to 1e-16
_BURST = 8.0  # nats: a head then keeps 3e-4
_BETWEEN_BURSTS = 512  # tokens
_THRESHOLDS = (10.0, 23.5 * math.log(2.0), 24.0 * math.log(2.0))  # nats: e^-10, 2^-23.5 and 2^-24
_WINDOWS = (64, 128, 256, 512)  # tokens
_ASIDE = 0.01  # of a threshold


@dataclass(frozen=True)
class Decays(Profile):
    """A distribution of r, for normal numbers n.

    Attributes:
        slower: r = softplus(-n) / slower; 0 for a as it is drawn.
        never: the heads that never forget, r = 0: which ones, the seed draws.
        form: `bursts`, r = 8 at one token in 512 and 0 at all others; `edge`, r = 1.01 or 0.99 times a threshold of a
            kernel's over a window, each head of its own.
    """

    slower: float = 0.0
    never: Literal["none", "one", "quarter", "all"] = "none"
    form: Literal["", "bursts", "edge"] = ""

    def raw_gate(self, a: Tensor, A_log: Tensor, dt_bias: Tensor, random: Generator) -> Tensor:
        """The gate that gives this profile's decays; a itself for the profile that is as it is drawn.

        Args:
            a: normal numbers, [..., heads], in bf16, or in float32 for heads' worth of drawing alone.
            A_log: [heads], float32.
            dt_bias: [heads], float32.
            random: draws which heads never forget, and the edges; on the CPU.

        Returns:
            As a, of its type.
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
        # the inverse of softplus; where r is 0, what is as good as minus infinity
        x = torch.where(r > 0, over_rate + torch.log(-torch.expm1(-over_rate)), _KEEPS_ALL)
        exact = x - dt_bias.double()
        return _rounded_at_random(exact, n, a.dtype) if self.form == "edge" else exact.to(a.dtype)

    def _count(self, heads: int) -> int:
        """How many heads never forget; of a quarter at least one."""
        return {"none": 0, "one": 1, "quarter": max(1, heads // 4), "all": heads}[self.never]


def _edges(heads: int, random: Generator) -> Tensor:
    """R of each head: a threshold over a window, one part in a hundred above or below it."""
    import torch

    def pick(values: tuple[float, ...]) -> Tensor:
        chosen = torch.randint(len(values), (heads,), generator=random)
        return torch.tensor(values, dtype=torch.float64)[chosen]

    return pick(_THRESHOLDS) / pick(_WINDOWS) * pick((1.0 - _ASIDE, 1.0 + _ASIDE))


def _rounded_at_random(exact: Tensor, n: Tensor, to: dtype) -> Tensor:
    """Rounds up or down, each with the chance that leaves the mean exact: a window's sum is then as it is wanted."""
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
"""Of ops that take a token, or a few: without those that differ along a sequence."""
PROFILES = (
    *DECODE_PROFILES,
    Decays("bursty", "r = 0, but 8 at one token in 512 of each head: resets", form="bursts"),
    Decays("edge", "sums over 64 to 512 tokens 1 % above or below the thresholds at which kernels cut", form="edge"),
)
"""Of ops that take whole sequences."""


def gate_of_profile(name: str, tensors: dict[str, Tensor], random: Generator) -> Tensor:
    """The input `a` of a kind of inputs: of the profile of this name, or as it was drawn.

    Args:
        name: of a profile or a scenario.
        tensors: `a`, `A_log` and `dt_bias`, drawn.
        random: as `Decays.raw_gate` takes it.
    """
    profile = next((each for each in PROFILES if each.name == name), FORGETFUL)
    return profile.raw_gate(tensors["a"], tensors["A_log"], tensors["dt_bias"], random)
