"""The expected change of a kernel's time from one GPU to another, and the deviation of the measured change from it.

The model: time = fixed part + bytes / peak bandwidth. The fixed part is the launch and the latency of memory, most of a
few microseconds; no data sheet gives it, and it does not shrink on a larger GPU. The bytes are the least that the op
must move, the bandwidth is the data sheet's peak, which no kernel reaches (an H200's copying floor moves 67 MB at 68 %
of it), so "traffic" here is a scale.

The fixed part of a kernel time is latency, and is expected to scale with the SM clock that both runs measured: an empty
kernel's own time grows by 1.46 times from an H200 to an H100, those of kernels by 1.05. That of a stream time is
expected to scale as an empty kernel at the workload does, where both sources have one, else to stay the same. The model
leaves out the L2, where a time may be below the traffic's, and ops that are bound by arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gdnbench.analyse.figure import Figure, FigureSource
from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload

Regime = Literal["latency", "mixed", "bandwidth"]

FLOOR = "{op}-floor-empty"  # the empty kernel on a kernel's grid: the cost of the launch alone
KERNEL_TIME = "cupti"  # the timer of kernel times


@dataclass(frozen=True, kw_only=True)
class ExpectedTime:
    """The expected right time over the left one, were a kernel equally good on both, and the measured one over it."""

    ratio: float
    bound: Regime  # `latency` or `bandwidth` where the fixed part is more or less than half of both times, else `mixed`
    residual: float


@dataclass(frozen=True)
class _Side:
    """One side of a comparison, microseconds; traffic is the least at peak bandwidth, the floor NaN if not measured."""

    time_us: float
    traffic_us: float
    floor_us: float

    @property
    def fixed_us(self) -> float:
        return self.time_us - self.traffic_us


def expect(left: Figure, right: Figure, left_source: FigureSource, right_source: FigureSource) -> ExpectedTime | None:
    """The expected time of a kernel on the right, from that on the left and the two GPUs, or None if it is unknown."""
    left_spec, right_spec = spec_of(left_source.gpu), spec_of(right_source.gpu)
    if left_spec is None or right_spec is None or left_spec == right_spec:
        return None
    if not (_is_timed(left) and _is_timed(right)) or left.timer != right.timer or left.workload != right.workload:
        return None
    nbytes = _bytes_of(left, right)
    if nbytes is None:
        return None
    before = _side(left, left_source, left_spec, nbytes)
    after = _side(right, right_source, right_spec, nbytes)
    growth = left.sm_mhz / right.sm_mhz if left.timer == KERNEL_TIME else after.floor_us / before.floor_us
    fixed = growth if math.isfinite(growth) and growth > 0 else 1.0
    bandwidths = left_spec.bandwidth_gbs / right_spec.bandwidth_gbs
    ratio = (before.traffic_us * bandwidths + before.fixed_us * fixed) / before.time_us
    mostly_fixed = [side.fixed_us > side.time_us / 2 for side in (before, after)]
    bound: Regime = "latency" if all(mostly_fixed) else "mixed" if any(mostly_fixed) else "bandwidth"
    return ExpectedTime(ratio=ratio, bound=bound, residual=after.time_us / before.time_us / ratio)


def _is_timed(figure: Figure) -> bool:
    return figure.status is Status.OK and math.isfinite(figure.time_us) and figure.time_us > 0


def _side(figure: Figure, source: FigureSource, spec: GpuSpec, nbytes: int) -> _Side:
    floor = math.nan if figure.timer == KERNEL_TIME else _floor_us(source, figure)
    traffic_us = nbytes / (spec.bandwidth_gbs * 1e3)  # 1 GB/s is 1000 bytes a microsecond
    return _Side(figure.time_us, min(traffic_us, figure.time_us), floor)


def _bytes_of(left: Figure, right: Figure) -> int | None:
    """Returns the least bytes, for a floor those that it declares (maybe 0), or None if the op is unknown."""
    known = left.nbytes or right.nbytes
    if known or Role.FLOOR in (left.role, right.role):
        return known
    return _op_traffic(left.op, left.workload)


@cache
def _op_traffic(op: str, workload: Workload) -> int | None:
    from gdnbench.catalog.catalog import load_catalog  # on demand: most figures have their bytes

    declared = load_catalog().ops.get(op)
    return None if declared is None else declared.traffic_bytes(workload)


def _floor_us(source: FigureSource, figure: Figure) -> float:
    """The empty kernel's time at a figure's workload, on the default grid if measured; NaN if there is none."""
    name = FLOOR.format(op=figure.op)
    wanted = Role.FLOOR, name, figure.workload, figure.timer
    like = [each for each in source.figures if (each.role, each.kernel, each.workload, each.timer) == wanted]
    floors = filter(_is_timed, sorted(like, key=lambda each: each.label != name))
    return next((each.time_us for each in floors), math.nan)
