"""An experiment is written down before it is measured, and a stored run says what became of it."""

import base64
import json
import os
import shutil
import subprocess
import sys
import zlib

import pytest
from faults import REPOSITORY, python_path
from ledger_data import RUN, SLOWER, keep_run

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codec import SchemaError
from gdnbench.errors import ExitCode
from gdnbench.ledger.entry import EntryState, Expectation
from gdnbench.ledger.file import read_ledger, unpack
from gdnbench.ledger.judge import judge
from gdnbench.stats.interval import Interval
from gdnbench.store.measurements import read_measurements

pytest_plugins = ["ledger_data"]


@pytest.mark.parametrize(
    ("sign", "low", "high", "outcome"),
    [
        (">=", 1.03, 1.05, EntryState.CONFIRMED),
        (">=", 1.02, 1.05, EntryState.CONFIRMED),
        (">=", 1.00, 1.01, EntryState.REFUTED),
        (">=", 1.01, 1.03, EntryState.UNDECIDED),
        ("<=", 1.03, 1.05, EntryState.REFUTED),
        ("<=", 1.00, 1.01, EntryState.CONFIRMED),
        ("<=", 1.01, 1.03, EntryState.UNDECIDED),
        (">=", 1.02, 1.02, EntryState.CONFIRMED),
        (">=", 0.0, float("inf"), EntryState.UNDECIDED),
        ("=", 1.02, 1.02, EntryState.CONFIRMED),
        ("=", 1.03, 1.03, EntryState.REFUTED),
        ("=", 1.00, 1.01, EntryState.REFUTED),
        ("=", 1.01, 1.03, EntryState.UNDECIDED),
    ],
)
def test_the_whole_interval_decides(sign, low, high, outcome):
    expected = Expectation(text="", baseline="x", sign=sign, bound=1.02, workload="", sizes={}, shape={})
    middle = (low + high) / 2 if high < 9 else 1.0
    assert judge(Interval(middle, low, high), expected) is outcome


def test_a_try_is_written_down_with_the_code_as_it_is(home, begin):
    entry = load_catalog().entries
    opened = begin("vs decode-v8>=1.020 at B=1 heads=qk4_v8", "time <= 4us at B=8", more=["--stop", "three slower"])
    assert opened["state"] == "open"
    assert [each["text"] for each in opened["expectations"]] == [SLOWER, "time <= 4us at B=8"]
    assert opened["hashes"] == {name: entry[name].known_source() for name in ("decode-v8", "decode-v10")}
    stored = read_ledger(home / "ledger.jsonl")[1].opened
    kept = unpack(stored.sources)
    assert kept["v10/kernel.cu"] == entry["decode-v10"].source.read_text()
    assert kept["gdn.cuh"]
    assert stored.stop == "three slower"


@pytest.mark.parametrize(
    ("kernel", "expected", "why"),
    [
        ("decode-nonsense", SLOWER, "there is no kernel decode-nonsense"),
        ("decode-v10", "vs decode-nonsense >= 1 at B=1", "there is no kernel decode-nonsense"),
        ("decode-v10", "vs decode-v10 >= 1 at B=1", "itself"),
        ("decode-v10", "time <= 4us at B=1,8", "2 workloads are given"),
        ("decode-v10", "time <= 4us at Q=1", "no axis Q"),
    ],
)
def test_what_cannot_be_tried_leaves_no_entry(home, begin, kernel, expected, why):
    assert why in begin(expected, kernel=kernel, code=ExitCode.USAGE)
    assert not (home / "ledger.jsonl").exists()


def test_a_run_refutes_by_the_interval_that_it_stored(home, begin, close):
    folder = keep_run(home)
    begin(SLOWER)
    found = close(more=["--learned", "the stores were not it"])
    row = next(
        each for each in read_measurements(folder) if each.case.label == "decode-v10" and each.case.workload.B == 1
    )
    finding = found["closings"][0]["findings"][0]
    assert found["state"] == finding["outcome"] == "refuted"
    assert (finding["value"], finding["low"], finding["high"]) == (row.versus.speedup, row.versus.low, row.versus.high)
    assert found["closings"][0]["learned"] == "the stores were not it"
    assert found["closings"][0]["run"] == RUN


def test_what_the_interval_leaves_open_may_be_closed_again(home, begin, close):
    keep_run(home)
    keep_run(home, name=f"{RUN}-2")
    begin("vs decode-v8 >= 1.0 at B=1", kernel="decode-v9")
    assert close()["state"] == "undecided"
    found = close(run=f"{RUN}-2")
    assert [each["run"] for each in found["closings"]] == [RUN, f"{RUN}-2"]


def test_what_is_decided_is_not_closed_again(home, begin, close):
    keep_run(home)
    begin(SLOWER)
    close()
    assert "refuted already" in close(code=ExitCode.USAGE)
    assert len((home / "ledger.jsonl").read_text().splitlines()) == 2


