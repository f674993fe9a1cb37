"""Expected differences of times from process to process and from run to run, where nothing changed.

`stats.run_effect` starts from these and corrects them by the unchanged cases of two runs. They are the standard
deviations of one process, rounded up, over 34 runs of the same seven kernels on nine H200 cards of three hosts and over
the runs in `results/`; docs/comparing.md has the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from gdnbench.catalog.catalog import op_named
from gdnbench.compare.figure import Figure
from gdnbench.errors import UnknownNameError
from gdnbench.model.measurement import Measurement
from gdnbench.model.op import USUAL_PROCESS_SD
from gdnbench.model.status import Role
from gdnbench.stats import IntArray
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US, joint_process
from gdnbench.stats.run_effect import Spread
from gdnbench.store.samples import CaseRounds, processes_of

LAUNCH_OF_A_HOST_US = 1.0
"""Launches between hosts: an empty kernel takes 2.8, 3.1 and 4.4 µs on three kinds of host."""

KERNEL_TIME_OF_A_PROCESS = 0.002
"""Kernel times between processes on one card, relative: 0.1 %."""

KERNEL_TIME_OF_A_CARD = 0.01
"""Kernel times between cards of one model, relative: 0.4 to 2 % between cards of three hosts."""

STRAY_OF_A_HOST = 0.006
"""Stray of a stream time on a host from what all kernels there share, relative: FLA's at B=8 strays by 4 %."""

STRAY_OF_A_CARD = 0.004
"""Stray of a kernel time on a card from what all kernels there share, relative: 0.3 to 0.5 %."""

_KERNEL_TIME = "cupti"
_CPU = "cpu"


@cache
def _process_sd(op: str) -> tuple[float, float]:
    try:
        return op_named(op).process_sd
    except UnknownNameError:  # of an op that is not here, or a file of another tool
        return USUAL_PROCESS_SD


def own_sd(op: str, launches: int) -> float:
    """The relative standard deviation between processes of a kernel of so many launches: see `Op.process_sd`."""
    return _process_sd(op)[launches > 1]


def process_by_workload(rows: Iterable[Measurement], rounds: Mapping[str, CaseRounds]) -> IntArray:
    """The process of each round of a run of several workloads, each of which may have been measured by its own process.

    `rows` are of one timer; `rounds` has the rounds of their cases by case id.
    """
    by_workload: dict[object, list[CaseRounds]] = {}
    for row in rows:
        if row.case.id in rounds:
            by_workload.setdefault(row.case.workload, []).append(rounds[row.case.id])
    return joint_process([processes_of(each) for each in by_workload.values()])


def is_additive(timer: str) -> bool:
    """Whether the change common to all cases of a run is a constant in microseconds, as a launch is, or a factor."""
    return timer not in (_KERNEL_TIME, _CPU)


def expected_spread(left: Figure, right: Figure, *, plain: bool, other_card: bool) -> Spread:
    """The expected standard deviations of a case's change, in microseconds where `is_additive`, else in logarithms.

    `plain` says that one run measured in place, as `--plain` does; `other_card` that the runs are known to be of two
    cards.
    """
    time_us = (left.time_us + right.time_us) / 2.0
    scale = _per_difference(left, right)
    if right.timer == _CPU:
        return Spread(stray=0.02 * scale, workload=0.01 * scale)
    own = own_sd(right.op, max(left.launches, right.launches))
    if right.timer == _KERNEL_TIME:
        of_card = STRAY_OF_A_CARD if other_card else 0.0
        return Spread(math.hypot(math.hypot(own, 0.0015 / time_us) * scale, of_card), workload=0.001 * scale)
    of_host = STRAY_OF_A_HOST * time_us if other_card else 0.0
    return Spread(
        stray=math.hypot(math.hypot(_launching_us(right, plain=plain), own * time_us) * scale, of_host),
        workload=math.hypot(0.012, 0.0015 * time_us) * scale,
    )


def _launching_us(figure: Figure, *, plain: bool) -> float:
    """The variation of a case's launches beside those of others, microseconds.

    An empty kernel ends before the launch has settled and varies most; several launches add up; in place, the L2 and
    the launch queue are uncontrolled.
    """
    if plain:
        return 0.08
    return 0.03 if is_empty(figure) else 0.01 * max(figure.launches, 1)


def is_empty(figure: Figure) -> bool:
    """Whether it is the empty floor, from which little can be estimated for other cases."""
    return figure.role is Role.FLOOR and figure.nbytes == 0


def expected_whole(left: Figure, right: Figure, *, same_card: bool) -> float:
    """The expected common change of all cases of two runs, in the unit of `expected_spread`.

    `same_card` says that both are known to be of one card, and so of one host.
    """
    scale = _per_difference(left, right)
    if right.timer == _CPU:
        return 0.05 * scale
    if right.timer == _KERNEL_TIME:
        of_process, of_place = KERNEL_TIME_OF_A_PROCESS, KERNEL_TIME_OF_A_CARD
    else:
        of_process, of_place = USUAL_LAUNCH_SD_US, LAUNCH_OF_A_HOST_US
    return math.hypot(of_process * scale, 0.0 if same_card else of_place * math.sqrt(2.0))


def _per_difference(left: Figure, right: Figure) -> float:
    """The standard deviation of a difference of two runs over that of a process: a run averages its processes."""
    return math.sqrt(sum(1.0 / max(len(np.unique(figure.processes)), 1) for figure in (left, right)))
