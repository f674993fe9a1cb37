"""`gdnbench ncu --for-model` on recorded profiles: what it says, against their files; and how it keeps to a budget."""

import csv
import gzip
import re
from functools import partial

import pytest
from committed import PROFILES
from launches_data import TOYS
from ncu_data import DATA, UNFUSED, V1, V4, unpack_report, with_value

from gdnbench.errors import ExitCode
from gdnbench.profile.ncu.store import read_profiles, write_profiles
from gdnbench.report.budget import Line, estimate_tokens, fit

COMMITTED = sorted(PROFILES.glob("ncu/*/*.csv"))
RECORDED = sorted(DATA.glob("*.csv.gz"))
[PREFILL], [ONE_V1], [ONE_V4] = (
    PROFILES.glob(f"ncu/{name}/*.csv") for name in ("prefill-v4", "decode-v1", "decode-v4")
)


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench ncu --import ARGUMENTS --for-model` without a GPU; gives exit code, stdout and stderr."""
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(TOYS))
    return partial(command_line, "ncu", "--for-model", "--import")


def metrics(path):
    """Every number of a stored profile of one launch, by ncu's name, as the file has it."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    found = {}
    for row in csv.DictReader(text.splitlines()):
        try:
            found[row["metric"]] = float(row["value"])
        except ValueError:
            continue
    return found


def line(out, name):
    """The items of a line, without its unit."""
    [found] = [each for each in out.splitlines() if re.match(rf"{re.escape(name)}[,:]", each)]
    return found.split(": ", 1)[1].split("; ")


def numbers(items):
    """The last number of each item, but for what says how many are left out."""
    return [float(item.split()[-1].replace(",", "")) for item in items if not item.startswith("and ")]


@pytest.mark.parametrize("path", [*COMMITTED, *RECORDED], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_largest_comes_first_in_every_line_that_is_ranked(run, path):
    _, out, _ = run(path)
    for text in out.split("\n\n"):
        for name in ("cycles", "units", "pipes", "accesses and branches"):
            if re.search(rf"^{name}[,:]", text, re.MULTILINE):
                found = numbers(line(text, name))
                assert found == sorted(found, reverse=True), name
        assert "nan" not in text
        assert len(text.splitlines()) <= 18  # 43 quantities and 16 stalls in a screen


@pytest.mark.parametrize("path", [PREFILL, V1, UNFUSED], ids=lambda path: path.name)
def test_it_keeps_to_every_budget_that_holds_what_must_be_told(run, path):
    _, whole, _ = run(path)
    for budget in range(50, 1500, 50):
        code, out, _ = run(path, "--budget", budget)
        assert code == ExitCode.OK
        for text, all_of_it in zip(out.strip().split("\n\n"), whole.strip().split("\n\n"), strict=True):
            told = int(re.search(r"about ([\d,]+) tokens", text)[1].replace(",", ""))
            assert estimate_tokens(text) <= told
            over = re.search(r"; ([\d,]+) over", text)
            assert bool(over) == (told > budget)
            if over:
                assert int(over[1].replace(",", "")) == told - budget
                assert len([each for each in text.splitlines() if not each.startswith("//")]) == 2
            for name in ("time", "bound by"):
                assert line(text, name) == line(all_of_it, name)


def test_what_was_cut_is_said(run):
    _, whole, _ = run(PREFILL)
    assert "// shown: the largest first\n" in whole
    _, out, _ = run(PREFILL, "--budget", 700)
    assert "// shown: the first 3 of each line, the largest first\n" in out
    assert line(out, "pipes")[-1] == "and 7 smaller"
    assert line(out, "warps")[-1] == "and 5 more"
    names = [each.partition(":")[0].partition(",")[0] for each in whole.splitlines() if not each.startswith("//")]
    _, out, _ = run(PREFILL, "--budget", 500)
    [said] = re.findall(r"left out: (.*)", out)
    kept = [each.partition(":")[0].partition(",")[0] for each in out.splitlines() if not each.startswith("//")]
    assert [*kept, *said.split(", ")] == names  # the least important went


def test_more_of_a_budget_tells_no_less(run):
    items = []
    for budget in range(250, 1300, 50):
        text = run(PREFILL, "--budget", budget)[1]
        items.append(sum(1 for each in text.splitlines() for item in each.split("; ") if not item.startswith("and ")))
    assert items == sorted(items)


def test_a_profile_and_itself_have_nothing_between_them(run):
    _, out, _ = run(V4, "--diff", V4)
    assert re.search(r"^// 0 of \d+ quantities changed", out, re.MULTILINE)
    told = [each for each in out.splitlines() if not each.startswith("//")]
    assert [each.partition(":")[0] for each in told] == ["time", "bound by"]
    assert "(+0.00%" not in out


def test_a_pair_keeps_to_its_budget_too(run):
    for budget in range(400, 1400, 100):
        _, out, _ = run(V1, "--diff", V4, "--budget", budget)
        told = int(re.search(r"about ([\d,]+) tokens", out)[1].replace(",", ""))
        assert told <= budget
        assert estimate_tokens(out) <= told


def test_of_several_launches_it_tells_medians(run, tmp_path):
    report = unpack_report(tmp_path)
    _, out, _ = run(report)
    assert "medians of 3 launches" in out
    _, out, _ = run(report, "--diff", report)
    assert "by more than the launches of each spread" in out


def test_code_that_has_changed_is_said(run):
    assert "// of other code: prefill-v4's sources have changed since" in run(PREFILL)[1]


def test_what_ncu_could_not_read_is_in_no_line_and_exits_as_the_table_does(run, tmp_path):
    profile = read_profiles(V1)[0]
    path = tmp_path / "nan.csv"
    names = ("dram__bytes_read.sum", "lts__throughput.avg.pct_of_peak_sustained_elapsed", "smsp__cycles_active.avg")
    for name in names:
        profile = with_value(profile, name, float("nan"))
    write_profiles(path, [profile])
    code, out, err = run(path)
    assert code == ExitCode.PROFILER
    assert "ncu could not read" in err
    assert "nan" not in out.lower()
    assert "DRAM read" not in out
    assert "\ncycles," not in out  # where they went is not known without one of the counters


def test_a_report_that_has_next_to_nothing(run, tmp_path):
    path = tmp_path / "few.csv"
    profile = read_profiles(V1)[0]
    kept = {name: metric for name, metric in profile.metrics.items() if name == "gpu__time_duration.sum"}
    write_profiles(path, [profile.__class__(**{**vars(profile), "metrics": kept})])
    code, out, _ = run(path)
    assert code == ExitCode.OK
    told = [each for each in out.splitlines() if not each.startswith("//")]
    assert told == ["time: 3.68 µs", "bound by: not known: the report has no unit's throughput"]
    code, out, _ = run(path, "--diff", V4)
    assert code == ExitCode.OK
    assert "bound by: not known -> latency (L2" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--csv",), "--for-model and --csv are two forms"),
        (("--budget", "0"), "budget"),
        (("--budget", "-5"), "budget"),
        (("--budget", "many"), "budget"),
    ],
)
def test_what_makes_no_sense_is_refused(run, words, said):
    code, out, err = run(V1, *words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err


def test_a_budget_is_of_this_form_alone(command_line):
    code, _, err = command_line("ncu", "--import", V1, "--budget", "500")
    assert code == ExitCode.USAGE
    assert "--budget is of --for-model" in err


def test_lines_without_items_are_none_and_required_ones_are_whole():
    lines = [
        Line("must", tuple("abcdefghijkl"), required=True),
        Line("empty", ()),
        Line("many", tuple(str(number) for number in range(30)), "units", below=2),
    ]
    whole = fit(["// head"], lines, 10_000)
    assert whole.text.splitlines()[3:] == [
        "must: a; b; c; d; e; f; g; h; i; j; k; l",
        "many, units: " + "; ".join(str(number) for number in range(30)) + "; and 2 smaller",
    ]
    assert (whole.most, whole.left_out, whole.excess) == (None, (), 0)
    tight = fit(["// head"], lines, whole.tokens - 10)
    assert tight.text.splitlines()[-1] == "many, units: 0; 1; 2; 3; 4; 5; 6; 7; and 24 smaller"
    none = fit(["// head"], lines, 1)
    assert none.left_out == ("many",)
    assert none.excess == none.tokens - 1
    assert none.text.splitlines()[-1] == whole.text.splitlines()[3]
