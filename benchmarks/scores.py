"""What `gdnbench score` says of good, wrong, slow, crashing, hanging and cheating kernels, and how soon.

Then a hundred scores in a row, of a good kernel with wrong and crashing ones in between: is the last score as fast and
as right as the first? Writes `kinds.csv` and `in-a-row.csv` into a folder as it goes, and prints the first and a
summary of the second. On a machine without a GPU torch kernels are scored on the CPU. A benchmark, not a test: the
seconds depend on the machine, and on who else measures there, for a score waits for its turn.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.render.console import data_console, plain_table

ADVERSARIAL = Path(__file__).parents[1] / "tests" / "adversarial"
ON_GPU = {
    "good": ("decode-v9", "decode-fla"),
    "slow": ("decode-v1", "decode-v9"),
    "wrong": ("test-crude-exp", "decode-fla"),
    "crashing": ("test-illegal-address", "decode-fla"),
    "hanging": ("test-endless", "decode-fla"),
    "cheating": ("test-tires-cuda", "decode-fla"),
}
ON_CPU = {
    "good": ("decode-reference", "test-slow"),
    "slow": ("test-slow", "decode-reference"),
    "wrong": ("test-wrong", "decode-reference"),
    "crashing": ("test-dies", "decode-reference"),
    "hanging": ("test-hangs", "decode-reference"),
    "cheating": ("test-precomputes", "decode-reference"),
}
IN_A_ROW = {
    True: {"good": "decode-v9", "wrong": "test-crude-exp", "crashing": "test-illegal-address", "against": "decode-v8"},
    False: {"good": "decode-reference", "wrong": "test-wrong", "crashing": "test-dies", "against": "test-slow"},
}
ORDER = ("good", "wrong", "crashing", "wrong", "crashing")
"""Of kernels in a row, over and over."""


@dataclass(frozen=True)
class Scored:
    """One score.

    Attributes:
        kind: of the kernel; in a row with its place in front, from 1.
        kernel: its label.
        against: what it was compared with.
        verdict: the verdict, or how it failed.
        exit_code: of the process.
        wall_s: from the command to its end, in seconds.
        json_bytes: of the answer.
        ratio: of the rival's time over the kernel's; None without a verdict, like the rest.
        low: lower end of its interval.
        high: upper end.
        processes: that measured.
        failure: why there is no verdict.
    """

    kind: str
    kernel: str
    against: str
    verdict: str
    exit_code: int
    wall_s: float
    json_bytes: int
    ratio: float | None
    low: float | None
    high: float | None
    processes: int | None
    failure: str


def main(words: Sequence[str] | None = None) -> None:
    """Scores, writes and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("benchmarks/scores"), help="the folder to write into")
    parser.add_argument("--count", type=int, default=100, help="how many scores there are in a row")
    parser.add_argument("--gpu", default="auto", help="as `gdnbench score` takes it")
    parser.add_argument("--only-row", action="store_true", help="leave out the kinds of kernels")
    asked = parser.parse_args(words)
    asked.to.mkdir(parents=True, exist_ok=True)
    has_gpu = select_gpu(asked.gpu, list_gpus()) is not None
    gpu = asked.gpu if has_gpu else "cpu"
    if not asked.only_row:
        kinds = ON_GPU if has_gpu else ON_CPU
        _print_kinds(_write(asked.to / "kinds.csv", [(kind, *pair) for kind, pair in kinds.items()], gpu))
    names = IN_A_ROW[has_gpu]
    kinds_in_order = [ORDER[place % len(ORDER)] for place in range(asked.count)]
    row = [(f"{place} {kind}", names[kind], names["against"]) for place, kind in enumerate(kinds_in_order, 1)]
    _print_row(_write(asked.to / "in-a-row.csv", row, gpu))


def _print_kinds(found: Sequence[Scored]) -> None:
    table = plain_table()
    for title in ("kind", "kernel", "against", "verdict", "exit", "s", "bytes", "ratio"):
        table.add_column(title, justify="right" if title in {"exit", "s", "bytes", "ratio"} else "left")
    for each in found:
        ratio = "" if each.ratio is None else f"{each.ratio:.3f}x"
        numbers = (str(each.exit_code), f"{each.wall_s:.1f}", str(each.json_bytes), ratio)
        table.add_row(each.kind, each.kernel, each.against, each.verdict, *numbers)
    data_console().print(table)


def _write(path: Path, asked: Sequence[tuple[str, str, str]], gpu: str) -> list[Scored]:
    """Scores one after the other, a line each as soon as it is known."""
    found = []
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([each.name for each in fields(Scored)])
        for kind, kernel, against in asked:
            found.append(_score(kind, kernel, against, gpu))
            table.writerow(asdict(found[-1]).values())
            file.flush()
    return found


def _score(kind: str, kernel: str, against: str, gpu: str) -> Scored:
    roots = [ADVERSARIAL / name for name in ("both", "cpu" if gpu == "cpu" else "gpu")]
    environment = {
        **os.environ,
        "GDNBENCH_KERNELS": os.pathsep.join(map(str, roots)),
        "PYTHONPATH": os.pathsep.join([str(ADVERSARIAL), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "gdnbench", "score", kernel, "--against", against, "--gpu", gpu, "--json"]
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    wall_s = time.perf_counter() - begin
    if not done.stdout:
        sys.exit(f"{kernel}: {done.stderr.decode(errors='replace')}")
    document = json.loads(done.stdout)
    ratio = document.get("ratio", {})
    return Scored(
        kind=kind,
        kernel=kernel,
        against=against,
        verdict=document["verdict"],
        exit_code=done.returncode,
        wall_s=round(wall_s, 2),
        json_bytes=len(done.stdout),
        ratio=ratio.get("estimate"),
        low=ratio.get("low"),
        high=ratio.get("high"),
        processes=document.get("processes"),
        failure=document.get("failure", "").partition("\n")[0],
    )


def _print_row(row: Sequence[Scored]) -> None:
    """Of each kind the first and the last five beside all: seconds, verdicts and ratios."""
    table = plain_table()
    for title in ("scores", "median s", "slowest s", "verdicts", "median ratio", "lowest", "highest"):
        table.add_column(title, justify="left" if title in {"scores", "verdicts"} else "right")
    for kind in dict.fromkeys(ORDER):
        all_of_it = [each for each in row if each.kind.endswith(f" {kind}")]
        for name, scores in (("first", all_of_it[:5]), ("last", all_of_it[-5:]), ("all", all_of_it)):
            if not scores:
                continue
            ratios = [each.ratio for each in scores if each.ratio is not None]
            verdicts = sorted({each.verdict for each in scores})
            times = [each.wall_s for each in scores]
            told = [f"{of(ratios):.4f}" if ratios else "" for of in (statistics.median, min, max)]
            title = f"{kind}, {name} {len(scores)}"
            table.add_row(title, f"{statistics.median(times):.2f}", f"{max(times):.2f}", ", ".join(verdicts), *told)
    data_console().print(table)


if __name__ == "__main__":
    main()
