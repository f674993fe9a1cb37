"""The index of runs: verbs print with it what they print without, whatever became of it or of the runs."""

import multiprocessing
import shutil
import sqlite3

import pytest
from history_data import KERNEL, TIMES, store_run

from gdnbench.errors import RunFormatError
from gdnbench.store import index
from gdnbench.store.index import RunIndex, stamp_of

VERBS = (("history", KERNEL, "--json"), ("list", "decode-fla"), ("runs",))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Four runs with a step, and a damaged one; the cache is this test's own."""
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "FEWEST_RUNS", 1)
    for day in range(4):
        store_run(tmp_path / "results", day, {**TIMES, KERNEL: 4.4 if day < 2 else 4.8}, card=f"GPU-{day // 2}")
    file = store_run(tmp_path / "results", 4) / "measurements.csv"
    file.write_bytes(file.read_bytes()[:-40])
    return tmp_path / "results"


@pytest.fixture
def told(command_line, results, monkeypatch):
    def tell():
        return [command_line(*verb, "--out", results) for verb in VERBS]

    def tell_without():
        with monkeypatch.context() as patch:
            patch.setattr(index, "FEWEST_RUNS", 100)
            return tell()

    tell.without = tell_without
    return tell


def file_of():
    (file,) = index.index_folder().glob("*.sqlite")
    return file


def test_what_is_known_is_told_as_what_is_read_and_no_run_is_read_again(told, monkeypatch):
    expected = told.without()
    assert all("is left out" in err for _, _, err in expected[:2])
    assert "damaged" in expected[2][1]
    assert told() == expected

    def fail(*_):
        raise AssertionError("a run was read")

    for reader in (
        "analyse.runs.load_run",
        "store.find.read_document",
        "store.find.quick_rows",
        "store.overview.read_document",
    ):
        monkeypatch.setattr(f"gdnbench.{reader}", fail)
    assert told() == expected


def test_a_run_that_changed_is_read_again(told, results):
    before = told()
    newest = sorted(results.iterdir())[3]
    for name in ("measurements.csv", "rounds.csv"):
        text = (newest / name).read_text()
        (newest / name).write_text(text.replace(",nvbench,", ",cpu,", 1) if name == "rounds.csv" else text)
    shutil.rmtree(sorted(results.iterdir())[0])
    found = told()
    assert found == told.without()
    assert found != before
    with sqlite3.connect(file_of()) as file:
        assert file.execute("SELECT count(DISTINCT run) FROM answers").fetchone() == (4,)


def of_an_older_schema(file):
    with sqlite3.connect(file) as connection:
        connection.executescript("DROP TABLE answers; CREATE TABLE answers (run TEXT); PRAGMA user_version = 1")


def with_answers_of_another_form(file):
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE answers SET answer = x'c1'")


def cut_off(file):
    file.write_bytes(file.read_bytes()[:6000])


def where_nothing_can_be_written(file):
    shutil.rmtree(file.parent)
    file.parent.write_text("a file, which no folder replaces")


@pytest.mark.parametrize(
    ("spoil", "heals"),
    [
        (of_an_older_schema, True),
        (with_answers_of_another_form, True),
        (cut_off, True),
        (where_nothing_can_be_written, False),
    ],
)
def test_an_index_that_does_not_fit_is_thrown_away_in_silence(told, spoil, heals, monkeypatch):
    expected = told()
    spoil(file_of())
    assert told() == expected
    if heals:
        monkeypatch.setattr("gdnbench.analyse.runs.load_run", None)
        assert told() == expected


def write(results, name, barrier):
    runs = sorted(results.iterdir())
    for number in range(20):
        barrier.wait()
        found = RunIndex(results, runs)
        found.answer(f"{name} {number}", runs[0], "stamp", int, lambda _, number=number: number)
        found.save()


def test_two_processes_may_write_at_once(results):
    processes = multiprocessing.get_context("fork")
    barrier = processes.Barrier(2)
    writers = [processes.Process(target=write, args=(results, name, barrier)) for name in "ab"]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    with sqlite3.connect(file_of()) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("SELECT count(*) FROM answers").fetchone() == (40,)


def test_a_damage_is_told_by_the_folder_that_was_asked_for(results, monkeypatch):
    def read(folder):
        raise RunFormatError(f"{folder}/run.json is damaged")

    monkeypatch.chdir(results.parent)
    for place in (results, results.relative_to(results.parent)):
        run = sorted(place.iterdir())[0]
        found = RunIndex(place, [run])
        with pytest.raises(RunFormatError, match=f"^{run}/run.json is damaged"):
            found.answer("what", run, stamp_of(run, ("run.json",)), str, read)
        found.save()
