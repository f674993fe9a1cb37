"""`gdnbench show --contest` on committed runs, with scores worked out here from their files; and on damaged runs."""

import csv
import io
import json
import math
from collections import defaultdict

import pytest
from bundled import CATALOG
from committed import RESULTS, copy_run
from faults import answer
from write_kernels import write_changed

from gdnbench.errors import ExitCode
from gdnbench.store.files import read_file

HOPPER = "20261123-014131-h200-decode-hopper"
PREFILL = "20261123-234637-h200-prefill-contest"
PROCESSES = "20261122-215641-h200-decode-processes"  # without FlashInfer
BATCHES = {1: 10, 4: 8, 8: 7, 16: 7, 32: 7, 48: 7, 64: 8}  # of the contest's decode step, and lines that have each
WEIGHTS = {f"B{batch}_HQ4_HV8_K128_V128": lines for batch, lines in BATCHES.items()}
TIMING = (
    "timer", "samples", "rounds", "time_us", "time_lo_us", "time_hi_us", "median_us", "min_us", "p10_us", "p90_us",
    "noise", "cpu_time_us", "sm_mhz", "bandwidth_gbs", "sol", "vs_baseline", "vs_lo", "vs_hi", "verdict",
    "more_rounds", "baseline", "tflops", "bound", "mean_us", "sol_lo", "sol_hi",
)  # fmt: skip


def round_times(folder, timer):
    """Microseconds by label, workload's key and round."""
    times = defaultdict(dict)
    for row in csv.DictReader(io.StringIO(read_file(folder / "rounds.csv").decode())):
        if row["timer"] == timer:
            label, _, key = row["case"].rpartition("/")
            times[label, key][row["round"]] = float(row["time_us"])
    return times


def speedup(times, label, over, key):
    """The geometric mean over rounds of the reference's time over the kernel's."""
    ours, theirs = times[label, key], times[over, key]
    logs = [math.log(theirs[each] / ours[each]) for each in ours.keys() & theirs.keys()]
    return math.exp(sum(logs) / len(logs))


def score(folder, label, over, weights, timer="nvbench"):
    times = round_times(folder, timer)
    found = {key: speedup(times, label, over, key) for key in weights}
    return sum(weights[key] * found[key] for key in weights) / sum(weights.values()), found


@pytest.fixture
def ask(command_line):
    def call(*words, results=RESULTS, columns="80"):
        code, out, err = command_line("show", "--contest", *words, "--out", results, columns=columns)
        assert "Traceback" not in err
        return code, out, err

    return call


@pytest.fixture
def asked(ask):
    """The one run of a document, and its kernels by label."""

    def call(*words, results=RESULTS):
        code, out, err = ask(*words, "--json", results=results)
        assert (code, err) == (ExitCode.OK, "")
        [run] = json.loads(out)["runs"]
        return run, {kernel["label"]: kernel for kernel in run["kernels"]}

    return call


def copy_of(name, tmp_path):
    """A copy of a committed run that may be changed."""
    folder = tmp_path / "results" / name
    return copy_run(name, folder)


def change_info(folder, **changes):
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_rows(folder, change):
    """Every row of measurements.csv through a function, which may change it, or say True to drop it."""
    path = folder / "measurements.csv"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    columns, rows = rows[0].keys(), [row for row in rows if change(row) is not True]
    with path.open("w") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def kept(count=7, worst=0.2, failed=(), label="decode-auto"):
    at = failed[0] if failed else f"{label}/B1_HQ4_HV8_K128_V128"
    return {label: {"tolerance": 0.01, "count": count, "worst": worst, "case": at, "failed": list(failed)}}


@pytest.mark.parametrize("over", ["decode-flashinfer", "decode-fla"])
@pytest.mark.parametrize(("timer", "column"), [("nvbench", "score"), ("cupti", "cupti_score")])
def test_the_score_is_the_mean_of_the_speedups_over_the_contests_54_lines(asked, over, timer, column):
    run, kernels = asked(HOPPER, "--over", over)
    wanted, each = score(RESULTS / HOPPER, "decode-auto", over, WEIGHTS, timer)
    assert kernels["decode-auto"][column] == pytest.approx(wanted, rel=1e-4)
    assert kernels[over][column] == 1.0
    assert (run["lines"], run["scored_lines"]) == (54, 54)
    if timer == "nvbench":
        assert kernels["decode-auto"]["best"] == pytest.approx(max(each.values()), rel=1e-4)
        assert kernels["decode-auto"]["worst"] == pytest.approx(min(each.values()), rel=1e-4)
        assert kernels["decode-auto"]["worst_at"] == "B=64 qk4_v8"
        assert kernels["decode-auto"]["speedups"] == pytest.approx(each, rel=1e-4)


