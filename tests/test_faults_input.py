"""Wrong options and damaged runs: each ends in one message, a hint and its exit code, and never in a traceback."""

import json
from functools import partial

import pytest
from run_data import case, failed, measured, store

from gdnbench.model.status import Role

ROWS = [
    measured(case("decode-reference", Role.BASELINE), 210.0),
    failed(case("decode-mine"), reason="the process died in step `measure` (SIGKILL)"),
]


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(command_line, columns="500")


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "results" / "20260101-000000-cpu-decode"
    folder.mkdir(parents=True)
    store(folder, ROWS, run_id=folder.name, gpu="cpu", baseline="decode-reference")
    return folder


RUN = {"--gpu": "cpu", "--baseline": "decode-reference"}
WRONG_OPTIONS = {
    "misspelt kernel": (["--kernel", "decode-refrence"], 2, "there is no kernel decode-refrence", "decode-reference"),
    "kernel like none": (["--kernel", "xyzzy"], 2, "there is no kernel xyzzy", "gdnbench list"),
    "no kernel": (["--kernel", ","], 2, "no kernel was named", "--kernel all"),
    "unknown op": (["--op", "prefil"], 2, "there is no op prefil", "decode"),
    "absent model": (["--gpu", "b100"], 5, "No GPU here is 'b100'", "--gpu cpu"),
    "absent index": (["--gpu", "99"], 5, "No GPU here is '99'", "--gpu cpu"),
    "unknown baseline": (["--baseline", "decode-refrence"], 2, "there is no kernel decode-refrence", "did you mean"),
    "absent baseline": (["--baseline", "decode-v4"], 5, "decode-v4 cannot run here: it needs a GPU", "--baseline"),
    "one round": (["--rounds", "1"], 2, "--rounds 1: an interval needs at least 2 rounds", "the default is"),
    "no sample": (["--samples", "0"], 2, "--samples 0: a round needs a sample", "the default is"),
    "no margin": (["--margin", "nan"], 2, "a margin lies between 0 and 1", "0.005"),
    "no time": (["--step-limit", "0"], 2, "--step-limit 0: a step takes some time", "30"),
    "negative seed": (["--seed", "-5"], 2, "--seed -5: a seed lies between 0 and", "a fresh one"),
    "rounds twice": (["--rounds", "3", "--rounds", "5"], 2, "--rounds is given 2 times", "give --rounds once"),
    "unknown run": (["--resume", "20010101-x"], 2, "no runs in results", "gdnbench run"),
}


@pytest.mark.parametrize("what", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_with_a_hint_and_leaves_nothing_behind(command, tmp_path, what):
    options, wanted, message, hint = WRONG_OPTIONS[what]
    defaults = [word for option in RUN.items() if option[0] not in options for word in option]
    defaults = [] if "--resume" in options else defaults
    code, out, err = command("run", *defaults, *options)
    assert (code, out) == (wanted, "")
    said, _, advice = err.partition("hint:")
    assert message in said
    assert hint in advice
    assert list(tmp_path.iterdir()) == []


def test_results_that_cannot_be_written_are_the_environments_fault(command, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = command("run", "--gpu", "cpu", "--kernel", "decode-reference", "--out", "file")
    assert (code, out) == (5, "")
    assert "cannot write to file" in err
    assert "--out" in err


def test_an_unknown_run_is_answered_with_the_known_ones(command, stored):
    code, out, err = command("show", "20260101-000001-cpu")
    assert (code, out) == (2, "")
    assert "no run 20260101-000001-cpu" in err
    assert stored.name in err


def _cut(fraction):
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * fraction)])


def _last_line_gone(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def _replaced(old, new):
    return lambda path: path.write_text(path.read_text().replace(old, new))


def _other_schema(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))


def _without(field):
    return lambda path: path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != field})
    )


DAMAGES = {
    "no measurements": ("measurements.csv", lambda path: path.unlink(), "measurements.csv is missing"),
    "empty measurements": ("measurements.csv", _cut(0), "measurements.csv is cut off"),
    "half a row": ("measurements.csv", _cut(0.8), "measurements.csv"),
    "a row short": ("measurements.csv", _last_line_gone, "measurements.csv"),
    "no number": ("measurements.csv", _replaced("210", "fast"), "measurements.csv line 2"),
    "unknown status": ("measurements.csv", _replaced("crashed", "tired"), "measurements.csv line 3"),
    "a time that failed": ("measurements.csv", _replaced(",ok,", ",crashed,"), "measurements.csv line 2"),
    "no text": ("measurements.csv", lambda path: path.write_bytes(b"\xff\xfe\x00"), "measurements.csv"),
    "half a description": ("run.json", _cut(0.5), "run.json: Input data was truncated"),
    "a list": ("run.json", lambda path: path.write_text("[]"), "run.json: Expected `object`, got `array`"),
    "another version": ("run.json", _other_schema, "run.json is of schema version 99; this gdnbench reads 1"),
    "a missing field": ("run.json", _without("op"), "run.json: Object missing required field `op`"),
    "half the builds": ("builds.csv", lambda path: path.write_text("kernel,label\nx"), "builds.csv"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_told_from_a_whole_one(command, stored, damage):
    name, harm, message = DAMAGES[damage]
    harm(stored / name)
    code, out, err = command("show", stored.name)
    assert (code, out) == (2, "")
    assert message in err
    assert "hint:" in err
