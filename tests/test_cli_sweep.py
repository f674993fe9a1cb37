"""`gdnbench sweep` as a user meets it: on the CPU, stopped and taken up, and asked for what cannot be."""

import csv
import signal
from functools import partial

import pytest
from faults import REPOSITORY, Gdnbench, finish, wait_for

from gdnbench.store.tables import read_sweep

TUNABLE = REPOSITORY / "tests" / "tunable"
# A margin so wide that a busy machine does not tell the baseline apart from itself, which is exit code 4.
SWEEP = ("sweep", "test-tunable", "--gpu", "cpu", "--baseline", "decode-reference", "--margin", "0.3", "--json", "-q")
BUDGET = ("--budget", "9s", "--samples", "10")  # 6 s of it are for the start of a worker


@pytest.fixture
def bench(tmp_path):
    return Gdnbench(tmp_path, (TUNABLE,), in_process=True)


def sweep(bench, *options):
    return bench(*SWEEP, "--out", str(bench.results), *options)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One sweep over all delays, and what it printed."""
    bench = Gdnbench(tmp_path_factory.mktemp("sweep"), (TUNABLE,), in_process=True)
    done = sweep(bench, *BUDGET, "-p", "DELAY", "-p", "WIDE=1")
    return bench, done


@pytest.mark.slow
def test_a_sweep_finds_the_best_point(swept):
    _, done = swept
    assert done.code == 0, done.err
    (plateau,) = done.document["sweep"]["plateaus"]
    assert plateau["kernel"] == "test-tunable"
    assert "test-tunable:DELAY=2:WIDE=1" in {*plateau["tied"], *plateau["unclear"]}
    points = {point["label"]: point for point in done.document["sweep"]["points"]}
    assert set(points) == {f"test-tunable:DELAY={delay}:WIDE=1" for delay in (2, 3, 4)}
    assert points["test-tunable:DELAY=2:WIDE=1"]["place"] != "slower"


@pytest.mark.slow
def test_show_prints_the_same_again(swept):
    bench, done = swept
    assert bench("show", "--out", str(bench.results), "--json").document == done.document
    table = bench("show", "--out", str(bench.results))
    assert table.code == 0
    assert "sweep on the CPU" in table.out
    assert "99 is more than there is" in table.out


# Two points that are the same, and no margin in which to say so: the race goes on for as long as the budget lasts.
STOPPED = ("-p", "DELAY=2", "-p", "WIDE=0,1", "--samples", "20", "--budget", "8s")
ENDLESS = tuple("0" if word == "0.3" else word for word in SWEEP)


def measured_whole(results, number):
    """Whether a round is in the journal of the hidden sweep, for every one of its four cases."""
    wanted = f'"kind":"Sampled","round":{number},'
    return lambda: any(path.read_text().count(wanted) == 4 for path in results.glob(".*.partial/journal.jsonl"))


def rounds_of(folder):
    with (folder / "rounds.csv").open() as file:
        return [(row["case"], int(row["round"])) for row in csv.DictReader(file)]


def times_of(folder):
    with (folder / "rounds.csv").open() as file:
        return {(row["case"], int(row["round"])): row["time_us"] for row in csv.DictReader(file)}


def assert_taken_up(bench, done, run_id):
    """The sweep is whole, in the one folder, under the name that it had, and no round is in it twice."""
    assert done.code == 0, done.err
    assert done.info["run_id"] == run_id
    assert done.info["complete"]
    assert bench.only_run().name == run_id
    rounds = rounds_of(bench.only_run())
    assert len(rounds) == len(set(rounds))
    assert {row["status"] for row in done.rows.values()} == {"ok"}


@pytest.mark.slow
def test_a_sweep_stopped_by_ctrl_c_keeps_what_it_has_and_resume_finishes_it(bench):
    process = bench.start(*ENDLESS, "--out", str(bench.results), *STOPPED)
    wait_for(measured_whole(bench.results, 2), "the second round")
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130
    assert not stopped.info["complete"]
    folder = bench.only_run()
    assert not folder.name.startswith(".")
    kept = times_of(folder)
    assert len(kept) >= 2 * 4
    assert len({number for _, number in kept}) * 4 == len(kept)  # a round that was torn is in none
    assert {point["place"] for point in stopped.document["sweep"]["points"]} <= {"best", "tied", "unclear", "slower"}
    shown = bench("show", "--out", str(bench.results))
    assert shown.code == 0
    assert "(partial)" in shown.out

    done = bench.resume(folder.name)
    assert_taken_up(bench, done, folder.name)
    assert read_sweep(bench.only_run()).points
    after = times_of(bench.only_run())
    assert {key: after[key] for key in kept} == kept


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    """Runs the command line in this process and an empty folder: exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    return partial(command_line, columns="500")


