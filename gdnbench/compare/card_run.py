"""The runs that are to be joined: what is read of each, which may be joined, and which cases they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.compare.runs import conditions_of
from gdnbench.errors import UsageError
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Clock
from gdnbench.stats.estimators import INTERQUARTILE
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.measurements import read_clocks, read_measurements
from gdnbench.store.samples import CaseRounds, read_case_rounds
from gdnbench.store.step import refuse_step

_SAME_SETTINGS = {"plain": False, "cold_tlb": False, "trim": INTERQUARTILE}
"""Settings that change what a time is, and the value in runs without them; runs that differ are not joined."""

_OF_EACH_RUN = ("GPU", "commit")
"""Conditions that may differ: the card is the random effect, and kernels of other code are left out one by one."""


@dataclass(frozen=True, kw_only=True)
class CardRun:
    """A stored run to be joined.

    Attributes:
        folder: where it is.
        info: its description.
        rows: by case id and further clock, None for the run's own timer; those that have a time.
        rounds: likewise.
        failed: by case id, those that have none.
    """

    folder: Path
    info: RunInfo
    rows: Mapping[tuple[str, Clock | None], Measurement]
    rounds: Mapping[tuple[str, Clock | None], CaseRounds]
    failed: Mapping[str, Measurement]

    @property
    def uuid(self) -> str:
        """Of its card; empty where it is not told."""
        return str((self.info.machine.get("gpu") or {}).get("uuid") or "")

    @property
    def gpu_name(self) -> str:
        """The driver's name of its card."""
        return str((self.info.machine.get("gpu") or {}).get("name") or "")


def read_card_run(folder: Path) -> CardRun:
    """Reads a run's folder.

    Raises:
        UsageError: for a step.
        RunFormatError: if it holds no run that this gdnbench can read.
    """
    refuse_step(folder)
    rows = [*read_measurements(folder), *(row for clock in read_clocks(folder).values() for row in clock)]
    rounds = read_case_rounds(folder)
    return CardRun(
        folder=folder,
        info=read_info(folder),
        rows={key: row for row in rows if row.timing and (key := (row.case.id, row.clock)) in rounds},
        rounds=rounds,
        failed={row.case.id: row for row in rows if row.timing is None and row.clock is None},
    )


def check_joinable(run: CardRun) -> None:
    """Raises UsageError for a run that joins no other: a sweep, and one that does not tell its GPU."""
    name = run.info.run_id
    if run.info.swept:
        raise UsageError(f"{name} is a sweep: only runs are joined", f"gdnbench show {name}")
    if not run.uuid:
        raise UsageError(f"{name} does not tell which GPU it is of", "join runs of a GPU, or compare them")


def check_alike(first: CardRun, other: CardRun) -> None:
    """Raises UsageError for two runs that are not answers to one question."""
    names = f"{first.info.run_id} {other.info.run_id}"
    apart = {
        "ops": (first.info.op, other.info.op),
        "GPU models": (first.gpu_name, other.gpu_name),
        "baselines": (first.info.baseline, other.info.baseline),
        **{
            f"settings of {name}": (first.info.settings.get(name, default), other.info.settings.get(name, default))
            for name, default in _SAME_SETTINGS.items()
        },
    }
    for what, (left, right) in apart.items():
        if left != right:
            raise UsageError(
                f"runs of different {what} are not joined: {left or 'none'} and {right or 'none'}",
                f"gdnbench compare {names}",
            )


def differing_conditions(runs: Sequence[CardRun]) -> list[str]:
    """What times depend on besides the card, where the runs differ in it."""
    found = [conditions_of(run.info) for run in runs]
    names = dict.fromkeys(name for each in found for name in each if name not in _OF_EACH_RUN)
    told = {name: list(dict.fromkeys(each.get(name, "none") for each in found)) for name in names}
    warnings = [f"the runs differ in {name}: {', '.join(values)}" for name, values in told.items() if len(values) > 1]
    if len({run.info.op_hash for run in runs} - {""}) > 1:
        warnings.append("the runs differ in what the op says of inputs and gates")
    return warnings


def shared_cases(runs: Sequence[CardRun]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Ids of the cases that every run timed with the same code, and the others in words by the reason."""
    first = runs[0]
    everywhere = dict.fromkeys(case_id for run in runs for case_id, clock in run.rows if clock is None)
    shared: list[str] = []
    left_out: dict[str, list[str]] = {}
    for case_id in everywhere:
        rows = [run.rows.get((case_id, None)) for run in runs]
        there = [row for row in rows if row]
        if len(there) < len(runs):
            left_out.setdefault("not timed in every run", []).append(_told(there[0]))
        elif any(not _same_code(first, run, case_id) for run in runs[1:]):
            left_out.setdefault("of other code in some run", []).append(_told(there[0]))
        else:
            shared.append(case_id)
    return shared, {why: tuple(labels) for why, labels in left_out.items()}


def _told(row: Measurement) -> str:
    return f"{row.case.label} {row.case.workload}"


def _same_code(first: CardRun, other: CardRun, case_id: str) -> bool:
    one, another = (run.rows[case_id, None].case for run in (first, other))
    # Of a floor's forms each card has the one that is the fastest there: together they are still its floor.
    is_alike = one.variant == another.variant or (one.is_bare_floor and another.is_bare_floor)
    kernel = one.variant.kernel
    return is_alike and first.info.sources.get(kernel) == other.info.sources.get(kernel)
