"""What a trip to memory, a barrier, a launch and a byte cost on a GPU, as JSON: `profiles/latency/<gpu>/<run>.json`.

Cycles of a GPU model are the same on any host, so what was measured on one card speaks for others of its model.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from gdnbench.errors import LeftOutWarning, RunFormatError
from gdnbench.model.gpu import Precision
from gdnbench.store.files import read_document, write_document
from gdnbench.store.schema import Name, Positive, SmallCount, TextLine, Timestamp

SCHEMA_VERSION = 1
FOLDER = "latency"
DRAM = "DRAM"
"""The trip to device memory whose address translation is in the SM's own buffer."""


CostGroup = Literal["trip", "barrier", "launch"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one trip, barrier or launch takes: the median of several loops, with the shortest and the longest."""

    group: CostGroup
    what: TextLine
    ns: Positive
    least_ns: Positive
    most_ns: Positive
    cycles: Positive | None  # of the SM's clock; None for what no SM counts
    sm_mhz: Positive | None  # the clock meanwhile


@dataclass(frozen=True, kw_only=True)
class ReadRate:
    """Bytes per second that some SMs read of device memory, `lane_bytes` by each lane and load."""

    lane_bytes: SmallCount
    sms: SmallCount  # one block on each
    bytes_per_s: Positive
    least_bytes_per_s: Positive
    most_bytes_per_s: Positive
    sm_mhz: Positive


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Floating-point operations per second of all SMs, each multiplication and addition counted."""

    precision: Precision
    flops_per_s: Positive
    least_flops_per_s: Positive
    most_flops_per_s: Positive
    sm_mhz: Positive  # the clock meanwhile


@dataclass(frozen=True, kw_only=True)
class Unmeasured:
    """What could not be measured on this GPU, and why."""

    what: TextLine
    why: TextLine


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """All costs of one GPU; `pages` of 2 MiB were visited once each where translations are cold."""

    timestamp: Timestamp
    host: TextLine
    gpu: Name
    gpu_name: TextLine
    uuid: TextLine
    driver: TextLine | None
    sms: SmallCount
    l2_bytes: SmallCount
    pages: SmallCount
    costs: list[Cost]
    rates: list[ReadRate]
    unmeasured: list[Unmeasured]
    peaks: list[Peak] = field(default_factory=list)  # none in files from before they were measured
    schema: int = SCHEMA_VERSION

    @property
    def dram_ns(self) -> float | None:
        """The time of one trip to device memory in ns; None if it was not measured."""
        return next((cost.ns for cost in self.costs if cost.what == DRAM), None)

    @property
    def read_bytes_per_s(self) -> float | None:
        """The most that it read of device memory, by any width of load and number of SMs; None if not measured."""
        return max((rate.bytes_per_s for rate in self.rates), default=None)


def latency_path(profiles: Path, gpu: str, timestamp: str) -> Path:
    """Where the costs of a GPU model, measured at an ISO time, are stored in a folder of profiles."""
    when = timestamp[:19].replace("-", "").replace(":", "").replace("T", "-")
    return profiles / FOLDER / gpu / f"{when}.json"


def write_latencies(path: Path, latencies: Latencies) -> None:
    """Writes the costs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, asdict(latencies))


def read_latencies(path: Path) -> Latencies:
    """Reads the costs; raises RunFormatError if the file does not hold them."""
    return read_document(path, Latencies)


def newest_latencies(profiles: Path, gpu: str) -> Latencies | None:
    """The newest costs of a GPU model, by its short name; unreadable files are left out with a `LeftOutWarning`."""
    for path in sorted((profiles / FOLDER / gpu).glob("*.json"), reverse=True) if gpu else ():
        try:
            return read_latencies(path)
        except RunFormatError as error:
            warnings.warn(error.message, LeftOutWarning, stacklevel=2)
    return None