def test_a_workload_counts_as_often_as_the_contest_lists_it(asked):
    """Of the prefill's 91 different workloads, some are listed twice: 100 lines."""
    run, kernels = asked(PREFILL)
    stored = json.loads((RESULTS / PREFILL / "run.json").read_text())["suite"]["workloads"]
    assert (run["lines"], run["scored_lines"], len(run["workloads"])) == (100, 100, 91)
    by_lengths = {tuple(each["shape"]["lengths"]): each["weight"] for each in stored}
    with (RESULTS / PREFILL / "measurements.csv").open() as file:
        keys = {lengths_of(row["lengths"]): row["workload"] for row in csv.DictReader(file)}
    weights = {keys[lengths]: weight for lengths, weight in by_lengths.items()}
    wanted, _ = score(RESULTS / PREFILL, "prefill-auto", "prefill-flashinfer", weights)
    plain, _ = score(RESULTS / PREFILL, "prefill-auto", "prefill-flashinfer", dict.fromkeys(weights, 1))
    assert kernels["prefill-auto"]["score"] == pytest.approx(wanted, rel=1e-4)
    assert abs(wanted - plain) > 1e-3 * wanted


def lengths_of(text):
    """`6+2x92` as the lengths that it stands for."""
    terms = (term.rpartition("x") for term in text.split("+"))
    return tuple(int(length) for times, _, length in terms for _ in range(int(times or 1)))


def test_the_baseline_is_flashinfers_where_the_run_has_it_and_else_the_runs_own(ask, asked, tmp_path):
    run, _ = asked(HOPPER)
    assert (run["over"], run["over_is_the_contests"]) == (["decode-flashinfer"], True)
    assert "speedups over decode-flashinfer, as in the contest" in ask(HOPPER)[1]
    run, _ = asked(PROCESSES)
    assert (run["over"], run["over_is_the_contests"]) == (["decode-fla"], False)
    said = " ".join(ask(PROCESSES)[1].split())
    assert "speedups over decode-fla, the run's baseline; the contest's are over decode-flashinfer" in said
    folder = copy_of(HOPPER, tmp_path)
    change_rows(folder, lambda row: fail(row, "decode-flashinfer", "8", "crashed", "died"))
    run, _ = asked(HOPPER, results=folder.parent)  # FlashInfer's lacks a workload that FLA has
    assert run["over"] == ["decode-fla"]


def fail(row, label, batch, status, reason):
    """Takes a case's time by its own timer, and its row by any other."""
    if (row["label"], row["B"]) != (label, batch):
        return False
    if row["timer"] != "nvbench":
        return True
    return row.update(dict.fromkeys(TIMING, ""), status=status, reason=reason)


def test_a_kernel_that_passes_there_and_fails_our_gates_is_told_apart(ask, asked, tmp_path):
    folder = copy_of(HOPPER, tmp_path)
    change_rows(folder, lambda row: fail(row, "decode-auto", "8", "wrong-numbers", "new_state: error 19, at most 8"))
    change_info(folder, contest=kept(9))
    run, kernels = asked(HOPPER, results=folder.parent)
    auto = kernels["decode-auto"]
    assert (auto["tolerance"], auto["gates"], auto["passes_there_alone"]) == ("pass", "wrong-numbers", True)
    assert (auto["score"], auto["geomean"], auto["timed"]) == (None, None, 6)
    assert run["scored_lines"] == 54  # the others have times there
    said = " ".join(ask(HOPPER, results=folder.parent)[1].split())
    assert "decode-auto passes the contest's tolerance and fails our gates" in said
    assert "new_state: error 19, at most 8" in said
    assert "not at every workload: decode-auto (at 6)" in said


@pytest.mark.parametrize("worst", [3.5, "inf"])
def test_one_workload_outside_the_tolerance_makes_the_score_zero(ask, asked, tmp_path, worst):
    folder = copy_of(HOPPER, tmp_path)
    change_info(folder, contest=kept(9, worst, ["decode-auto/B16_HQ4_HV8_K128_V128"]))
    _, kernels = asked(HOPPER, results=folder.parent)
    auto = kernels["decode-auto"]
    assert (auto["tolerance"], auto["score"], auto["fails_at"]) == ("fail", 0.0, "B=16 qk4_v8")
    code, out, _ = ask(HOPPER, results=folder.parent)
    assert code == ExitCode.OK
    [row] = [line.split() for line in out.splitlines() if line.startswith("decode-auto ")]
    assert row[1:4] == ["FAIL", "pass", "0"]
    assert "decode-auto is outside the contest's tolerance at B=16 qk4_v8" in out


