"""Writes a run's files and gives its folder its final name."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

from gdnbench.analyse.analysis import Analysis
from gdnbench.analyse.rounds import Collected
from gdnbench.model.status import Clock
from gdnbench.store.files import RunFolder, drop_journal
from gdnbench.store.info import RunInfo, write_info
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import RoundSamples, write_rounds, write_samples
from gdnbench.store.tables import BuildRow, LaunchRow, write_builds, write_launches


def write_run(
    folder: RunFolder,
    info: RunInfo,
    analysis: Analysis,
    collected: Collected,
    builds: Sequence[BuildRow],
    clocked: Mapping[Clock, Collected],
) -> Path:
    """Writes a run's files, and removes the journal if it is complete; returns the folder's final name."""
    write_measurements(folder.path, info, analysis.rows)
    write_rounds(folder.path, analysis.rounds)
    write_builds(folder.path, builds)
    write_launches(folder.path, list(_launches(clocked.get("cupti", Collected()))))
    write_samples(folder.path, _samples(collected))
    for clock, of_clock in clocked.items():
        write_samples(folder.path, _samples(of_clock), clock)
    _pack_timer_records(folder.path / "nvbench")
    write_info(folder.path, info)
    # Last: a process killed before this point leaves all that --resume needs.
    if info.complete:
        drop_journal(folder.path)
        if not any(row.status.is_failure for row in analysis.rows):
            for pattern in ("examine-*", "interpret-*", "measure-*"):
                for path in folder.path.glob(pattern):
                    path.unlink()
    return folder.finish()


def _launches(collected: Collected) -> Iterator[LaunchRow]:
    for case_id, rounds in collected.samples.items():
        by_function: dict[str, list[float]] = {}
        for sampled in rounds.values():
            for function, time_us in sampled.functions_us.items():
                by_function.setdefault(function, []).append(time_us)
        for function, times_us in by_function.items():
            yield LaunchRow(case=case_id, function=function, rounds=len(times_us), time_us=median(times_us))


def _samples(collected: Collected) -> Iterator[RoundSamples]:
    for case_id, rounds in collected.samples.items():
        for number, sampled in sorted(rounds.items()):
            times_us, places = np.asarray(sampled.times_us), (sampled.placements, sampled.output_placements)
            yield RoundSamples(case_id, number, times_us, sampled.sm_mhz, *places)


def _pack_timer_records(folder: Path) -> None:
    """Compresses NVBench's JSON (13 KB a state, to a thirtieth); its sample files are in the parquet file already."""
    for record in folder.glob("*.json"):
        if record.stat().st_size:
            with record.open("rb") as source, gzip.open(f"{record}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
        record.unlink()
    for samples in folder.glob("*-bin"):
        shutil.rmtree(samples)
    with suppress(OSError):  # it is not there, or not empty
        folder.rmdir()
