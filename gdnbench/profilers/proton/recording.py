"""What one run of `gdnbench proton` leaves: a JSON file, and Proton's trace beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gdnbench.errors import ProfilerError, ReportFormatError, ShapeError
from gdnbench.model import Case
from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.fields import (
    CaseFields,
    Count,
    FileName,
    LaunchMicroseconds,
    Microseconds,
    Name,
    Source,
    Text,
    check_schema,
    decode,
)
from gdnbench.profilers.files import read_content
from gdnbench.profilers.proton.tabulate import tabulate
from gdnbench.profilers.proton.trace import read_trace

SCHEMA: Literal[1] = 1
PLAIN, INSTRUMENTED = "plain", "instrumented"
WARM_UPS = 1
"""Traced launches that do not count: the first one also loads the code, and took 12 to 50 % longer on an H200."""

_HINT = "`--import` takes the .json that `gdnbench proton` wrote, or a .chrome_trace of Proton's"
_SOME = Meta(min_length=1)


class _Stored(msgspec.Struct, frozen=True):
    """A recording as it is stored."""

    op: Name
    case: CaseFields
    language: Literal["triton", "torch"]
    gpu: Text
    triton: Text
    times_us: dict[Text, Annotated[list[LaunchMicroseconds], _SOME]]
    cupti_us: dict[Text, Annotated[list[Microseconds], _SOME]] = {}
    trace: FileName = ""
    mode: Text = ""
    launches: Count = 0
    capacity: Count = 0
    sm_mhz: tuple[Annotated[float, Meta(ge=1, le=1e6)], ...] = ()
    notes: tuple[str, ...] = ()
    source: Source = ""


@dataclass(frozen=True)
class Recording:
    """What was measured.

    Attributes:
        op: the op.
        case: the kernel, its params and the shape.
        language: what the kernel is declared as: `triton`, or `torch` where it is reached through Python.
        gpu: its name, as CUDA tells it.
        triton: Triton's version, which is Proton's.
        times_us: of cold launches by CUDA events, in microseconds: `plain`, and `instrumented` where the kernel has
            scopes.
        cupti_us: durations of the GPU functions that a cold launch of the plain kernel runs, by name, as Proton's
            CUPTI backend records them; empty where it records nothing.
        trace: name of the trace's file beside this one, gzipped; empty for a kernel without scopes.
        mode: Proton's mode of instrumentation.
        launches: traced launches that count, after `WARM_UPS` that do not.
        capacity: passes through scopes that a warp can record in a launch.
        sm_mhz: the SM clock in MHz, measured before and after the traced launches.
        notes: what qualifies the numbers.
        source: hash of the kernel's sources; empty in files of before there was one.
    """

    op: str
    case: Case
    language: str
    gpu: str
    triton: str
    times_us: Mapping[str, list[float]]
    cupti_us: Mapping[str, list[float]] = field(default_factory=dict)
    trace: str = ""
    mode: str = ""
    launches: int = 0
    capacity: int = 0
    sm_mhz: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""

    def write(self, path: Path) -> None:
        """Writes it."""
        document = {"schema": SCHEMA, **asdict(self), "case": self.case.to_dict()}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads what `write` wrote.

        Raises:
            ReportFormatError: if the file is not one of ours, or a field of it cannot be what it is.
        """
        content = read_content(path, _HINT)
        try:
            check_schema(content, SCHEMA)
            stored = decode(content, _Stored)
            if PLAIN not in stored.times_us:
                raise ValueError(f"times_us lacks {PLAIN}")
            case = stored.case.case()
        except (ValueError, ShapeError) as error:
            raise ReportFormatError(f"{path} cannot be read: {error}", _HINT) from error
        return cls(**{**msgspec.structs.asdict(stored), "case": case})

    @property
    def clock_mhz(self) -> float | None:
        """The SM clock during the traced launches; None where nothing was traced."""
        return sum(self.sm_mhz) / len(self.sm_mhz) if self.sm_mhz else None

    def breakdown(self, folder: Path) -> Breakdown | None:
        """Where the time goes; None for a kernel without scopes.

        Args:
            folder: where the trace lies.

        Raises:
            ProfilerError: if the trace has gone, cannot be used, or does not hold the launches that were traced.
        """
        if not self.trace:
            return None
        spans = read_trace(folder / self.trace)
        breakdown = tabulate(spans, sm_mhz=self.clock_mhz, skip=WARM_UPS, capacity=self.capacity)
        if breakdown.launches != self.launches:
            found = f"{breakdown.launches} launches besides the one that warms up"
            raise ProfilerError(f"{self.trace} holds {found}, and {self.launches} were made", "trace the kernel again")
        return breakdown
