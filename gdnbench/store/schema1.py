"""What runs and profiles of schema 1 leave out: they are all of one op, whose workloads have these axes."""

from __future__ import annotations

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
