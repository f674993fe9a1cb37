"""The kernels in `adversarial/` that cheat, what each must get, and the table that a run of them leaves."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faults import Done

TABLE_VARIABLE = "CHEATS_CSV"  # where a run's table goes; a folder of pytest's unless it is set

COLUMNS = ("device", "kernel", "right", "status", "reason")

HONEST = ("test-honest-given", "test-honest-own")
# Label: the statuses that are right. Two where either of two checks may come first.
ON_EVERY_DEVICE = {
    "test-shape-cache": {"wrong-numbers"},
    "test-one-shape": {"wrong-numbers"},
    "test-bf16-state": {"wrong-numbers"},
    "test-tf32": {"wrong-numbers"},
    "test-crude-exp": {"wrong-numbers"},
    "test-nan-everywhere": {"wrong-numbers"},
    "test-hides-exception": {"wrong-numbers"},
    "test-reads-oracle:HOW=gc": {"wrong-numbers"},
    "test-reads-oracle:HOW=stack": {"wrong-numbers"},
    "test-stale-outputs:HOW=given": {"unwritten-output"},
    # What the allocator hands out holds poison, or something else that was freed.
    "test-stale-outputs:HOW=own": {"unwritten-output", "wrong-numbers"},
    "test-lazy": {"failed"},
    "test-patches:HOW=event": {"tampers"},
    "test-fakes-samples:HOW=samples": {"tampers"},
    "test-address-cache": {"wrong-when-timed"},
    "test-precomputes": {"wrong-when-timed"},
    "test-late-thread": {"wrong-when-timed"},
    "test-late-update": {"wrong-when-timed"},
    "test-tires:CALLS=200": {"wrong-when-timed"},
    "test-spots-timer": {"wrong-when-timed"},
    "test-rarely-wrong:ONE_IN=2": {"wrong-when-timed"},
}
MANY_CALLS = "test-tires:CALLS=200"  # a busy CPU may leave a case fewer
ON_CPU = {
    **{label: statuses for label, statuses in ON_EVERY_DEVICE.items() if label != MANY_CALLS},
    "test-value-cache": {"wrong-when-timed"},
    "test-tires:CALLS=60": {"wrong-when-timed"},
    "test-stale-outputs:HOW=late": {"wrong-when-timed"},
    "test-patches:HOW=empty": {"tampers"},
    "test-patches:HOW=clock": {"tampers"},
    "test-patches:HOW=timer": {"tampers"},
    "test-fakes-samples:HOW=verdict": {"tampers"},
}
ON_GPU = {
    **ON_EVERY_DEVICE,
    "test-tf32-matmul": {"wrong-numbers"},
    "test-stale-shared": {"wrong-numbers"},
    "test-thread-launches": {"wrong-stream"},
    "test-persisting-l2": {"tampers"},
    "test-value-cache-cuda": {"wrong-when-timed"},
    "test-stale-graph": {"wrong-when-timed"},
    "test-tires-cuda": {"wrong-when-timed"},
    "test-other-launches": {"wrong-when-timed"},
    # Its numbers are right if they come in time; its times are then less than a copy's.
    "test-late-stream": {"wrong-when-timed", "implausible"},
}


def rows_of(done: Done, label: str) -> list[dict[str, Any]]:
    """A kernel's rows, of every timer."""
    return [row for row in done.document["measurements"] if row["label"] == label]


def verdict(done: Done, label: str) -> tuple[str, str]:
    """A kernel's status and reason: of the first timer that refuses it, if one does."""
    rows = rows_of(done, label)
    row = next((row for row in rows if row["status"] != "ok"), rows[0])
    return row["status"], row["reason"]


def write_table(done: Done, right: Mapping[str, set[str]], folder: Path) -> Path:
    """Writes the status and the reason of each kernel beside the statuses that are right, as CSV.

    Args:
        done: the run.
        right: the statuses that are right, by label.
        folder: where it goes, unless the variable says where.
    """
    path = Path(os.environ.get(TABLE_VARIABLE) or folder / "cheats.csv")
    device = (done.info["machine"].get("gpu") or {}).get("name", "cpu")
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for label, statuses in right.items():
            status, reason = verdict(done, label)
            table.writerow((device, label, " or ".join(sorted(statuses)), status, reason))
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of such a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
