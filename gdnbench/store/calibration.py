"""What a calibration found, as JSON: beside its runs, and the last whole one of each host and GPU model.

The latter lies in the user's state folder: a results folder that was copied must not speak for another machine.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from gdnbench.errors import RunFormatError, UnreadableError
from gdnbench.origin import calibrations_folder
from gdnbench.stats.interval import Interval, share_of, sharing_design_effect
from gdnbench.store.files import read_document, write_document
from gdnbench.store.schema import CalibrationDocument, Name, NotNegative, Share, SmallCount, TextLine, Timestamp

SCHEMA_VERSION = 1
NAME = "calibration.json"
FOUND = 0.95  # the share of slowdowns of a size that must be found for the size to count as one that is found

Confidence = Annotated[float, Meta(gt=0, lt=1)]
Slowdown = Annotated[float, Meta(gt=-1, le=1e3)]


@dataclass(frozen=True, kw_only=True)
class EqualRates:
    """Comparisons of a kernel with itself under other names, at a workload or at all."""

    workload: TextLine
    names: SmallCount  # other names of the kernel in each run, all compared with the same measurement of it
    comparisons: SmallCount  # one a run, workload and name
    claims: SmallCount  # those that the run called FASTER or SLOWER, each of which is false
    covered: SmallCount  # those whose interval, before Holm's correction, holds 1
    rms_z: NotNegative  # root mean square of differences in standard errors; above 1 intervals are too narrow

    @property
    def false_claims(self) -> Interval:
        """The share of false claims, with its 95 % interval."""
        return share_of(self.claims, self.comparisons, design_effect=sharing_design_effect(self.names))

    @property
    def coverage(self) -> Interval:
        """The share of intervals that hold 1, with its own 95 % interval."""
        return share_of(self.covered, self.comparisons, design_effect=sharing_design_effect(self.names))


@dataclass(frozen=True, kw_only=True)
class PlantedRates:
    """Comparisons of a kernel that was made slower by a known step, at a workload.

    `covered` agree with the mean of all other runs, within the interval of that difference; None where there is one
    run.
    """

    workload: TextLine
    target: Share  # the slowdown that was aimed at, a share of the time
    chain: SmallCount  # how many dependent additions it has
    slowdown: Slowdown  # what it is by all runs together
    comparisons: SmallCount  # one a run
    found: SmallCount  # those that the run called SLOWER
    apart: SmallCount  # those whose printed interval lies wholly below 1
    covered: SmallCount | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the verdicts of a machine are worth."""

    timestamp: Timestamp
    host: TextLine
    gpu: Name
    gpu_name: TextLine
    uuid: TextLine
    driver: TextLine | None  # the driver's version; None if unknown
    folder: TextLine
    runs: SmallCount  # those that are in it; `folder` has them
    asked: SmallCount
    processes: SmallCount
    rounds: SmallCount
    margin: Share
    confidence: Confidence
    equal: list[EqualRates]
    planted: list[PlantedRates]  # by workload and size
    schema: int = SCHEMA_VERSION

    @property
    def is_whole(self) -> bool:
        """Whether all of its runs are in it."""
        return self.runs == self.asked

    @property
    def all_equal(self) -> EqualRates:
        """Comparisons of equal kernels at all workloads together."""
        comparisons = sum(each.comparisons for each in self.equal)
        squares = sum(each.comparisons * each.rms_z**2 for each in self.equal)
        return EqualRates(
            workload="all",
            names=max((each.names for each in self.equal), default=0),
            comparisons=comparisons,
            claims=sum(each.claims for each in self.equal),
            covered=sum(each.covered for each in self.equal),
            rms_z=(squares / comparisons) ** 0.5 if comparisons else 0.0,
        )

    @property
    def smallest_found(self) -> float | None:
        """The smallest planted slowdown that every workload finds often enough, as large as it is at any; else None."""
        for target in sorted({rates.target for rates in self.planted}):
            alike = [rates for rates in self.planted if rates.target == target]
            if all(rates.found >= FOUND * rates.comparisons > 0 for rates in alike):
                return max(rates.slowdown for rates in alike)
        return None

    @property
    def summary(self) -> CalibrationDocument:
        """What a run keeps of it."""
        return {
            "timestamp": self.timestamp,
            "runs": self.runs,
            "comparisons": self.all_equal.comparisons,
            "claims": self.all_equal.claims,
            "smallest_found": self.smallest_found,
        }


def in_words(summary: CalibrationDocument) -> str:
    """A calibration in one line: `2026-11-22: 0 of 72 equal kernels called FASTER or SLOWER, …`."""
    smallest = summary["smallest_found"]
    slowdown = "no planted slowdown" if smallest is None else f"a slowdown of {smallest:.1%}"
    return (
        f"{summary['timestamp'][:10]}: {summary['claims']} of {summary['comparisons']} equal kernels "
        f"called FASTER or SLOWER, {slowdown} found in {FOUND:.0%}"
    )


def calibration_path(host: str, gpu: str) -> Path:
    """The file of the last whole calibration of a GPU model on a host: home folders are shared by hosts."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{host}-{gpu}")
    return calibrations_folder() / f"{name}.json"


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration, replacing one that is there in a single step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, asdict(calibration))


@dataclass(frozen=True)
class _Versioned:
    schema: int


def read_calibration(path: Path) -> Calibration:
    """Reads a calibration."""
    try:
        version = read_document(path, _Versioned).schema
        if version == SCHEMA_VERSION:
            return read_document(path, Calibration)
    except UnreadableError:
        raise
    except RunFormatError as error:
        raise RunFormatError(error.message, "gdnbench doctor --calibrate writes a new one") from error
    message = f"{path} is of schema version {version}; this gdnbench reads {SCHEMA_VERSION}"
    raise RunFormatError(message, "gdnbench doctor --calibrate writes a new one")


def last_calibration(host: str, gpu: str) -> Calibration | None:
    """The last whole calibration of a GPU model on a host; None if there is none."""
    path = calibration_path(host, gpu)
    return read_calibration(path) if path.exists() else None
