"""Stored runs that were damaged in every way that a generator finds: each verb says so in one message, or goes on.

A run and a sweep are made up, every field of their JSON and every column of their CSV is replaced by what does not
belong there, and every file is cut, emptied or exchanged. What a verb does then must end in an exit code that stands in
`--help`, print no control characters, and no time that was not measured.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

import pytest
from report_data import store_run, store_swept

from gdnbench.errors import ExitCode

pytestmark = pytest.mark.slow

RUN, SWEEP = "20260102-030405-h200-decode-main", "20260102-040506-h200-decode-sweep"
OLDER = "20260101-030405-h200-decode-older"
EXPECTED = {code.value for code in ExitCode} - {ExitCode.CRASHED, ExitCode.INTERRUPTED}

ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b2J"
VALUES = {
    "null": None,
    "no text": "",
    "text": "text",
    "escapes": ESCAPE,
    "a path": "../../etc/passwd",
    "minus one": -1,
    "zero": 0,
    "huge": 10**40,
    "a fraction": 0.5,
    "1e308": 1e308,
    "true": True,
    "a list": [],
    "nested": [[{}]],
    "an object": {"x": ["y"]},
}
CELLS = {
    "empty": "",
    "text": "text",
    "escapes": ESCAPE,
    "nan": "nan",
    "inf": "inf",
    "negative": "-5",
    "zero": "0",
    "1e308": "1e308",
    "1e11": "100000000000",
    "a formula": "=cmd()",
    "a path": "../../x",
}
VERBS = {
    "show": ("show", "{run}"),
    "show --json": ("show", "{run}", "--json"),
    "show --csv": ("show", "{run}", "--csv"),
    "the latest": ("show",),
    "the latest of a GPU": ("show", "h200"),
    "compare": ("compare", OLDER, "{run}"),
    "compare a GPU": ("compare", "h200", OLDER, "--csv"),
    "history": ("history", "decode-k1"),
    "history --json": ("history", "decode-k1", "--json"),
    "show roofline": ("show", "{run}", "--chart", "roofline", "-o", "c.svg"),
    "report": ("report", "{run}", "-o", "r.html"),
    "report the latest": ("report", "-o", "r.html"),
    "runs": ("runs",),
    "runs --json": ("runs", "--json"),
    "list": ("list",),
    "resume": ("run", "--resume", "{run}"),
    "emit dispatch": ("show", "{run}", "--emit-dispatch"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run, a sweep and an older run."""
    results = tmp_path_factory.mktemp("made") / "results"
    results.mkdir()
    store_run(results, OLDER)
    store_run(results, RUN)
    store_swept(results, SWEEP)
    return results


@pytest.fixture
def results(made, tmp_path, monkeypatch):
    """A copy of it, in the folder at hand."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "results")
    return tmp_path / "results"


def leaves(value, path=()):
    """Every place in a document, the first of each list standing for all."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name], (*path, name))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))


def replaced(document, path, value):
    if not path:
        return value
    first, *rest = path
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[first] = replaced(document[first], rest, value)
    return copy


def _documents(tmp):
    """The JSON files and the CSV files' columns that there are, from a run made for the asking."""
    store_run(tmp, RUN)
    store_swept(tmp, SWEEP)
    for run, name in ((RUN, "run.json"), (SWEEP, "run.json"), (SWEEP, "sweep.json")):
        for path in leaves(json.loads((tmp / run / name).read_text())):
            yield run, name, path
    for run, name in ((RUN, "measurements.csv"), (RUN, "rounds.csv"), (SWEEP, "measurements.csv")):
        with (tmp / run / name).open(newline="") as file:
            for column in next(csv.reader(file)):
                yield run, name, column


