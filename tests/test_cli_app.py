"""The command line as a user meets it; what it must not import is checked in processes of their own."""

import json
import os
import subprocess
import sys

import pytest
from faults import REPOSITORY, python_path
from run_data import case, measured, store

from gdnbench.errors import ExitCode, MachineError
from gdnbench.model.status import Role
from gdnbench.verb_table import VERBS
from gdnbench.verbs.app import MOVED
from gdnbench.verbs.base import GpuVerb, Listed

HEAVY = ("torch", "triton", "cuda.bench", "cuda.core")


@pytest.fixture
def run(command_line):
    """Runs `gdnbench ARGUMENTS` in this process; gives exit code, stdout and stderr."""
    return command_line


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "20260102-030405-h200-decode"
    folder.mkdir()
    store(folder, [measured(case("decode-fla", Role.BASELINE))])
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(run, verb):
    code, out, err = run(*verb.split(), "--help")
    assert (code, err) == (0, "")
    assert verb in out
    assert "--help" in out


def test_the_help_names_every_verb_and_every_exit_code(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(row.name in out and row.panel in out for row in VERBS.values() if row.panel and " " not in row.name)
    assert all(f"{code.value}: {code.meaning}" in out for code in ExitCode)


@pytest.mark.parametrize("row", VERBS.values(), ids=lambda row: row.name)
def test_the_table_says_of_a_verb_what_its_function_does(row):
    command = Listed(row).with_options()
    assert " ".join(command.help.split("\n\n")[0].split()) == row.help
    assert isinstance(command, GpuVerb) is row.gpu


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nonsense",),
        ("nonsense",),
        ("list", "--nonsense"),
        ("list", "more"),
        ("run", "--rounds", "many"),
        ("run", "--rounds", "1"),
        ("run", "--margin", "-1"),
        ("run", "--kernel", "decode-nonsense"),
        ("run", "--kernel", "decode-v4:WARPS=3"),
        ("run", "--shape", "M=64"),
        ("run", "--shape", "heads=qk3_v4"),
        ("run", "--op", "nonsense"),
        ("run", "--baseline", "decode-nonsense"),
        ("verify", "decode-nonsense"),
        ("show", "no-such-run"),
        ("show", "-o", "chart.png"),
        ("score", "decode-v4", "--turns", "1"),
        ("doctor", "--rounds", "9"),
        ("verify", "decode-v4", "--arch", "sm_90"),
        ("verify", "decode-v4", "--ready", "--sanitize"),
    ],
    ids=" ".join,
)
def test_a_wrong_option_name_or_value_is_a_usage_error_and_leaves_nothing(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == ExitCode.USAGE
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()
    assert list(tmp_path.rglob("*")) == []


def test_an_error_comes_with_a_hint(run):
    _, _, err = run("verify", "decode-v44")
    assert "error:" in err
    assert "did you mean decode-v4" in " ".join(err.split())


@pytest.mark.parametrize("word", MOVED)
def test_a_removed_or_renamed_verb_is_refused_with_what_to_type_now(run, word):
    code, out, err = run(*word.split(), "--some", "thing")
    assert (code, out) == (ExitCode.USAGE, "")
    assert f"gdnbench {word} was removed" in err or f"is now gdnbench {MOVED[word]}" in err


@pytest.mark.parametrize("verb", ["run", "verify"])
def test_a_gpu_that_is_not_here_is_the_environments_fault(run, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(verb, "--gpu", "rtx9999")
    assert code == ExitCode.ENVIRONMENT
    assert "rtx9999" in err


@pytest.mark.parametrize("options", [(), ("--plain",), ("--quick",), ("--quick", "--plain", "--rounds", "9")], ids=str)
def test_run_measures_as_the_options_say(run, tmp_path, monkeypatch, options):
    asked = []

    def stop(_catalog, plan, *_rest):
        asked.append(plan.request.settings)
        raise MachineError("enough", "stop here")

    monkeypatch.setattr("gdnbench.measure.start.begin_session", stop)
    code, _, _ = run("run", "--gpu", "cpu", "--kernel", "decode-reference", "--out", str(tmp_path), *options)
    assert code == ExitCode.ENVIRONMENT
    (settings,) = asked
    assert settings.plain is ("--plain" in options)
    assert settings.samples == (32 if "--quick" in options else 64)
    assert settings.rounds == (9 if "--rounds" in options else 7 if "--quick" in options else 42)


def test_a_broken_kernel_is_listed_and_stops_nothing(run, tmp_path, monkeypatch):
    folder = tmp_path / "decode" / "mine"
    folder.mkdir(parents=True)
    (folder / "variant.py").write_text("raise ValueError('[bold] reasons')\n")
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    code, out, _ = run("list")
    assert code == 0
    assert "broken decode/mine: variant.py:1: ValueError: [bold] reasons" in " ".join(out.split())
    (broken,) = (each for each in json.loads(run("list", "--json")[1]) if each["status"] == "broken")
    assert broken["kernel"] == "decode/mine"


def test_show_of_a_damaged_run_says_what_to_do(run, results):
    path = results / "20260102-030405-h200-decode" / "measurements.csv"
    path.write_text(path.read_text()[:-40])
    code, out, err = run("show", "--out", str(results))
    assert (code, out) == (ExitCode.USAGE, "")
    assert "measurements.csv" in "".join(err.split())
    assert "hint:" in err


SCRIPT = """
import sys
{statement}
heavy = [name for name in {heavy!r} if name in sys.modules]
print("HEAVY", heavy, file=sys.stderr)
"""
VERB = "from gdnbench.verbs.app import main\nsys.argv = {argv!r}\ntry:\n    main()\nexcept SystemExit:\n    pass"


def heavy_after(statement, heavy=HEAVY):
    script = SCRIPT.format(statement=statement, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": python_path(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()[-1]


def test_the_catalog_needs_neither_torch_nor_numpy():
    statement = "from gdnbench.catalog.catalog import load_catalog; assert load_catalog().entries"
    assert heavy_after(statement, (*HEAVY, "numpy", "pandas", "rich")) == "HEAVY []"


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("run", "--help"), ("list",), ("list", "--json"), ("list", "--op", "prefill")],
    ids=" ".join,
)
def test_verbs_that_measure_nothing_load_no_numbers_at_all(arguments):
    assert heavy_after(VERB.format(argv=["gdnbench", *arguments]), (*HEAVY, "numpy", "pandas")) == "HEAVY []"


def test_show_needs_no_torch(results):
    assert heavy_after(VERB.format(argv=["gdnbench", "show", "--out", str(results)])) == "HEAVY []"


def test_planning_and_supervising_a_run_needs_no_torch(tmp_path):
    """The parent of a run, up to where its first worker would start."""
    modules = ("measure.run", "verify.preflight", "analyse.exit_code", "verbs.progress")
    assert heavy_after("import " + ", ".join(f"gdnbench.{module}" for module in modules)) == "HEAVY []"


def test_list_shows_the_kernels_of_one_op(run):
    every = json.loads(run("list", "--json")[1])
    assert {each["op"] for each in every} > {"prefill"}
    wanted = [each for each in every if each["op"] == "prefill"]
    assert json.loads(run("list", "--op", "prefill", "--json")[1]) == wanted
    _, out, _ = run("list", "--op", "prefill")
    assert "prefill-triton" in out
    assert "decode-" not in out
    [floor] = json.loads(run("list", "--op", "prefill", "*-floor-*", "--json")[1])
    assert floor["kernel"] == "prefill-floor-empty"
