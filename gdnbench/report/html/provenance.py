"""Where the numbers come from: a value for each run, in groups."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gdnbench.report.html.content import Fact
from gdnbench.report.html.stored import Stored

_SETTINGS = {
    "rounds": "rounds", "samples": "samples a round", "seed": "seed", "margin": "margin",
    "confidence": "confidence", "step_limit_s": "time limit of a step, s", "plain": "plain NVBench",
    "budget_s": "budget, s",
}  # fmt: skip
_GPU = {
    "name": "GPU", "uuid": "UUID", "sms": "SMs", "l2_bytes": "L2", "memory_bytes": "memory",
    "driver": "driver", "cuda_driver": "CUDA of the driver", "sm_max_mhz": "highest SM clock, MHz",
    "memory_mhz": "memory clock, MHz", "power_limit_w": "power limit, W", "ecc": "ECC", "mig": "MIG",
    "persistence": "persistence mode", "compute_mode": "compute mode",
}  # fmt: skip
_GIT = {"commit": "commit", "branch": "branch", "dirty": "uncommitted changes"}
_HOST = {"os": "system", "cpu": "CPU", "cores": "CPU cores"}
LONGEST = 160  # characters of a value: some variables hold a list of every driver there ever was


Groups = tuple[tuple[str, tuple[Fact, ...]], ...]


def provenance_of(runs: Sequence[Stored]) -> Groups:
    """What readers ask for first, in groups; what no run knows is left out."""
    machines = [run.info.machine for run in runs]
    return _known(
        {
            "Run": (
                Fact(name="started, UTC", values=tuple(run.info.timestamp for run in runs)),
                Fact(name="command", values=tuple(run.info.command for run in runs)),
                Fact(name="complete", values=tuple(_text(run.info.complete) for run in runs)),
                Fact(name="median SM clock, MHz", values=tuple(map(_clock, runs))),
            ),
            "Settings": _facts([run.info.settings for run in runs], _SETTINGS),
            "GPU": _facts([machine.get("gpu") or {} for machine in machines], _GPU),
            "Versions": _facts([machine.get("versions") or {} for machine in machines]),
            "Source": _facts([run.info.git for run in runs], _GIT),
            "Host": _facts([machine.get("host") or {} for machine in machines], _HOST),
        }
    )


def details_of(runs: Sequence[Stored]) -> Groups:
    """The rest: hashes and variables."""
    return _known(
        {
            "Hashes of the kernels' sources": _facts([run.info.sources for run in runs]),
            "Environment": _facts([run.info.machine.get("environment") or {} for run in runs]),
        }
    )


def _known(groups: Mapping[str, tuple[Fact, ...]]) -> Groups:
    return tuple((name, facts) for name, facts in groups.items() if facts)


def _facts(documents: Sequence[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> tuple[Fact, ...]:
    """A fact for each key that any document has; in the order of `names`, if given."""
    keys = names or {key: key for document in documents for key in document}
    found = (
        Fact(name=title, values=tuple(_text(document.get(key), key) for document in documents))
        for key, title in keys.items()
    )
    return tuple(fact for fact in found if any(fact.values))


def _text(value: Any, key: str = "") -> str:
    if value is None:
        return ""
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _clock(run: Stored) -> str:
    clocks = [row.timing.sm_mhz for row in run.rows if row.timing and not math.isnan(row.timing.sm_mhz)]
    return f"{statistics.median(clocks):.0f}" if clocks else ""
