"""Every option of every verb, given what it cannot use: one message and an exit code of `--help`, never a traceback."""

import os
from itertools import count

import pytest
from committed import RESULTS
from exchange_data import DECODE, GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdnbench.errors import ExitCode, UsageError
from gdnbench.verb_table import VERBS
from gdnbench.verbs.base import Listed

pytestmark = pytest.mark.slow

EXPECTED = {code.value for code in ExitCode} - {ExitCode.CRASHED, ExitCode.INTERRUPTED}
HOSTILE = (
    "", " ", "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 30, "x" * 5000, "\x1b]0;owned\x07\x9b31m", "ünï ✓",
    "\udcff", "../../etc/passwd", "/dev/null", "/", "/proc/self/mem", "B=", "B=9223372036854775807", "=", ",,", ":",
    "decode-v4:WARPS=8:WARPS=4", "decode-v4::", "*", "[", "%s{0}$(id)", "qk0_v0", "qk4_v99999999999999999999", "git:",
    "git:--help", "slower:nan%", "spills>nan", "published/..", "-", "run.json",
)  # fmt: skip
DEFINITION = str(GOLDEN / "set" / "definitions" / "decode" / f"{DECODE}.json")
SOLUTION = str(GOLDEN / "set" / "solutions" / "decode" / DECODE / "decode-reference.json")
BASE = {
    "show": ["main", "--chart", "roofline", "-o", "r.svg"],
    "report": ["main", "-o", "r.html"],
    "compare": ["main", "hopper"],
    "history": ["decode-v4"],
    "explain": ["decode-v4"],
    "inspect": ["decode-v4", "--arch", "sm_90"],
    "new": ["decode-mine", "--from", "decode-v4", "--to", "kernels"],
    "exchange export": ["decode-v4", "--to", "set"],
    "exchange import": [DEFINITION, SOLUTION, "--op", "decode", "--name", "decode-a", "--to", "kernels"],
    "ncu": ["decode-v4"],
    "proton": ["decode-triton"],
    "verify": ["decode-v4"],
    "run": ["-k", "decode-v4"],
    "sweep": ["decode-v4", "-p", "WARPS=4"],
    "ledger add": ["it is faster", "-k", "decode-v4", "--expect", "time <= 9us at B=1"],
    "ledger": [],
    "ledger restore": ["1"],
    "doctor": ["--calibrate", "--gpu", "cpu"],
    "step": ["decode-v9"],
    "score": ["decode-v4"],
    "list": [],
    "runs": [],
    "mcp": [],
    "targets": [],
}


def _commands(name, command):
    yield name, command
    for inner, nested in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {inner}", nested)


COMMANDS = dict(each for row in VERBS.values() for each in _commands(row.name, Listed(row).with_options()))


def _cases():
    """Each option and argument with some of the values in turn; with `GDNBENCH_EVERY`, with all."""
    number = count()
    for verb, words in BASE.items():
        for param in COMMANDS[verb].params:
            if getattr(param, "is_flag", False):
                continue
            step = 1 if "GDNBENCH_EVERY" in os.environ else 11
            for value in HOSTILE[next(number) % step :: step]:
                yield verb, words, param, value


def _words(words, param, value):
    if param.param_type_name == "argument":
        return [value, *(word for word in words[1:] if not words[0].startswith("-"))]
    name = max(param.opts, key=len)
    kept = list(words)
    for spelling in param.opts:
        if spelling in kept:
            del kept[kept.index(spelling) : kept.index(spelling) + 2]
    return [*kept, f"{name}={value}"] if name.startswith("--") else [*kept, name, value]


CASES = list(_cases())
FEW = ("-main", "-hopper", "-sweep-bv", "-clocks")  # of the runs: `history` reads all, which takes half a second


@pytest.fixture
def call(command_line, monkeypatch, tmp_path):
    """The command line in a folder with some of the committed runs, where nothing is measured."""

    def stop(*_args, **_more):
        raise UsageError("it would be measured", "by the next release")

    (tmp_path / "results").mkdir()
    for path in RESULTS.iterdir():
        if path.name.endswith(FEW) or not (path / "run.json").exists():
            (tmp_path / "results" / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "gdnbench.exchange.export.DataSet.write", stop
    )  # a folder may be anywhere, and who tests may be root
    monkeypatch.setattr("gdnbench.exchange.importing.write_folder", stop)
    monkeypatch.setattr("gdnbench.ledger.file._append", stop)
    # First in the modules that import it, which would keep this one for later tests if they were loaded afterwards.
    monkeypatch.setattr("gdnbench.verbs.compare_revisions.begin_session", stop)
    monkeypatch.setattr("gdnbench.score.run.begin_session", stop)
    monkeypatch.setattr("gdnbench.measure.start.begin_session", stop)
    monkeypatch.setattr("gdnbench.verify.preflight.verify_variants", stop)
    monkeypatch.setattr("gdnbench.mcp.server.ToolsServer.serve", stop)

    def check(*words):
        code, out, err = command_line(*words)
        assert code in EXPECTED, err
        assert "Traceback" not in err
        assert not {"\x1b", "\x9b", "\x07"} & {*out, *err}
        assert code == 0 or "error:" in err or "Error" in err
        return code, out, err

    return check


@pytest.mark.parametrize("part", range(8))
def test_what_an_option_cannot_use_is_refused_in_words(call, part):
    for verb, words, param, value in CASES[part::8]:
        told = [*verb.split(), *_words(words, param, value)]
        try:
            call(*told)
        except AssertionError as error:
            raise AssertionError(" ".join(map(repr, told))) from error


def test_every_verb_that_needs_no_long_work_is_tried():
    assert set(COMMANDS) - set(BASE) == {"exchange", "worker"}
    assert {verb for verb, _, _, _ in CASES} == set(BASE) - {"targets"}, "all of which have options with values"


SPELLED = st.text(st.sampled_from("decode-v149triton:=,*[]?!WARPSBV 0qk_x\t\n\\'\"µ"), max_size=30)


@pytest.mark.parametrize("option", ["--kernel", "--shape", "--baseline", "--timer", "--label"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(value=SPELLED)
def test_any_text_is_understood_or_refused_by_run(call, option, value):
    call("run", f"{option}={value}", *([] if option == "--kernel" else ["--kernel", "decode-v4"]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(values=st.lists(SPELLED, min_size=1, max_size=3))
def test_any_words_are_understood_or_refused_by_compare(call, values):
    call("compare", *[value for value in values if not value.startswith("-")], "main")