def test_another_baseline_than_the_run_s_is_paired_by_its_rounds(home, begin, close):
    folder = keep_run(home)
    begin("vs decode-v9 <= 1.5 at B=1")
    closed = close()["closings"][0]
    finding = closed["findings"][0]
    times = {row.case.label: row.timing.time_us for row in read_measurements(folder) if row.case.workload.B == 1}
    assert finding["value"] == pytest.approx(times["decode-v9"] / times["decode-v10"], rel=1e-3)
    assert 0 < finding["value"] - finding["low"] < 0.1
    assert any("decode-v9" in note for note in closed["notes"])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"timestamp": "2020-01-01T00:00:00+00:00"}, "began before entry 1 was opened"),
        ({"decode_v10": "0123456789abcdef"}, "other sources"),
    ],
)
def test_a_run_of_before_the_entry_or_of_other_code_is_refused(home, begin, close, changed, why):
    keep_run(home, **changed)
    begin(SLOWER)
    assert why in close(code=ExitCode.USAGE)


def test_the_run_that_is_proposed_has_the_workload_of_every_expectation(home, command_line):
    expected = ("vs decode-v8 >= 1.02 at B=1", "vs decode-v9 >= 1.02 at B=8 heads=qk16_v32", "time <= 9us at B=8")
    words = [word for text in expected for word in ("--expect", text)]
    code, out, _ = command_line("ledger", "add", "it is so", "-k", "decode-v10", *words)
    assert code == 0
    shapes = "--shape B=1,8 --shape heads=qk4_v8,qk16_v32"
    kernels = "decode-v10,decode-v8,decode-v9"
    assert f"next: gdnbench run --kernel {kernels} {shapes} --baseline decode-v8 --label try-1" in out


def test_what_was_refuted_is_not_tried_again_unless_asked_for(home, begin, close, command_line):
    keep_run(home)
    begin(SLOWER)
    close()
    assert "entry 1 refuted" in begin(SLOWER, code=ExitCode.USAGE)
    assert "still the code that entry 1 was refuted with" in begin("time <= 1us at B=64", code=ExitCode.USAGE)
    begin(SLOWER, kernel="decode-v9")
    code, _, err = command_line(
        "ledger", "add", "once more", "-k", "decode-v10", "--expect", SLOWER, "--again", "--after", 1
    )
    assert code == 0
    assert "again: entry 1 refuted" in err
    assert read_ledger(home / "ledger.jsonl")[3].opened.after == 1


def test_what_changed_in_the_sources_since_is_shown_without_git(home, begin, command_line, monkeypatch):
    assert command_line("new", "decode-mine", "--from", "decode-v10", "--to", "kernels")[0] == 0
    monkeypatch.setenv("GDNBENCH_KERNELS", str(home / "kernels"))
    begin(SLOWER, kernel="decode-mine")
    source = load_catalog().entries["decode-mine"].source
    source.write_text(source.read_text() + "// a further line\n")
    _, out, _ = command_line("ledger", "1")
    assert "+// a further line" in out.splitlines()
    assert "+// a further line" in json.loads(command_line("ledger", "1", "--json")[1])["diff"]
    shutil.rmtree(home / "kernels")
    monkeypatch.delenv("GDNBENCH_KERNELS")
    assert "not there any more" in command_line("ledger", "1")[1]


def _changed(line, **values):
    return json.dumps(json.loads(line) | values)


