"""A run's folder when it is done: whole runs are tidy, unfinished ones keep what they need to go on."""

import gzip
import json
from dataclasses import replace

import pytest
from bundled import CATALOG
from run_data import case, collect, failed, healthy, info

from gdnbench.analyse.analysis import analyse
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.measure.start import load_unfinished
from gdnbench.measure.write import write_run
from gdnbench.model.status import Role, Status
from gdnbench.store.files import Journal, RunFolder
from gdnbench.store.info import read_info
from gdnbench.store.journal import Examined, Sampled, encode
from gdnbench.store.measurements import read_measurements
from gdnbench.store.settings import Settings
from gdnbench.store.tables import read_launches

CASES = (case("decode-reference", Role.BASELINE), case("decode-v4", WARPS=8))
SETTINGS = {"rounds": 3, "samples": 20, "seed": 1, "margin": 0.005, "confidence": 0.95, "step_limit_s": 30.0}
SOURCES = {name: CATALOG.entries[name].source_hash() for name in ("decode-reference", "decode-v4")}


@pytest.fixture
def finish(tmp_path):
    def run(complete=True, checked=None, functions=None):
        folder = RunFolder.create(tmp_path, "run")
        collected = collect(dict.fromkeys((each.id for each in CASES), 5.0), rounds=3, samples=20)
        if functions:
            own = collected.samples[CASES[1].id]
            own |= {number: replace(sampled, functions_us=functions(number)) for number, sampled in own.items()}
        with Journal(folder.path) as journal:
            for rounds in collected.samples.values():
                for sampled in rounds.values():
                    journal.append(encode(sampled))
        (folder.path / "nvbench" / "measure-0.json-bin").mkdir(parents=True)
        (folder.path / "nvbench" / "measure-0.json").write_text('{"benchmarks": []}')
        (folder.path / "measure-0.log").write_text("said something")
        found = analyse(
            CATALOG.ops["decode"], CASES, checked or healthy(CASES), {}, collected, Settings(), timer="nvbench",
            run_id="run", copying=(),
        )  # fmt: skip
        described = info(
            run_id="run", complete=complete, settings=SETTINGS, sources=SOURCES, cases=[c.to_dict() for c in CASES]
        )
        return write_run(folder, described, found, collected, [], {"cupti": collected} if functions else {})

    return run


def test_a_whole_run_can_be_read_and_is_tidy(finish):
    path = finish()
    assert read_info(path).complete
    assert [row.case for row in read_measurements(path)] == list(CASES)
    assert {each.name for each in path.iterdir()} == {
        *("run.json", "measurements.csv", "rounds.csv", "builds.csv", "samples.parquet", "nvbench")
    }


def test_what_cupti_says_of_the_functions_of_a_call_has_a_file(finish):
    path = finish(functions=lambda number: {"gates": float(number), "scan": 10.0 * number})
    rows = [(row.case, row.function, row.rounds, row.time_us) for row in read_launches(path)]
    assert rows == [(CASES[1].id, "gates", 3, 2.0), (CASES[1].id, "scan", 3, 20.0)]


def test_nvbenchs_own_record_is_kept_packed_and_untouched(finish):
    (record,) = (finish() / "nvbench").iterdir()
    assert json.loads(gzip.decompress(record.read_bytes())) == {"benchmarks": []}


def test_the_logs_stay_where_a_case_failed(finish):
    path = finish(checked=healthy(CASES) | {CASES[1].id: Examined(CASES[1].id, Status.CRASHED, "SIGSEGV")})
    assert (path / "measure-0.log").is_file()
    assert read_measurements(path)[1] == failed(CASES[1], reason="SIGSEGV")


@pytest.mark.parametrize(("name", "state"), [("decode-v4", "has changed"), ("decode-v99", "is gone")])
def test_a_run_whose_kernels_changed_does_not_go_on(finish, tmp_path, name, state):
    path = finish(complete=False)
    document = json.loads((path / "run.json").read_text())
    document["sources"] = {name: "0123456789abcdef"}
    (path / "run.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"{name} {state}"):
        load_unfinished(tmp_path, "run", CATALOG)


def test_a_journal_with_junk_inside_is_named(finish, tmp_path):
    path = finish(complete=False)
    with Journal(path) as journal:
        journal.append("junk")
        journal.append(encode(Sampled(1, CASES[0].id, (5.0,))))
    with pytest.raises(RunFormatError, match="journal"):
        load_unfinished(tmp_path, "run", CATALOG)
