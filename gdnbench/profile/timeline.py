"""Single passes of warps through marks: how much iterations of a loop differ, and when each pass was, on which SM."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gdnbench.errors import LeftOutWarning, ProfilerError, ReportFormatError
from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profile.breakdown import analyse
from gdnbench.profile.files import find_files
from gdnbench.profile.stamps import BEGIN_NS, SM, UNWRITTEN, Passes, StampedKernel, Stamps, read_stamps
from gdnbench.stats import FloatArray


@dataclass(frozen=True)
class PassRow:
    """The passes of one phase, in µs, over all warps that pass it and all launches."""

    name: str
    passes: float  # of a warp and launch, on average
    average: float
    p95: float

    @property
    def ratio(self) -> float:
        """The 95th percentile over the average: near 1 where every iteration takes as long."""
        return self.p95 / self.average if self.average > 0 else 0.0


@dataclass(frozen=True)
class TimeSpan:
    """One pass: the warp, where it ran, the phase, and when, in µs since the first warp's begin."""

    warp: tuple[int, int, int]  # the SM it ran on, its block, and its index in the block
    phase: str
    begin_us: float
    length_us: float


def pass_rows(passes: Passes, about: StampedKernel, places: Sequence[int], sm_mhz: float) -> tuple[PassRow, ...]:
    """Returns a row for each phase that a warp at some `places` of a block passes several times; all warps if empty."""
    lengths = _lengths_us(passes, sm_mhz)
    warps = np.arange(lengths.shape[1]) % (about.block_warps or 1)
    is_meant = passes.is_there & np.isin(warps, places or warps)[None, :, None]
    rows = []
    for number, name in enumerate(about.phases):
        found = is_meant & (passes.phases == number)
        count = found.sum(axis=2)
        if count.max() > 1:
            each = lengths[found]
            average, p95 = float(each.mean()), float(np.percentile(each, 95))
            rows.append(PassRow(name, float(count[count > 0].mean()), average, p95))
    return tuple(rows)


def spans_of(passes: Passes, about: StampedKernel, sm_mhz: float, launch: int = 0) -> list[TimeSpan]:
    """Returns the passes of one launch, by warp and time."""
    records, phases = passes.records[launch], passes.phases[launch]
    there = (passes.is_there & ~passes.is_between)[launch]
    ends, lengths = passes.ends[launch] / sm_mhz, _lengths_us(passes, sm_mhz)[launch]
    written = np.flatnonzero(records[:, SM] != UNWRITTEN)
    since = (records[:, BEGIN_NS] - records[written[:1], BEGIN_NS]).view(np.int32) / 1e3
    first = since[written].min(initial=0.0)
    own = about.block_warps or 1
    return [
        TimeSpan(
            warp=(int(records[warp, SM]), int(warp // own), int(warp % own)),
            phase=about.phases[phases[warp, each]],
            begin_us=float(since[warp] - first + ends[warp, each] - lengths[warp, each]),
            length_us=float(lengths[warp, each]),
        )
        for warp in written
        for each in np.flatnonzero(there[warp])
    ]


def find_spans(profiles: Path, label: str, workload: Workload, *, gpu: str, source: str) -> list[TimeSpan]:
    """Returns the passes in a kernel's newest stamps of a workload, a GPU model and a code, or [] without any.

    `source` is the hash of the kernel's sources. Unreadable files are left out with a `LeftOutWarning`.
    """
    for path in find_files(profiles, "phases", label, workload, suffix=".npz", gpu=gpu):
        try:
            stamps = read_stamps(path)
            is_other = CodeState.of(stamps.about.source, source) is CodeState.CHANGED
            if spans := [] if is_other else stamped_spans(stamps):
                return spans
        except (ReportFormatError, ProfilerError) as error:
            warnings.warn(f"stamps are left out: {error.message}", LeftOutWarning, stacklevel=2)
    return []


def stamped_spans(stamps: Stamps) -> list[TimeSpan]:
    """Returns the first noted launch's passes, by the SM clock of the stamped ones; [] where none was noted."""
    return spans_of(stamps.passes, stamps.about, analyse(stamps).timeline.sm_mhz) if stamps.passes else []


def _lengths_us(passes: Passes, sm_mhz: float) -> FloatArray:
    """Returns how long each pass took, an array [launches, warps, passes]: since the one before, or the begin."""
    ends: npt.NDArray[np.int64] = passes.ends.astype(np.int64)
    lengths: FloatArray = np.maximum(np.diff(ends, axis=2, prepend=0), 0) / sm_mhz
    return lengths


def write_perfetto(path: Path, spans: Sequence[TimeSpan]) -> None:
    """Writes passes for ui.perfetto.dev, in Chrome's Trace Event Format: a process an SM, a thread a warp."""
    numbers = {warp: number for number, warp in enumerate(sorted({span.warp for span in spans}))}
    names = [
        {"ph": "M", "name": name, "pid": warp[0], "tid": number, "args": {"name": text}}
        for warp, number in numbers.items()
        for name, text in (("process_name", f"SM {warp[0]}"), ("thread_name", "block {1} warp {2}".format(*warp)))
    ]
    events = [
        {
            **{"ph": "X", "name": span.phase, "pid": span.warp[0], "tid": numbers[span.warp]},
            **{"ts": round(span.begin_us, 4), "dur": round(span.length_us, 4)},
        }
        for span in spans
    ]
    text = json.dumps({"traceEvents": [*names, *events]}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
