"""The command line as a user meets it; what it must not import is checked in processes of their own."""

import json
import os
import subprocess
import sys

import pytest
from committed import EVIDENCE, RESULTS
from diagnose_data import recording
from faults import REPOSITORY, python_path
from write_kernels import write_kernel

from gdnbench.errors import ExitCode, MachineError
from gdnbench.verb_table import VERBS
from gdnbench.verbs.base import GpuVerb, Listed


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(command_line, verb):
    code, out, err = command_line(*verb.split(), "--help")
    assert (code, err) == (0, "")
    assert verb in out
    assert "--help" in out


def test_the_help_names_every_verb_and_every_exit_code(command_line):
    _, out, _ = command_line("--help")
    assert all(row.name in out and row.panel in out for row in VERBS.values() if row.panel and " " not in row.name)
    assert all(f"{code.value}: {code.meaning}" in out for code in ExitCode)


@pytest.mark.parametrize("row", VERBS.values(), ids=lambda row: row.name)
def test_the_table_says_of_a_verb_what_its_function_does(row):
    command = Listed(row).with_options()
    assert " ".join(command.help.split("\n\n")[0].split()) == row.help
    assert isinstance(command, GpuVerb) is row.gpu


@pytest.mark.parametrize("options", [(), ("--plain",), ("--quick",), ("--quick", "--plain", "--rounds", "9")], ids=str)
def test_run_measures_as_the_options_say(command_line, tmp_path, monkeypatch, options):
    asked = []

    def stop(_catalog, plan, *_rest):
        asked.append(plan.request.settings)
        raise MachineError("enough", "stop here")

    monkeypatch.setattr("gdnbench.measure.start.begin_session", stop)
    code, _, _ = command_line("run", "--gpu", "cpu", "--kernel", "decode-reference", "--out", str(tmp_path), *options)
    assert code == ExitCode.ENVIRONMENT
    (settings,) = asked
    assert settings.plain is ("--plain" in options)
    assert settings.samples == (32 if "--quick" in options else 64)
    assert settings.rounds == (9 if "--rounds" in options else 7 if "--quick" in options else 42)


def test_a_broken_kernel_is_listed_and_stops_nothing(command_line, tmp_path, monkeypatch):
    write_kernel(tmp_path / "decode" / "mine", "raise ValueError('[bold] reasons')\n")
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    code, out, _ = command_line("list")
    assert code == 0
    assert "broken decode/mine: variant.py:1: ValueError: [bold] reasons" in " ".join(out.split())
    (broken,) = (each for each in json.loads(command_line("list", "--json")[1]) if each["status"] == "broken")
    assert broken["kernel"] == "decode/mine"


IN_TURN = """
import contextlib, io, json, sys
from gdnbench.verbs.app import main

commands, unwanted = map(json.loads, sys.argv[1:])
told = []
for words in commands:
    sys.argv = ["gdnbench", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main()
    told.append((code, sorted({*unwanted} & sys.modules.keys())))
import gdnbench.measure.run, gdnbench.verify.preflight, gdnbench.analyse.exit_code, gdnbench.verbs.progress
told.append((0, sorted({*unwanted} & sys.modules.keys() - {"numpy", "pandas"})))
print(json.dumps(told))
"""  # one process for several commands; at its end it has what plans and supervises a run
HEAVY = ("torch", "triton", "cuda.bench", "cuda.core", "ncu_report", "matplotlib", "pydantic")
RUN = "20261121-104427-h200-decode-plain-2"


@pytest.mark.parametrize(
    ("commands", "unwanted"),
    [
        (
            [
                ("--help",),
                ("run", "--help"),
                ("list", "--json"),
                ("list", "--op", "prefill", "--out", "results"),
                ("ledger", "--ledger", str(EVIDENCE / "ledger.jsonl")),
                ("new", "decode-v99", "--from", "decode-v4", "--to"),
            ],
            (*HEAVY, "numpy", "pandas", "rich.markdown", "pygments"),
        ),
        (
            [
                ("show", RUN),
                ("compare", RUN, "20261121-104526"),
                ("explain", "decode-v1", "--from", str(recording("decode-v1-B1"))),
                ("inspect", "decode-v4", "--arch", "sm_90"),
            ],
            HEAVY,
        ),
    ],
    ids=["without numbers", "with numbers"],
)
def test_verbs_that_measure_nothing_stay_light(tmp_path, commands, unwanted):
    commands = [(*words, str(tmp_path)) if words[-1] == "--to" else words for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, json.dumps(commands), json.dumps(unwanted)],
        env={**os.environ, "PYTHONPATH": python_path(REPOSITORY)},
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [[0, []]] * (len(commands) + 1)
