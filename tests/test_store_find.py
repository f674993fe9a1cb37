"""Runs are found by what one remembers of them; of many that a name may mean, the newest that serves."""

import gzip
import shutil
from datetime import UTC, datetime

import pytest
from run_data import case, failed, info, measured, store
from sweep_data import JOINT

from gdnbench.errors import LeftOutWarning, RunFormatError, UnknownNameError
from gdnbench.model.status import Role
from gdnbench.origin import EVIDENCE
from gdnbench.store.files import RunFolder, run_id_of
from gdnbench.store.find import compares, find_run, list_runs, name_runs
from gdnbench.store.info import write_info
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import read_case_rounds, read_rounds
from gdnbench.store.tables import write_sweep

RUNS = (
    "20260101-000000-h200-decode",
    "20260102-000000-b200-decode-before",
    "20260103-000000-h200-decode-after",
    "20260104-000000-b200-decode",
)
KERNELS = [measured(case("decode-fla", Role.BASELINE)), measured(case("decode-v4"), 3.5)]


def add(results, run_id, rows=KERNELS, **more):
    folder = results / run_id
    folder.mkdir()
    store(folder, rows, run_id=run_id, gpu=run_id.split("-")[2], **more)
    return folder


@pytest.fixture
def results(tmp_path):
    for name in RUNS:
        add(tmp_path, name)
    killed = RunFolder.create(tmp_path, "20260105-000000-h200-decode")
    write_info(killed.path, info(run_id=killed.run_id, complete=False))
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / "README.md").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", RUNS[3]),
        ("h200", RUNS[2]),
        ("H200", RUNS[2]),
        ("b200", RUNS[3]),
        ("decode", RUNS[3]),
        ("20260102", RUNS[1]),
        ("20260102-000000-b200-decode-before", RUNS[1]),
        ("2026", RUNS[3]),
    ],
)
def test_a_run_is_found_by_what_one_remembers(results, wanted, found):
    assert find_run(results, wanted) == results / found


def test_a_whole_label_beats_one_that_begins_with_it(results):
    longer = add(results, "20260106-000000-b200-decode-before-lunch")
    assert find_run(results, "before") == results / "20260102-000000-b200-decode-before"
    assert find_run(results, "before-lunch") == find_run(results, "lunch") == longer


def test_a_killed_run_shows_only_where_it_is_looked_for(results):
    assert find_run(results).name == RUNS[3]
    assert name_runs(results, "", stopped=True).runs[0].name == ".20260105-000000-h200-decode.partial"
    assert len(list_runs(results, stopped=True)) == len(list_runs(results)) + 1


@pytest.mark.parametrize("wanted", ["", "20260109", "20260109-030405-h200-decode"])
def test_a_killed_run_that_is_the_only_one_is_told_how_to_finish(tmp_path, wanted):
    folder = tmp_path / ".20260109-030405-h200-decode.partial"
    folder.mkdir()
    write_info(folder, info(run_id="20260109-030405-h200-decode", complete=False))
    with pytest.raises(UnknownNameError, match="was stopped before it was written") as caught:
        find_run(tmp_path, wanted)
    assert caught.value.hint == f"finish it: gdnbench run --resume 20260109-030405-h200-decode --out {tmp_path}"


@pytest.mark.parametrize("wanted", ["a100", "2027", "..", "not-a-run", "README.md", "x" * 5000, "a\0b", "ü\x1b[31m"])
def test_an_unknown_run_is_answered_with_those_there_are(results, wanted):
    with pytest.raises(UnknownNameError, match="no run") as caught:
        find_run(results, wanted)
    assert "2026010" in caught.value.hint


def sweep(results, run_id):
    folder = add(results, run_id, swept={"decode-v4": ["WARPS"]})
    write_sweep(folder, JOINT)


PASSED_OVER = {
    "a sweep": sweep,
    "an ablation": lambda results, run_id: add(results, run_id, [KERNELS[0], measured(case("decode-x", Role.FLOOR))]),
    "a run without a time": lambda results, run_id: add(results, run_id, [failed(case("decode-v4"))]),
    "a run of the baseline": lambda results, run_id: add(results, run_id, KERNELS[:1]),
}


@pytest.mark.parametrize("kind", PASSED_OVER)
def test_a_gpus_name_means_the_latest_run_that_compared_kernels(results, kind):
    newest = "20260107-000000-h200-decode-other"
    PASSED_OVER[kind](results, newest)
    assert find_run(results, "h200") == results / RUNS[2]
    assert find_run(results, "decode") == results / RUNS[3]
    assert find_run(results, serves=compares) == results / RUNS[3]
    for named in ("", newest, "other", "20260107", str(results / newest)):
        assert find_run(results, named) == results / newest


