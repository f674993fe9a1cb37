"""Kernels that cheat, on a GPU, all in one run: each gets its status, none a time, and the honest are measured.

`CHEATS_CSV=FILE` keeps the table of what each got.
"""

import pytest
from cheats import HONEST, ON_GPU, read_table, rows_of, verdict, write_table
from faults import ADVERSARIAL, Gdnbench

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

# Launches of a case in a round are 33 warm-ups and the samples: the 200 honest ones of some are over in the fourth.
ROUNDS = ("--rounds", "6", "--samples", "24", "--processes", "1", "--step-limit", "10", "--margin", "0.9", "-q")
OPTIONS = ("--gpu", "auto", "--baseline", "decode-reference", *ROUNDS)
TIMED = (*HONEST, "decode-v4", "decode-triton", "decode-floor-empty")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cheats")


@pytest.fixture(scope="module")
def done(folder):
    bench = Gdnbench(folder, (ADVERSARIAL / "both", ADVERSARIAL / "gpu"), takes_turns=True)
    # The honest last: what the others leave behind in a worker must not reach them.
    run = bench.run(",".join([*ON_GPU, *TIMED]), *OPTIONS)
    assert run.out, run.err
    write_table(run, ON_GPU, folder)
    return run


@pytest.mark.parametrize("label", ON_GPU)
def test_a_cheat_gets_its_status_and_no_time(done, label):
    status, reason = verdict(done, label)
    assert status in ON_GPU[label], reason
    assert reason
    assert all(row.get("time_us") is None for row in rows_of(done, label))


@pytest.mark.parametrize("label", [*TIMED, "decode-floor-copy", "decode-reference", "decode-reference@again"])
def test_the_honest_are_measured_in_every_round_by_both_timers(done, label):
    rows = {row["timer"]: row for row in rows_of(done, label)}
    assert {timer: (row["status"], row["reason"]) for timer, row in rows.items()} == {
        "nvbench": ("ok", ""),
        "cupti": ("ok", ""),
    }
    assert (rows["nvbench"]["rounds"], rows["cupti"]["rounds"]) == (6, 3)


def test_the_table_has_a_row_for_each(done, folder):
    rows = read_table(write_table(done, ON_GPU, folder))
    assert [row["kernel"] for row in rows] == list(ON_GPU)
    assert all(row["reason"] for row in rows)
