"""What earlier runs leave out.

Runs and profiles of schema 1 are all of one op, whose workloads have these axes. Runs of before ops had profiles do not
say of which their inputs are: of the first. Where labels name that one, they name it in these runs, too.
"""

from __future__ import annotations

from dataclasses import replace

from gdnbench.model.axes import Alias, Axis
from gdnbench.model.workload import WorkloadSpec

DECODE_AXES = WorkloadSpec(
    axes=(
        Axis("B", default=1, doc="batch size"),
        Axis("HQ", default=4, compile_time=True),
        Axis("HV", default=8, compile_time=True),
        Axis("K", default=128, compile_time=True, terse=True),
        Axis("V", default=128, compile_time=True, terse=True),
    ),
    aliases=(Alias("heads", "qk{HQ}_v{HV}"),),
    size=("B", "HV"),
)

_PROFILES = {"prefill": ("forgetful", "mixed-heads")}
"""Of ops that had runs without profiles and time another profile than the first by default: both, the first first."""


def with_profiles(op: str, stored: WorkloadSpec) -> WorkloadSpec:
    """A run's axes, with the profiles that its op has had since, if the run does not tell any."""
    if stored.profiles or op not in _PROFILES:
        return stored
    profiles = _PROFILES[op]
    return replace(stored, profiles=profiles, profile=profiles[-1])
