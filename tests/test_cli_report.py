"""`gdnbench report` as a user meets it."""

from functools import partial

import pytest
from report_data import store_run, store_swept

from gdnbench.errors import ExitCode

RUN = "20260102-030405-h200-decode-main"


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    store_run(tmp_path / "results", samples=False)
    store_swept(tmp_path / "results")
    return partial(command_line, "report")


def test_the_latest_run_that_compared_kernels_by_default_and_what_to_do_next(run, tmp_path):
    code, out, err = run()
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("report.html  (")
    assert second == f"next: python3 -m webbrowser {(tmp_path / 'report.html').as_uri()}"
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert RUN in text
    assert "20260102-040506-h200-decode-sweep" not in text  # newer, and named where it is wanted


@pytest.mark.parametrize("wanted", [RUN, "20260102-03", "main", f"results/{RUN}"])
def test_runs_are_named_as_for_show(run, tmp_path, wanted):
    code, _, err = run(wanted, "-o", "out.html")
    assert (code, err) == (0, "")
    assert f'<h2 id="run-1">{RUN}' in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_run_that_is_named_twice_is_shown_once(run, tmp_path):
    assert run(RUN, "main", "sweep")[0] == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.index('id="run-1"') < text.index('id="run-2"')
    assert 'id="run-3"' not in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no-such-run"], "no-such-run"),
        (["published/nothing"], "nothing"),
        (["-o", "notes.md"], "ends in .html or .htm"),
        ([RUN, "--nonsense"], "nonsense"),
    ],
    ids=str,
)
def test_a_wrong_name_is_a_usage_error_and_writes_nothing(run, tmp_path, arguments, told):
    (tmp_path / "notes.md").write_text("mine")
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert told in " ".join(err.split())
    assert "hint:" in err or "nonsense" in told
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_without_the_libraries_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr("gdnbench.verbs.html.report.find_spec", lambda _name: None)
    code, _, err = run()
    assert code == ExitCode.ENVIRONMENT
    assert "a report needs jinja2, altair, vl_convert" in err
    assert "gdnbench[report]" in err
