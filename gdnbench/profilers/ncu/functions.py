"""The launches of one GPU function put together: what a column of the table shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.errors import MissingCounterError
from gdnbench.model import Shape
from gdnbench.profilers.ncu.collect import Report
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import QUANTITIES, Quantity, stalls, unread_stalls


@dataclass(frozen=True)
class Function:
    """Every launch of one GPU function in one report.

    Attributes:
        path: the report.
        profiles: its launches, at least one.
    """

    path: Path
    profiles: tuple[Profile, ...]

    @property
    def name(self) -> str:
        """The GPU function's name."""
        return self.profiles[0].function

    @property
    def label(self) -> str:
        """The kernel's label; empty for a report that gdnbench did not make."""
        return self.profiles[0].label

    @property
    def shape(self) -> Shape | None:
        """The workload; None where the report does not tell."""
        return self.profiles[0].shape

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.profiles[0].gpu

    @property
    def source(self) -> str:
        """Hash of the kernel's sources; empty where the report does not tell."""
        return self.profiles[0].source

    def values(self, quantity: Quantity) -> tuple[float, ...]:
        """A quantity of every launch; empty where the report lacks it."""
        values = [quantity.read(profile) for profile in self.profiles]
        return tuple(value for value in values if value is not None)

    def median(self, quantity: Quantity) -> float | None:
        """The median of a quantity over the launches; None where the report lacks it, NaN where ncu wrote NaN."""
        return _median(self.values(quantity))

    def stall_values(self, reason: str) -> tuple[float, ...]:
        """Cycles per instruction that a warp spends for a reason, of every launch."""
        return tuple(stalls(profile).get(reason, 0.0) for profile in self.profiles)

    def stalls(self) -> dict[str, float]:
        """Cycles per instruction in each state, the median over the launches, most first."""
        reasons = dict.fromkeys(reason for profile in self.profiles for reason in stalls(profile))
        medians = {reason: statistics.median(self.stall_values(reason)) for reason in reasons}
        return dict(sorted(medians.items(), key=lambda pair: -pair[1]))

    def unread(self) -> tuple[str, ...]:
        """What ncu wrote NaN for: titles of quantities, and reasons of stalls."""
        titles = [one.title for one in QUANTITIES if any(map(math.isnan, self.values(one)))]
        reasons = (reason for profile in self.profiles for reason in unread_stalls(profile))
        return tuple(dict.fromkeys([*titles, *reasons]))


def functions_of(report: Report) -> tuple[Function, ...]:
    """Every function of a report, in the order of their first launch."""
    found: dict[tuple[str, Shape | None, str, str, str], list[Profile]] = {}
    for profile in report.profiles:
        key = (profile.label, profile.shape, profile.gpu, profile.function, profile.source)
        found.setdefault(key, []).append(profile)
    return tuple(Function(report.path, tuple(profiles)) for profiles in found.values())


def check_read(functions: Sequence[Function]) -> None:
    """Makes sure that ncu could read all that the table shows.

    Raises:
        MissingCounterError: if it wrote NaN somewhere.
    """
    for function in functions:
        if titles := function.unread():
            raise MissingCounterError(
                f"ncu could not read {', '.join(titles)} of {function.label or function.name}: it wrote NaN",
                "profile again, with nothing else on the GPU; if it stays, take another version of ncu with --ncu",
            )


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return math.nan if any(map(math.isnan, values)) else statistics.median(values)
