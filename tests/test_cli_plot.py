"""`gdnbench show --chart` as a user meets it."""

import sys

import pytest
from committed import RESULTS as RECORDED
from decode_workloads import decode_at
from history_data import KERNEL, store_run

from gdnbench.report.charts import plot


@pytest.fixture
def run(command_line):
    """Runs `gdnbench show ARGUMENTS` in this process; gives exit code, stdout, and stderr in one line."""

    def call(*arguments):
        code, out, err = command_line("show", *arguments)
        return code, out, " ".join(err.split())

    return call


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    store_run(folder, 0, samples=True)
    store_run(folder, 1, samples=True, workload=decode_at(B=8), label="-later")
    return folder


def test_the_latest_run_is_drawn_into_a_file(run, results, tmp_path):
    code, out, err = run("--chart", "rounds", "-o", tmp_path / "chart.svg", "--out", results)
    assert (code, out) == (0, "")
    assert "chart.svg" in err
    text = (tmp_path / "chart.svg").read_text()
    assert "20260103-030405-h200-decode-later" in text
    assert KERNEL in text


@pytest.mark.parametrize("colour", ["NO_COLOR", "FORCE_COLOR"])
def test_colours_come_only_where_they_are_wanted(run, results, monkeypatch, colour):
    monkeypatch.setenv(colour, "1")
    assert ("\x1b[3" in run("--chart", "sol", "--out", results)[1]) == (colour == "FORCE_COLOR")
    assert ("\x1b" in run("--chart", "time", "--out", results)[1]) == (colour == "FORCE_COLOR")


def test_kernels_and_workloads_can_be_chosen(run, results):
    _, out, _ = run("--chart", "rounds", "-k", "decode-x", "--shape", "B=8", "--out", results)
    assert "B=8 qk4_v8" in out
    assert KERNEL in out
    assert "decode-fla" not in out


def test_of_a_run_that_was_stopped_what_was_timed_is_shown(run):
    code, out, _ = run("--chart", "time", "20261124-044724-h200-layer", "--shape", "B=1", "--out", RECORDED)
    assert code == 0
    assert "8.295" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--chart", "tmie"], "did you mean time"),
        (["h200", "--chart", "pie"], "the charts are time, sol"),
        (["nowhere", "--chart", "time"], "no run nowhere"),
        (["--chart", "time", "-k", "decode-xy"], "did you mean decode-x"),
        (["--chart", "time", "--shape", "B=5"], "there are B=8 qk4_v8"),
        (["--chart", "rounds", "--shape", "heads=qk16_v32"], "there are B=8 qk4_v8"),
        (["--chart", "time", "--shape", "5"], "sets no axis"),
        (["--chart", "sweep"], "has no swept times"),
        (["--chart", "sweep", "-k", "decode-x"], "leave out --kernel"),
        (["--chart", "time", "-o", "chart.gif"], "-o chart.gif: the name ends in .png"),
        (["--chart", "time", "-o", "nowhere/chart.png"], "there is no folder nowhere"),
        (["--chart", "time", "-o", "."], "is a folder"),
        (["--chart", "time", "-o", "/dev/full"], "-o /dev/full: the name ends in .png"),
        (["a", "b", "--chart", "time"], "name one run"),
        (["--chart", "time", "published/b200"], "gdnbench compare RUN published/b200"),
        (["published/b200", "--chart", "sol"], "published/b200 is a table of published figures, not a run"),
        (["-o", "chart.png"], "--output is of --chart"),
        (["--chart", "time", "--json"], "--chart does not go with --json"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(run, results, arguments, told):
    code, out, err = run(*arguments, "--out", results)
    assert code == 2
    assert out == ""
    assert told in " ".join(err.split())


def test_without_the_libraries_that_draw_the_terminal_still_works(run, results, monkeypatch, tmp_path):
    monkeypatch.setattr(plot, "find_spec", lambda _name: None)
    code, _, err = run("--chart", "time", "-o", tmp_path / "chart.png", "--out", results)
    assert code == 5
    assert "-o needs altair, vl_convert" in err
    assert run("--chart", "time", "--out", results)[0] == 0


def test_where_the_chart_cannot_be_drawn_it_is_an_error_with_a_hint(run, results, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotext", None)
    code, _, err = run("--chart", "time", "--out", results)
    assert code == 5
    assert "ModuleNotFoundError" in err
    assert "hint: pip install 'plotext" in err
    assert run("--chart", "sol", "--out", results)[0] == 0


def test_a_damaged_run_is_named(run, results):
    (results / "20260103-030405-h200-decode-later" / "rounds.csv").write_text("")
    code, _, err = run("--chart", "time", "--out", results)
    assert code == 2
    assert "rounds.csv" in err
