"""Wrong options: each ends in one message, a hint and its exit code, and never in a traceback."""

from functools import partial

import pytest


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(command_line, columns="500")


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
