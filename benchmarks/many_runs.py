"""How long do `list`, `history` and `runs` take where there are many stored runs, and `ledger` with as many entries?

Makes a folder of copies of a committed run of 90 cases, a minute apart, and a ledger of the first committed entry over
and over; then times the verbs as processes, twice. Copies share all files but `run.json`, some 60 KB a run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gdnbench.report.console import data_console, plain_table

ROOT = Path(__file__).parents[1]
RUN = ROOT / "results" / "20261122-215641-h200-decode-processes"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SHARED = ("measurements.csv", "rounds.csv", "builds.csv")


def main(words: Sequence[str] | None = None) -> None:
    """Prints the seconds of each verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        make_runs(results, given.runs)
        ledger = make_ledger(Path(folder) / "ledger.jsonl", given.runs)
        table = plain_table()
        for title in ("verb", "seconds", "again"):
            table.add_column(title)
        for verb in (["list"], ["runs"], ["ledger", "--ledger", str(ledger)], ["history", "decode-v4"]):
            words = [*verb, "--out", str(results)]
            table.add_row(" ".join(verb[:2]), *(f"{timed(words):.2f}" for _ in range(2)))
        data_console().print(f"{given.runs} runs", table, sep="\n")


def make_runs(results: Path, count: int) -> None:
    """Copies of the run, of which only `run.json` is a file of its own."""
    document = json.loads((RUN / "run.json").read_text())
    results.mkdir(parents=True)
    first = results / ".shared"
    shutil.copytree(RUN, first)
    for number in range(count):
        began = BEGIN + timedelta(minutes=number)
        name = f"{began:%Y%m%d-%H%M%S}-h200-decode-many"
        (results / name).mkdir()
        for shared in SHARED:
            os.link(first / shared, results / name / shared)
        document |= {"run_id": name, "timestamp": began.isoformat()}
        (results / name / "run.json").write_text(json.dumps(document))


def make_ledger(path: Path, count: int) -> Path:
    """The first committed entry, under many numbers."""
    first = json.loads((ROOT / "ledger.jsonl").read_text().splitlines()[0])
    lines = (json.dumps({**first, "id": number, "gates": [], "after": 0}) for number in range(1, count + 1))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def timed(words: Sequence[str]) -> float:
    """Seconds of a verb, as a process."""
    begin_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "gdnbench", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - begin_s


if __name__ == "__main__":
    main()