@pytest.mark.parametrize(
    ("damage", "number", "why"),
    [
        (lambda one, two: [one, two[: len(two) // 2]], 2, ""),
        (lambda one, two: [one, "", "[]", two], 3, ""),
        (lambda one, two: [_changed(one, schema=9), two], 1, "schema 9"),
        (lambda one, two: [_changed(one, event="deleted"), two], 1, "event"),
        (lambda one, two: [_changed(one, expectations=[]), two], 1, "expectations"),
        (lambda one, two: [_changed(one, hypothesis="\x1b[2J"), two], 1, "hypothesis"),
        (lambda one, two: [_changed(one, id=-1), two], 1, "id"),
        (lambda one, two: [_changed(one, after=3), two], 1, "follows 3"),
        (lambda one, two: [one, one, two], 2, "opened a second time"),
        (lambda one, two: [one, _changed(two, sources="=7")], 2, "entry '7', which is not above it"),
        (lambda one, two: [two, one], 1, "never opened"),
        (lambda one, two: [one, two, two], 3, "was refuted already"),
        (lambda one, two: [one, _changed(two, findings=json.loads(two)["findings"] * 2)], 2, "2 findings"),
    ],
)
def test_a_damaged_line_is_told_with_its_number(home, begin, close, command_line, damage, number, why):
    keep_run(home)
    begin(SLOWER)
    close()
    path = home / "ledger.jsonl"
    path.write_text("\n".join(damage(*path.read_text().splitlines())) + "\n")
    before = path.read_bytes()
    for words in (["ledger"], ["ledger", "add", "more", "-k", "decode-v9", "--expect", SLOWER]):
        code, _, err = command_line(*words)
        assert code == ExitCode.USAGE
        assert f"ledger.jsonl line {number}: " in err
        assert why in " ".join(err.split())
    assert path.read_bytes() == before


@pytest.mark.parametrize("sources", ["AAAA", "not base64", "\u00e9"])
def test_damaged_sources_are_told_where_they_are_shown(home, begin, command_line, sources):
    begin(SLOWER)
    path = home / "ledger.jsonl"
    path.write_text(_changed(path.read_text(), sources=sources) + "\n")
    assert command_line("ledger")[0] == 0
    code, out, err = command_line("ledger", "1")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "entry 1: sources: " in err


def test_a_last_line_that_is_cut_off_is_not_appended_to(home, begin):
    begin(SLOWER)
    path = home / "ledger.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    assert "line 1: it is cut off" in begin(SLOWER, kernel="decode-v9", code=ExitCode.USAGE)


FILL = """
import resource, signal, sys
from pathlib import Path
from gdnbench.verbs.app import main
size = Path("ledger.jsonl").stat().st_size if Path("ledger.jsonl").exists() else 0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv.pop(1)),) * 2)
sys.exit(main())
"""


@pytest.mark.parametrize(("verb", "room"), [("add", 0), ("close", 300)])
def test_a_disk_that_fills_leaves_the_ledger_as_it_was(home, begin, close, verb, room):
    keep_run(home)
    path = home / "ledger.jsonl"
    begin(SLOWER)
    before = path.read_bytes()
    words = {
        "add": ["ledger", "add", "more", "-k", "decode-v9", "--expect", SLOWER],
        "close": ["ledger", "close", "1", RUN],
    }[verb]
    filled = subprocess.run(
        [sys.executable, "-B", "-c", FILL, str(room), *words],  # byte code would be cut off, too
        env={**os.environ, "PYTHONPATH": python_path(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert filled.returncode == ExitCode.ENVIRONMENT, filled.stderr
    assert "File too large" in filled.stderr
    assert path.read_bytes() == before
    assert begin(SLOWER, kernel="decode-v9")["id"] == 2


APPEND = """
import sys
from pathlib import Path
from gdnbench.catalog.catalog import load_catalog
from gdnbench.ledger.file import append_event
from gdnbench.ledger.events import opened_event, plan_try
planned = plan_try(load_catalog(), "at once", "decode-v10", ["time <= 4us at B=1"])
for _ in range(8):
    append_event(Path("ledger.jsonl"), lambda entries: opened_event(planned, entries))
"""


def test_processes_that_append_at_once_lose_nothing(home):
    environment = {**os.environ, "PYTHONPATH": python_path(REPOSITORY)}
    started = [subprocess.Popen([sys.executable, "-c", APPEND], cwd=home, env=environment) for _ in range(3)]
    assert [each.wait(120) for each in started] == [0, 0, 0]
    assert list(read_ledger(home / "ledger.jsonl")) == list(range(1, 25))


FASTER = "vs decode-v8 <= 0.98 at B=1"  # which the run confirms


def test_of_a_long_ledger_the_newest_entries_are_listed_and_all_if_asked(home, begin, command_line):
    begin(FASTER)
    path = home / "ledger.jsonl"
    first = json.loads(path.read_text())
    path.write_text("".join(json.dumps(first | {"id": number}) + "\n" for number in range(1, 108)))

    def listed(*words):
        out = command_line("ledger", *words)[1]
        return out, [int(line.split()[0]) for line in out.splitlines() if line.split()[:1] and "2026-" in line[:24]]

    out, numbers = listed()
    assert numbers == [*range(8, 108)]
    assert "the last 100 of 107: --all shows the others, too" in out
    assert listed("--all")[1] == [*range(1, 108)]
    assert len(json.loads(command_line("ledger", "--json")[1])["entries"]) == 107


def test_sources_that_would_fill_the_memory_are_refused():
    bomb = base64.b64encode(zlib.compress(b'{"a": "' + b"x" * 2**25)).decode()
    with pytest.raises(SchemaError, match="larger"):
        unpack(bomb)


def test_a_ledger_that_cannot_be_written_is_told(home, begin):
    assert "cannot be" in begin(SLOWER, more=["--ledger", f"{'x' * 300}.jsonl"], code=ExitCode.ENVIRONMENT)
    for path in ("results", "/dev/null"):
        assert "it is not a plain file" in begin(SLOWER, more=["--ledger", path], code=ExitCode.ENVIRONMENT)
