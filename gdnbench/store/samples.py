"""`rounds.csv` and `samples.parquet`: everything that was measured, for analyses of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.codec import convert_cells
from gdnbench.errors import RunFormatError
from gdnbench.model.status import CLOCKS, Clock, Timer
from gdnbench.store.files import DAMAGED, read_rows, write_dataclasses
from gdnbench.store.schema import Count, Microseconds, Positive, RoundNumber, TextLine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gdnbench.stats import FloatArray, IntArray

ROUNDS, SAMPLES = "rounds.csv", "samples.parquet"
_NEEDED = ("case", "timer", "round", "time_us")
_CLOCK_OF: dict[str, Clock] = {clock: clock for clock in CLOCKS}


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """One round of one case."""

    run_id: str
    case: str
    timer: str
    round: int  # 1 for the first after the burn-in
    process: int  # number of the worker process that measured it, from 1; 0 if unknown
    samples: int
    time_us: float  # mean of the samples but for a share at either end, microseconds
    mean_us: float  # mean of all samples, microseconds
    median_us: float  # median, interpolated inside its tick, microseconds
    sm_mhz: float | None
    low_clock: bool  # whether that is well below the run's median clock
    checked: int = 0  # launches that were held against the oracle


def write_rounds(folder: Path, rows: Sequence[RoundRow]) -> None:
    """Writes `rounds.csv`."""
    write_dataclasses(folder / ROUNDS, RoundRow, rows)


@dataclass(frozen=True, kw_only=True)
class _Round:
    case: TextLine
    timer: Timer
    round: RoundNumber
    time_us: Microseconds = math.nan
    process: Count = 0
    sm_mhz: Positive = math.nan


@dataclass(frozen=True)
class CaseRounds:
    """The rounds of one case by one timer."""

    times_us: FloatArray  # shape (rounds,), microseconds, NaN where a round is missing
    processes: npt.NDArray[np.int64]  # shape (rounds,); 0 if unknown
    sm_mhz: FloatArray | None = None  # shape (rounds,), median MHz, NaN if unknown; None where of no round


def read_rounds(folder: Path) -> dict[str, CaseRounds]:
    """The rounds by the run's own timer, by case id."""
    return {case: found for (case, clock), found in read_case_rounds(folder).items() if clock is None}


def read_case_rounds(folder: Path) -> dict[tuple[str, Clock | None], CaseRounds]:
    """The rounds by case id and further clock, None for the run's own timer."""
    import numpy as np

    path = folder / ROUNDS
    by_case: dict[tuple[str, Clock | None], list[_Round]] = {}
    last: dict[Clock | None, int] = {}
    for row in read_rows(path, _NEEDED, lambda cells: convert_cells(cells, _Round)):
        clock = _CLOCK_OF.get(row.timer)
        last[clock] = max(row.round, last.get(clock, 0))
        by_case.setdefault((row.case, clock), []).append(row)
    found: dict[tuple[str, Clock | None], CaseRounds] = {}
    for (case, clock), of_case in by_case.items():
        times_us, sm_mhz, processes = [math.nan] * last[clock], [math.nan] * last[clock], [0] * last[clock]
        for row in of_case:
            at = row.round - 1
            if not math.isnan(times_us[at]):
                raise RunFormatError(f"{path}: round {row.round} of {case} stands there twice", DAMAGED)
            times_us[at], processes[at], sm_mhz[at] = row.time_us, row.process, row.sm_mhz
        found[case, clock] = CaseRounds(np.array(times_us), np.array(processes, dtype=np.int64), np.array(sm_mhz))
    return found


def processes_of(cases: Iterable[CaseRounds]) -> IntArray:
    """The number of the process that measured each round of a run, by the cases that have it; 0 if unknown."""
    import numpy as np

    processes: IntArray = np.max([found.processes for found in cases], axis=0)
    return processes


@dataclass(frozen=True)
class RoundSamples:
    """The samples of one round of one case."""

    case: str
    round: int
    times_us: FloatArray  # shape (samples,), microseconds
    sm_mhz: Sequence[float] | FloatArray = ()  # MHz; of another length where not measured
    placements: Sequence[int] | IntArray = ()  # numbers within its process; likewise
    output_placements: Sequence[int] | IntArray = ()


def samples_name(clock: Clock | None) -> str:
    """Of the file with a clock's samples; None is the run's own timer."""
    path = Path(SAMPLES)
    return f"{path.stem}-{clock}{path.suffix}" if clock else SAMPLES


def write_samples(folder: Path, rounds: Iterable[RoundSamples], clock: Clock | None = None) -> None:
    """Writes `samples.parquet`, a row per sample; a further clock's go into `samples-cupti.parquet`."""
    import numpy as np
    import pandas as pd

    if not (kept := list(rounds)):
        return
    counts = [len(each.times_us) for each in kept]
    placements = [_column(each.placements, each.times_us, -1) for each in kept]
    output_placements = [_column(each.output_placements, each.times_us, -1) for each in kept]
    columns = {
        "case": np.repeat([each.case for each in kept], counts).astype(object),
        "round": np.repeat([each.round for each in kept], counts).astype(np.int16),
        "time_us": np.concatenate([each.times_us for each in kept]).astype(np.float32),
        "sm_mhz": np.concatenate([_column(each.sm_mhz, each.times_us, np.nan) for each in kept]).astype(np.float32),
        "placement": np.concatenate(placements).astype(np.int32),
        "output_placement": np.concatenate(output_placements).astype(np.int32),
    }
    frame = pd.DataFrame(columns).astype({"case": "category"})
    frame.to_parquet(folder / samples_name(clock), index=False, compression="zstd")


def _column(values: Sequence[float] | FloatArray | IntArray, times_us: FloatArray, missing: float) -> FloatArray:
    import numpy as np

    return np.asarray(values, float) if len(values) == len(times_us) else np.full(len(times_us), missing)
