"""Runs on disk: one folder a run, written whole or not at all, read with every doubt spelled out."""

from gdnbench.store.builds import BuildRow, read_builds, write_builds
from gdnbench.store.find import (
    Named,
    compares,
    find_newest,
    find_run,
    is_whole,
    list_runs,
    name_runs,
    readable,
    runs_beside,
)
from gdnbench.store.folder import RunFolder, run_id_of
from gdnbench.store.info import (
    SCHEMA_VERSION,
    RunInfo,
    failed_gates,
    passed_gates,
    read_info,
    suite_document,
    suite_of,
    write_info,
)
from gdnbench.store.journal import Journal, read_journal
from gdnbench.store.measurements import read_clocks, read_measurements, write_measurements
from gdnbench.store.samples import RoundRow, read_rounds, read_samples, write_rounds, write_samples
from gdnbench.store.sweep import read_sweep, write_sweep

__all__ = [
    "SCHEMA_VERSION",
    "BuildRow",
    "Journal",
    "Named",
    "RoundRow",
    "RunFolder",
    "RunInfo",
    "compares",
    "failed_gates",
    "find_newest",
    "find_run",
    "is_whole",
    "list_runs",
    "name_runs",
    "passed_gates",
    "read_builds",
    "read_clocks",
    "read_info",
    "read_journal",
    "read_measurements",
    "read_rounds",
    "read_samples",
    "read_sweep",
    "readable",
    "run_id_of",
    "runs_beside",
    "suite_document",
    "suite_of",
    "write_builds",
    "write_info",
    "write_measurements",
    "write_rounds",
    "write_samples",
    "write_sweep",
]
