"""What other ways of timing read: the table and the CSV, of what stand-ins of the child processes leave."""

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from calibration_data import H200
from clocks_data import store_clocks

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` is no part of the installed package

from benchmarks.peers import readings  # noqa: E402

RECORD = [
    ("decode-v4", "wall-sync", 30.0),
    ("decode-v4", "wall-sync", 20.0),
    ("decode-triton", "wall-sync", 40.0),
    ("decode-v4", "wall-sync", 26.0),
    ("decode-v4", "events-all", 4.0),
]


@pytest.fixture
def read(monkeypatch, tmp_path, capsys):
    """Reads decode-v4 and decode-triton at B=1; gives the commands, the output and the rows of the CSV."""
    asked = []

    def run(words, **_more):
        words = [str(word) for word in words]
        asked.append(words)
        if readings.WORKER in words:
            request, record = map(Path, words[-2:])
            asked.append(json.loads(request.read_text()))
            record.write_text("".join(json.dumps(line) + "\n" for line in RECORD))
        elif "run" in words:
            store_clocks(
                Path(words[words.index("--out") + 1]), clocks=("cupti",), run_id="20260103-030405-h200-decode-readings"
            )
        return SimpleNamespace(stdout="label,duration_us\nx,3.5\nx,3.25\nx,4\n", stderr="")

    monkeypatch.setattr(readings, "list_gpus", lambda: (H200,))
    monkeypatch.setattr(readings.subprocess, "run", run)

    def call(*more):
        readings.main(["decode-v4", "decode-triton", "--shape", "B=1", "--csv", str(tmp_path / "found.csv"), *more])
        with (tmp_path / "found.csv").open() as file:
            return asked, capsys.readouterr().out, list(csv.DictReader(file))

    return call


def of(rows, kernel, method):
    (row,) = [row for row in rows if (row["kernel"], row["method"]) == (kernel, method)]
    return tuple(float(row[name]) for name in ("us", "least_us", "most_us"))


def test_a_method_reads_the_median_of_its_repeats_between_the_least_and_the_most_and_clocks_are_those_of_a_run(read):
    asked, out, rows = read("--ncu")
    assert of(rows, "decode-v4", "wall-sync") == (26.0, 20.0, 30.0)
    assert of(rows, "decode-triton", "wall-sync") == (40.0, 40.0, 40.0)
    assert of(rows, "decode-v4", "ncu") == (3.5, 3.25, 4.0)
    assert {row["gpu"] for row in rows} == {"NVIDIA H200"}
    (words,) = [each for each in asked if "run" in each]
    assert words[words.index("-k") + 1] == "decode-v4,decode-triton"
    assert words[words.index("--timer") + 1] == "nvbench,cupti,graph,events"
    (request,) = [each for each in asked if isinstance(each, dict)]
    assert (request["op"], request["shape"], request["repeats"]) == ("decode", "B=1", 3)
    us, low, high = of(rows, "decode-v4", "cupti")
    assert low <= us == 2.336 <= high
    assert of(rows, "decode-v4", "nvbench")[0] == 4.6
    lines = out.partition("decode-v4")[2].splitlines()  # from the longest to the shortest, beside the kernel's own time
    found = [line.split()[-1] for line in lines if line.endswith("x")][:5]
    assert found == [f"{us / 2.336:.2f}x" for us in (26.0, 4.6, 4.0, 3.5, 2.336)]