def _damages():
    """Each place with some of the values, in turn, and each of those under the next verb; all with `GDNBENCH_EVERY`."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(_documents(Path(folder)))
    verbs = cycle(
        verb for verb in VERBS if verb != "report the latest"
    )  # half a second each; `show` has the latest, too
    for number, (run, name, place) in enumerate(found):
        values = list(VALUES if name.endswith(".json") else CELLS)
        step = 1 if "GDNBENCH_EVERY" in os.environ else 7
        for value in values[number % step :: step]:
            yield run, name, place, value, next(verbs)


TEXTS = {"label", "kernel", "preset", "baseline", "reason", "warnings", "case", "run_id", "gpu", "op", "timestamp"}


def harm(results, run, name, place, value):
    path = results / run / name
    if name.endswith(".json"):
        path.write_text(json.dumps(replaced(json.loads(path.read_text()), place, VALUES[value])))
        return
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in (rows[0], rows[len(rows) // 2]):
        row[place] = CELLS[value]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def check(command_line, verb, run, *, of_text=False):
    code, out, err = command_line(*(word.format(run=run) for word in VERBS[verb]))
    assert code in EXPECTED, err
    assert "Traceback" not in err
    for stream in (out, err):
        assert "\x1b" not in stream
        assert "\x9b" not in stream
    assert "-5.000" not in out
    assert of_text or not re.search(r"\bnan\b|\binf( ±|x| µs)", out, re.IGNORECASE)
    assert (code == 0) or "error:" in err
    return code


@pytest.mark.parametrize("part", range(16))
def test_a_wrong_value_is_told_or_harmless(results, made, command_line, part):
    for run, name, place, value, verb in islice(_damages(), part, None, 16):
        harm(results, run, name, place, value)
        try:
            check(command_line, verb, run, of_text=place in TEXTS)
        except AssertionError as error:
            raise AssertionError(f"{verb} with {value} for {place} of {run}/{name}") from error
        finally:
            shutil.copy(made / run / name, results / run / name)


def cut(share):
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def as_folder(path):
    path.unlink()
    path.mkdir()


def loop(path):
    path.unlink()
    path.symlink_to(path)


HARMS = {
    "empty": cut(0),
    "half": cut(0.5),
    "a byte short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "gone": lambda path: path.unlink(),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "a folder": as_folder,
    "a link to itself": loop,
    "deep": lambda path: path.write_text("[" * 100_000),
    "deep objects": lambda path: path.write_text('{"schema": 1, "machine": ' + '{"a":' * 100_000),
    "a huge number": lambda path: path.write_text('{"schema": ' + "9" * 10_000 + "}"),
    "rows of commas": lambda path: path.write_text("," * 5000 + "\n" + "," * 3 + "\n"),
    "a bare quote": lambda path: path.write_text('run_id,case\n"x\n'),
}
FILES = ("run.json", "measurements.csv", "rounds.csv", "builds.csv", "samples.parquet", "sweep.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", HARMS)
def test_a_file_that_is_not_what_it_should_be_is_told_or_not_needed(results, made, command_line, kind, name):
    verbs = list(VERBS)
    start = (FILES.index(name) + list(HARMS).index(kind)) % 7
    for run in (RUN, SWEEP):
        if not (made / run / name).exists():
            continue
        HARMS[kind](results / run / name)
        for verb in verbs[start::7]:
            check(command_line, verb, run)


@pytest.mark.parametrize("verb", VERBS)
def test_beside_damaged_runs_whole_ones_are_read(results, command_line, verb):
    """The newest of each kind is damaged; what was asked of the older one is answered."""
    for run in (RUN, SWEEP):
        cut(0.5)(results / run / "measurements.csv")
    if verb in {"resume", "show roofline", "emit dispatch"}:
        pytest.skip("asks for a run that is stopped, or for a sweep")
    words = [word.format(run=OLDER) for word in VERBS[verb]]
    if verb == "compare":
        words = ["compare", "--cols", "label", "--rows", "B", OLDER, "--filter", "kernel=decode-k1,decode-k2"]
    if verb == "compare a GPU":
        shutil.copytree(results / OLDER, results / "20251231-030405-h200-decode-oldest")
        words[1] = "oldest"
    code, out, err = command_line(*words)
    assert (code, bool(out)) == (0, True), err
    looks_at_many = not any(OLDER in word or word == "oldest" for word in words) and verb != "runs --json"
    assert ("is left out" in err or "damaged  " in out) == looks_at_many, err


WITHOUT_RIGHTS = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


LOOKING = (("show",), ("history", "decode-k1"), ("list",), ("runs",), ("explain", "decode-v4"))
EACH_IN_TURN = """
import contextlib, io, json, sys
from gdnbench.verbs.app import main

told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["gdnbench", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as messages:
        code = main()
    told.append((code, messages.getvalue()))
print(json.dumps(told))
"""  # one process for all: a start takes half a second


def _can_drop_rights():
    if os.geteuid() != 0:
        return True
    try:
        return subprocess.run([*WITHOUT_RIGHTS, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _can_drop_rights(), reason="root without setpriv may read everything")
@pytest.mark.parametrize("harmed", ["a run", "a file", "the folder of runs", "a kernel", "a profile"])
def test_what_this_user_may_not_read_stops_nothing_else(results, tmp_path, harmed):
    kernels = tmp_path / "kernels" / "decode" / "secret"
    kernels.mkdir(parents=True)
    profiles = tmp_path / "profiles" / "ncu" / "decode-v4"
    profiles.mkdir(parents=True)
    profile = profiles / "20260101-000000-h200-B1-qk4_v8.csv"
    profile.write_text("kernel\n")
    harmed_path = {
        "a run": results / RUN,
        "a file": results / RUN / "measurements.csv",
        "the folder of runs": results,
        "a kernel": kernels,
        "a profile": profile,
    }[harmed]
    harmed_path.chmod(0)
    try:
        environment = {**os.environ, "GDNBENCH_KERNELS": str(tmp_path / "kernels")}
        prefix = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
        command = [*prefix, sys.executable, "-c", EACH_IN_TURN, json.dumps(LOOKING)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=120)
    finally:
        harmed_path.chmod(0o755)
    told = json.loads(done.stdout)
    assert len(told) == len(LOOKING)
    for verb, (code, said) in zip(LOOKING, told, strict=True):
        assert "Traceback" not in said, verb
        assert "gdnbench itself failed" not in said, verb
        if harmed == "the folder of runs" and verb[0] in {"show", "history", "runs"}:
            assert (code, "Permission denied" in said) == (5, True), verb
        else:
            assert code == 0, (verb, said)
