"""Sources made up for the tests of `compare`, and stored runs with a change planted in them."""

import csv
import io
import shutil

import numpy as np
from committed import RESULTS
from decode_workloads import decode_at

from gdnbench.analyse.comparison import compare_sources
from gdnbench.analyse.figure import Figure, FigureSource, KernelTime, SourceKind
from gdnbench.analyse.ratio import CompareSettings
from gdnbench.model.declaration import Params
from gdnbench.model.status import Role, Status
from gdnbench.store.files import read_file

MAIN = "20261121-181852-h200-decode-main"
DEFAULT = ("20261121-104356-h200-decode-default-1", "20261121-104456-h200-decode-default-2")
B1, B8 = decode_at(B=1), decode_at(B=8)
BYTES = {"decode-floor-empty": 0}
ROLES = {"decode-floor-copy": Role.FLOOR, "decode-floor-empty": Role.FLOOR, "decode-fla": Role.BASELINE}


def figure(label="decode-v4", time_us=5.0, workload=B1, *, rounds=21, sd=0.002, seed=0, **more):
    """A kernel's time with rounds about it, whose mean logarithm is just that of the time."""
    logs = np.random.default_rng(seed).normal(0.0, sd, rounds)
    values = {
        "op": "decode",
        "kernel": label.partition(":")[0],
        "timer": "nvbench",
        "role": ROLES.get(label, Role.KERNEL),
        "source_hash": "as-ever",
        "nbytes": BYTES.get(label, 1_054_816),
        "rounds_us": time_us * np.exp(logs - logs.mean()) if rounds else np.empty(0),
    }
    return Figure(**{**values, "label": label, "workload": workload, "time_us": time_us, **more})


def failed(label="decode-v4", status=Status.CRASHED, workload=B1):
    return figure(label, float("nan"), workload, rounds=0, status=status, reason="the process died")


def source(*figures, name="one", gpu="h200", **more):
    return FigureSource(**{"name": name, "kind": SourceKind.MEASURED, "gpu": gpu, "figures": figures, **more})


def run_of(times, name="one", *, launch=0.0, moved=1.0, workloads=(B1, B8), strays=None, kernel_times=False, **more):
    """A run with floors, baseline and kernels at some workloads; all have a longer launch, some moved on their own.

    Kernel times, where wanted, are 2.5 µs shorter and hold no launch.
    """
    times = {"decode-floor-copy": 4.0, "decode-floor-empty": 2.8, "decode-fla": 5.1, **times}
    seed = sum(map(ord, name))
    figures = [
        figure(
            label,
            time_us * moved * (strays or {}).get((label, workload.B), 1.0) + launch,
            workload,
            seed=seed + 97 * index,
            kernel_time=_kernel_time(
                (time_us - 2.5) * moved * (strays or {}).get((label, workload.B), 1.0), seed + index
            )
            if kernel_times
            else None,
        )
        for workload in workloads
        for index, (label, time_us) in enumerate(times.items())
    ]
    return source(*figures, name=name, **more)


def _kernel_time(time_us, seed):
    logs = np.random.default_rng(seed).normal(0.0, 0.002, 21)
    return KernelTime(time_us=time_us, rounds_us=time_us * np.exp(logs - logs.mean()))


def published(*figures, name="published/b200", gpu="b200"):
    return source(*figures, name=name, gpu=gpu, kind=SourceKind.PUBLISHED)


def compared(*sources, rows="", columns="", filtered="", margin=0.005):
    settings = CompareSettings(margin=margin)
    return compare_sources(sources, rows=rows, columns=columns, filtered=filtered, settings=settings)


def ratios_of(side, column=0):
    """Ratios by label and batch."""
    pairs = zip(side.grid.rows, side.columns[column].ratios, strict=True)
    return {(row.entries[0].figure.label, row.entries[0].figure.workload.B): ratio for row, ratio in pairs}


def plant(folder, kernel, factor, run=MAIN):
    """A copy of a stored run in which one kernel's times are multiplied."""
    folder.mkdir(parents=True)
    shutil.copy(RESULTS / run / "run.json", folder)
    _scale(RESULTS / run, folder, "measurements.csv", ("time_us", "time_lo_us", "time_hi_us"), "label", kernel, factor)
    _scale(RESULTS / run, folder, "rounds.csv", ("time_us",), "case", kernel, factor)
    return folder


def _scale(run, folder, name, columns, key, kernel, factor):
    rows = list(csv.DictReader(io.StringIO(read_file(run / name).decode(), newline="")))
    for row in rows:
        if row[key].partition("/")[0] == kernel:
            row.update({column: f"{float(row[column]) * factor:.6g}" for column in columns if row[column]})
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def with_params(label, **params):
    return {"label": label, "params": Params(params)}