TRITON = ("sweep", "decode-triton", "--gpu", "cpu")
ALL = ("sweep", "--gpu", "cpu")
WRONG = {
    "unknown param": ((*TRITON, "-p", "BLOCK"), 2, "decode-triton has no param BLOCK", "BV, WARPS"),
    "bad value": ((*TRITON, "-p", "BV=5"), 2, "BV=5 is not a value of BV", "128"),
    "given twice": ((*TRITON, "-p", "BV=4", "-p", "BV=8"), 2, "--param BV is given twice", "--param BV="),
    "missing value": ((*TRITON, "-p", "BV="), 2, "a value is missing", "--param BV=4,8,16"),
    "missing name": ((*TRITON, "-p", "=4"), 2, "a value is missing", "--param BV=4,8,16"),
    "no params": (("sweep", "decode-fla", "--gpu", "cpu"), 2, "decode-fla has no params to sweep", "decode-v4 has"),
    "nothing has it": ((*ALL, "-p", "BLOCK"), 2, "no kernel has the params BLOCK", "decode-v4 has"),
    "misspelt kernel": (("sweep", "decode-trition"), 2, "there is no kernel decode-trition", "decode-triton"),
    "misspelt option": ((*ALL, "-k", "decode-trition"), 2, "there is no kernel decode-trition", "decode-triton"),
    "unknown op": ((*TRITON, "--op", "prefil"), 2, "there is no op prefil", "decode"),
    "bad shape": ((*TRITON, "--shape", "8"), 2, "8 sets no axis", "B=1,8,64"),
    "bad heads": ((*TRITON, "--shape", "heads=big"), 2, "there is no heads big", "qk4_v8"),
    "no budget": ((*TRITON, "--budget", "0"), 2, "--budget 0: a budget is a time", "1m30s"),
    "hours": ((*TRITON, "--budget", "1h"), 2, "--budget 1h: a budget is a time", "1m30s"),
    "small budget": (
        (*TRITON, "--budget", "2s"),
        2,
        "--budget 2s is too small",
        "or more, or fewer points or workloads",
    ),
    "no sample": ((*TRITON, "--samples", "0"), 2, "--samples 0: a round needs a sample", "default"),
    "no margin": ((*TRITON, "--margin", "1"), 2, "a margin lies between 0 and 1", "0.005"),
    "no step": ((*TRITON, "--step-limit", "0"), 2, "--step-limit 0: a step takes some time", "in seconds"),
    "unknown baseline": ((*TRITON, "--baseline", "decode-x"), 2, "there is no kernel decode-x", "decode"),
    "no GPU": (
        TRITON,
        5,
        "nothing requested can be measured here: decode-triton: needs a GPU",
        "gdnbench inspect decode-triton",
    ),
    "no GPU, and a baseline": ((*TRITON, "--baseline", "decode-reference"), 5, "needs a GPU", "gdnbench doctor"),
    "no GPU, and thousands": ((*ALL, "-p", "WARPS"), 5, "decode-v11: needs a GPU", "gdnbench doctor"),
    "absent model": (("sweep", "decode-triton", "--gpu", "b100"), 5, "No GPU here is 'b100'", "--gpu cpu"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_question_is_refused_with_a_hint_and_leaves_nothing_behind(command, tmp_path, what):
    arguments, wanted, message, hint = WRONG[what]
    code, out, err = command(*arguments)
    assert (code, out) == (wanted, "")
    said, _, advice = err.partition("hint:")
    assert message in said
    assert hint in advice
    assert list(tmp_path.iterdir()) == []