HARMS = {
    "no measurements": lambda folder: (folder / "measurements.csv").unlink(),
    "half a run.json": lambda folder: (folder / "run.json").write_text('{"schema": 1, "run_id"'),
    "a folder for run.json": lambda folder: (shutil.rmtree(folder), (folder / "run.json").mkdir(parents=True)),
    "another schema": lambda folder: (folder / "run.json").write_text('{"schema": 99}'),
}


@pytest.mark.parametrize("wanted", ["", "h200", "decode"])
@pytest.mark.parametrize("harm", [name for name in HARMS if not name.startswith("a folder")])
def test_a_damaged_run_is_left_out_with_a_warning(results, harm, wanted):
    newest = add(results, "20260107-000000-h200-decode")
    HARMS[harm](newest)
    with pytest.warns(LeftOutWarning, match="20260107-000000-h200-decode is left out"):
        assert find_run(results, wanted) == results / RUNS[2 if wanted == "h200" else 3]
    with pytest.raises(RunFormatError), pytest.warns(LeftOutWarning):
        shutil.copytree(newest, results / "alone" / newest.name)
        find_run(results / "alone", wanted)


@pytest.fixture
def kept(tmp_path):
    """A folder of runs with one of the user's, and two in the evidence beside it."""
    (tmp_path / EVIDENCE).mkdir()
    for name in (RUNS[1], f"{RUNS[0]}-pool-main"):
        add(tmp_path / EVIDENCE, name)
    add(tmp_path, RUNS[2])
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RUNS[1], RUNS[1]),
        (f"{EVIDENCE}/{RUNS[1]}", RUNS[1]),
        ("20260102", RUNS[1]),
        ("before", RUNS[1]),
        ("decode-before", RUNS[1]),
        ("main", f"{RUNS[0]}-pool-main"),
    ],
)
def test_what_is_named_and_is_not_the_users_is_found_in_the_evidence(kept, wanted, found):
    assert find_run(kept, wanted) == kept / EVIDENCE / found
    assert find_run(kept, str(kept / found)) == kept / EVIDENCE / found
    assert find_run(kept, str(kept / EVIDENCE / found)) == kept / EVIDENCE / found


def test_evidence_is_listed_nowhere_and_resumed_by_nobody(kept):
    assert [run.name for run in list_runs(kept)] == [RUNS[2]]
    assert find_run(kept) == kept / RUNS[2]
    with pytest.raises(UnknownNameError):
        name_runs(kept, RUNS[1], stopped=True)


def test_a_file_that_gzip_packed_is_read_as_if_it_were_plain(results):
    path = results / RUNS[0] / "rounds.csv"
    path.write_text(f"case,timer,round,time_us\n{case('decode-v4').id},nvbench,1,3.5\n")
    plain = path.read_bytes()
    expected = read_rounds(path.parent)[case("decode-v4").id].times_us
    packed = path.with_name("rounds.csv.gz")
    packed.write_bytes(gzip.compress(plain))
    path.unlink()
    assert read_rounds(path.parent)[case("decode-v4").id].times_us == expected == 3.5
    for damage in (gzip.compress(plain)[:-9], b"plain"):
        packed.write_bytes(damage)
        with pytest.raises(RunFormatError, match=r"rounds\.csv\.gz cannot be unpacked"):
            read_case_rounds(path.parent)


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("label", "tail"),
    [
        ("", ""),
        ("before", "-before"),
        ("my label, v2!", "-my-label-v2"),
        ("../../etc/passwd", "-etc-passwd"),
        ("a_b.c-d", "-a_b.c-d"),
        ("///", ""),
        ("..", ""),
        ("größer", "-gr-er"),
        ("two\nlines", "-two-lines"),
    ],
)
def test_a_runs_name_is_when_where_what_and_a_safe_label(label, tail):
    assert run_id_of(NOW, "h200", "decode", label) == "20260102-030405-h200-decode" + tail


def test_a_run_is_hidden_until_it_is_finished(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    write_info(folder.path, info())
    write_measurements(folder.path, info(), [])
    with pytest.raises(UnknownNameError):
        find_run(tmp_path, "run")
    assert folder.finish() == tmp_path / "run" == find_run(tmp_path, "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_runs_of_the_same_second_get_names_of_their_own(tmp_path):
    first, second = RunFolder.create(tmp_path, "run"), RunFolder.create(tmp_path, "run")
    first.finish()
    third = RunFolder.create(tmp_path, "run")
    assert [each.run_id for each in (first, second, third)] == ["run", "run-2", "run-3"]
    assert len({second.finish(), third.finish(), tmp_path / "run"}) == 3


def test_a_stopped_run_is_hidden_again_while_it_goes_on(tmp_path):
    path = tmp_path / "run"  # as another process left it
    path.mkdir()
    again = RunFolder.reopen(path)
    assert (again.run_id, path.exists()) == ("run", False)
    assert again.finish() == path
