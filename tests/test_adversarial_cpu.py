"""Kernels that cheat, on the CPU, all in one run: each gets its status, none a time, and the honest are measured."""

import pytest
from cheats import HONEST, ON_CPU, read_table, rows_of, verdict, write_table
from faults import ADVERSARIAL, CPU, Gdnbench

pytestmark = pytest.mark.slow

ROUND_COUNT = 9
# Enough for 60 calls of a case and five rounds of checks after them, even where a busy machine has it make do with the
# fewest samples in a round: what is wrong in one launch of two would often be right in two.
ROUNDS = ("--rounds", f"{ROUND_COUNT}", "--samples", "40", "--step-limit", "10", "--margin", "0.9", "-q")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cheats")


@pytest.fixture(scope="module")
def done(folder):
    bench = Gdnbench(folder, (ADVERSARIAL / "both", ADVERSARIAL / "cpu"), forks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHEATS_CALLS", str(folder))
        run = bench.run(",".join([*ON_CPU, *HONEST]), *CPU, *ROUNDS, "--shape", "heads=qk1_v2")
    assert run.out, run.err
    return run


@pytest.mark.parametrize("label", ON_CPU)
def test_a_cheat_gets_its_status_and_no_time(done, label):
    status, reason = verdict(done, label)
    assert status in ON_CPU[label], reason
    assert reason
    assert all(row.get("time_us") is None for row in rows_of(done, label))


@pytest.mark.parametrize("label", [*HONEST, "decode-reference", "decode-reference@again"])
def test_the_honest_are_measured_in_every_round(done, label):
    row = done.rows[label]
    assert (row["status"], row["reason"], row["rounds"]) == ("ok", "", ROUND_COUNT)


def test_the_table_has_a_row_for_each(done, folder):
    rows = read_table(write_table(done, ON_CPU, folder))
    assert [row["kernel"] for row in rows] == list(ON_CPU)
    assert {row["device"] for row in rows} == {"cpu"}


def test_those_in_cuda_compile_and_are_right_at_first(folder):
    """What they do later is for a GPU to show; a cheat that is no kernel at all would show nothing."""
    bench = Gdnbench(folder / "cuda", (ADVERSARIAL / "gpu",), in_process=True)
    names = "test-value-cache-cuda,test-tires-cuda"
    verified = bench("verify", names, "--gpu", "cpu", "--shape", "B=1", "-q", "--json")
    assert verified.code == 0, verified.out + verified.err
