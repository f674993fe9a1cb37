"""What there is to show: a recording of ours with its trace, or a trace alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdnbench.profilers.breakdown import Breakdown
from gdnbench.profilers.proton.recording import Recording
from gdnbench.profilers.proton.tabulate import tabulate
from gdnbench.profilers.proton.trace import read_trace
from gdnbench.profilers.proton.trace_file import Origin


@dataclass(frozen=True)
class Opened:
    """A stored file, read.

    Attributes:
        path: the file.
        recording: what gdnbench measured; None for a trace that it did not record.
        breakdown: where the time goes; None for a kernel without scopes.
        origin: what it is of.
    """

    path: Path
    recording: Recording | None
    breakdown: Breakdown | None
    origin: Origin

    @property
    def trace(self) -> Path | None:
        """The file for Perfetto; None for a kernel without scopes."""
        if self.recording is None:
            return self.path
        return self.path.with_name(self.recording.trace) if self.recording.trace else None


def open_stored(path: Path) -> Opened:
    """Reads a recording, or a trace that Proton's instrumentation wrote: its times stay cycles, of all its launches.

    Raises:
        ReportFormatError: if the file is no recording, or the trace cannot be read.
        ProfilerError: if the trace cannot be used.
    """
    if path.suffix == ".json":
        recording = Recording.read(path)
        origin = Origin(recording.case.variant.label, recording.source)
        return Opened(path, recording, recording.breakdown(path.parent), origin)
    spans = read_trace(path)
    return Opened(path, None, tabulate(spans, sm_mhz=None), spans.origin)
