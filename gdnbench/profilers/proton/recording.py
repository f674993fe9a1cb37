"""What one run of `gdnbench proton` leaves: a JSON file, and Proton's trace beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gdnbench.errors import ProfilerError, RunFormatError
from gdnbench.model import Case
from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.proton.tabulate import tabulate
from gdnbench.profilers.proton.trace import read_trace

SCHEMA = 1
PLAIN, INSTRUMENTED = "plain", "instrumented"
WARM_UPS = 1
"""Traced launches that do not count: the first one also loads the code, and took 12 to 50 % longer on an H200."""


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

    def write(self, path: Path) -> None:
        """Writes it."""
        document = {"schema": SCHEMA, **asdict(self), "case": self.case.to_dict()}
        path.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads what `write` wrote.

        Raises:
            RunFormatError: if the file is not one of ours.
        """
        hint = "`--import` takes the .json that `gdnbench proton` wrote, or a .chrome_trace of Proton's"
        try:
            document: dict[str, Any] = json.loads(path.read_text())
            if document.pop("schema") != SCHEMA:
                raise RunFormatError(f"{path} was written by another version of gdnbench", hint)
            lists = {name: tuple(document[name]) for name in ("sm_mhz", "notes")}
            return cls(**{**document, **lists, "case": Case.from_dict(document["case"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunFormatError(f"cannot read {path}: {type(error).__name__}: {error}", hint) from error

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
