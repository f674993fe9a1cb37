"""How long do `list`, `history` and `runs` take where there are many stored runs, and `ledger` with as many entries?

Makes a folder of copies of a committed run, a minute apart, and a ledger of the first committed entry over and over;
then times the verbs as processes: at first, when no index of the runs is there, and the quickest of three times after
that. Beside both stand the seconds of the processor, of this process and its children, which a busy machine does not
stretch as much; the last column is what the verb takes of a single run. Copies share all files but `run.json`, some 60
KB a run. The first `history` reads every run, which takes minutes.
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

from gdnbench.render.console import data_console, plain_table

ROOT = Path(__file__).parents[1]
RUN = ROOT / "results" / "evidence" / "20261123-014131-h200-decode-hopper"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SHARED = ("measurements.csv", "rounds.csv.gz", "builds.csv")


def main(words: Sequence[str] | None = None) -> None:
    """Prints the seconds of each verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    given = parser.parse_args(words)
    cases = len(json.loads((RUN / "run.json").read_text())["cases"])
    with tempfile.TemporaryDirectory() as folder:
        results, single = Path(folder) / "results", Path(folder) / "single"
        os.environ["GDNBENCH_CACHE"] = str(Path(folder) / "cache")
        make_runs(results, given.runs)
        make_runs(single, 1)
        ledger = make_ledger(Path(folder) / "ledger.jsonl", given.runs)
        timed(["list", "--out", str(single)])  # what is known of declarations is no part of the index
        table = plain_table()
        for title in ("verb", "first s", "CPU s", "again s", "CPU s", "of one run s"):
            table.add_column(title, justify="left" if title == "verb" else "right")
        for verb in (["list"], ["runs"], ["ledger", "--ledger", str(ledger)], ["history", "decode-auto"]):
            first, *again = (timed([*verb, "--out", str(results)]) for _ in range(4))
            alone = min(timed([*verb, "--out", str(single)]) for _ in range(2))
            table.add_row(" ".join(verb[:2]), *(f"{each:.2f}" for each in (*first, *min(again), alone[0])))
        data_console().print(f"{given.runs} runs of {cases} cases", table, sep="\n")


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
    first = json.loads((ROOT / "results" / "evidence" / "ledger.jsonl").read_text().splitlines()[0])
    lines = (json.dumps({**first, "id": number, "gates": [], "after": 0}) for number in range(1, count + 1))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def timed(words: Sequence[str]) -> tuple[float, float]:
    """Seconds of a verb, as a process, and those of the processor."""
    # With it, as in many images of containers, Python compiles all modules at every start, which users' do once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "gdnbench", *words]
    begin_s, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = os.times()
    used_s = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - begin_s, used_s


if __name__ == "__main__":
    main()
