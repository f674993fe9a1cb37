"""A disk that fills while a run is measured: it is told, and what was measured is not lost."""

import resource
import subprocess
import sys

import pytest
from faults import CPU, Gdnbench

ROUNDS = 21
LONGEST_FILE = 14_000  # bytes: run.json has 9,000, and a journal grows with each round
OPTIONS = (*CPU, "--rounds", str(ROUNDS), "--samples", "50", "--margin", "0.9")

pytestmark = pytest.mark.slow


def run_with_files_of_at_most(bench, nbytes):
    """Runs the reference where no file may grow beyond a size, as on a disk that fills."""
    return subprocess.run(
        [sys.executable, "-m", "gdnbench", "run", "decode-reference", *OPTIONS, "-q", "--out", str(bench.results)],
        env={**bench.environment, "PYTHONDONTWRITEBYTECODE": "1"},  # a compiled module would be cut off, too
        capture_output=True,
        text=True,
        timeout=bench.limit_s,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes)),
    )


def test_a_full_disk_ends_a_run_in_words_and_resume_finishes_it(tmp_path):
    bench = Gdnbench(tmp_path, in_process=True)
    stopped = run_with_files_of_at_most(bench, LONGEST_FILE)
    assert stopped.returncode == 5, stopped.stderr
    assert stopped.stderr.startswith("error: ")
    assert "File too large" in stopped.stderr
    assert "hint:" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    [run] = bench("runs", "--out", str(bench.results), "--json").document
    assert run["state"] == "stopped"

    done = bench.resume(run["run_id"])
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {ROUNDS}


@pytest.mark.parametrize("room", [0, 1, 2000])
def test_a_disk_that_is_full_from_the_start_leaves_no_folder_that_no_verb_sees(tmp_path, room):
    bench = Gdnbench(tmp_path)
    stopped = run_with_files_of_at_most(bench, room)
    assert stopped.returncode
    assert "Traceback" not in stopped.stderr, stopped.stderr
    assert [*bench.results.glob("*"), *bench.results.glob(".*")] == []