@pytest.mark.parametrize(
    "contest",
    [
        kept(3),  # fewer cases than have a time: parts of an older gdnbench are in it
        {"decode-auto": kept()["decode-auto"] | {"tolerance": 0.1}},  # another tolerance
        kept(9, label="decode-v9"),  # another kernel's
    ],
)
def test_what_does_not_cover_the_run_is_no_pass(asked, tmp_path, contest):
    folder = copy_of(HOPPER, tmp_path)
    change_info(folder, contest=contest)
    assert asked(HOPPER, results=folder.parent)[1]["decode-auto"]["tolerance"] == "unknown"


def gate(got, expected, scenario="typical"):
    wrong = {"count": 1, "of": 9, "got": got, "expected": expected, "spread": "every V"}
    return {
        "gate": "output fp32 roundoff", "scenario": scenario, "worst": 99.0, "limit": 8.0, "where": "[0]",
        "status": "wrong-numbers", "wrong": wrong,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "tolerance"),
    [
        (gate(2.0, 1.0), "fail"),
        (gate("nan", 1.0), "fail"),
        (gate(0.02, 0.0), "fail"),
        (gate(0.009, 0.0), "unknown"),  # others may be worse
        (gate(1.012, 1.0), "unknown"),  # the contest rounds what is expected to the output's type
        (gate(2.0, 1.0, "large-state"), "unknown"),  # inputs that the contest has none of
        (gate(None, 1.0), "unknown"),
        ({**gate(2.0, 1.0), "gate": "state unchanged", "status": "changed-input"}, "unknown"),
    ],
)
def test_an_element_that_our_gates_refused_may_decide_it(asked, tmp_path, found, tolerance):
    folder = copy_of(HOPPER, tmp_path)
    change_rows(folder, lambda row: fail(row, "decode-auto", "8", "wrong-numbers", "so"))
    change_info(folder, gates={"decode-auto/B8_HQ4_HV8_K128_V128": [found]})
    auto = asked(HOPPER, results=folder.parent)[1]["decode-auto"]
    assert auto["tolerance"] == tolerance
    assert auto["score"] == (0.0 if tolerance == "fail" else None)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run on the CPU of a state in bf16, which only our gates refuse, and of one that is zero, which none passes."""
    home = tmp_path_factory.mktemp("contest")
    kept, reference = "v.dtype), new_state", CATALOG.entries["decode-reference"]
    for name, change in (("test-rounded", ".bfloat16().float()"), ("test-zero", ".zero_()")):
        write_changed(reference, name, home / "kernels", (kept, kept + change))
    words = ["run", "decode-reference,test-rounded,test-zero", "--gpu", "cpu", "--shape", "B=1", "--out", "results"]
    environment = {"GDNBENCH_KERNELS": str(home / "kernels"), "COLUMNS": "80"}
    run = answer(*words, "--rounds", "2", "--samples", "5", "-q", folder=home, **environment)
    assert run.code == ExitCode.WRONG_NUMBERS, run.err
    return home


def test_a_new_run_keeps_what_the_tolerance_says(measured):
    done = answer("show", "--contest", "--out", "results", "--json", folder=measured)
    kernels = {kernel["label"]: kernel for kernel in json.loads(done.out)["runs"][0]["kernels"]}
    found = {label: (kernel["tolerance"], kernel["gates"], kernel["score"]) for label, kernel in kernels.items()}
    assert found == {
        "decode-reference": ("pass", "ok", 1.0),
        "test-rounded": ("pass", "wrong-numbers", None),
        "test-zero": ("fail", "wrong-numbers", 0.0),
    }
    # bf16 keeps 8 bits, so at most 2^-8 of a number is lost: 0.39 of the tolerance, and less of numbers below 1
    assert 0.02 < kernels["test-rounded"]["contest_error"] < 2**-8 / 0.01
    assert kernels["test-zero"]["contest_error"] > 10
    # its inputs are drawn anew in each run, and now and then a sum lies where bf16 rounds it to the oracle's neighbour
    assert kernels["decode-reference"]["contest_error"] < 2**-8 / 0.01
