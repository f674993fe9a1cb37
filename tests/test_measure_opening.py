"""A run's folder: tidy when it is done, and read again, with the rounds that are whole, where it was stopped."""

import gzip
import json
from dataclasses import replace

import pytest
from bundled import CATALOG
from dispatch_data import write_dispatcher
from run_data import case, collect, failed, healthy, info

from gdnbench.analyse.analysis import analyse
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import make_request
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.measure.plan import make_plan
from gdnbench.measure.start import begin_session, library_change, load_unfinished, resume_session, source_change
from gdnbench.measure.write import write_run
from gdnbench.model.status import Role, Status
from gdnbench.process.events import ignore
from gdnbench.store.files import Journal, RunFolder
from gdnbench.store.info import RunInfo, read_info, write_info
from gdnbench.store.journal import Examined, Sampled, encode
from gdnbench.store.measurements import read_measurements
from gdnbench.store.settings import Settings
from gdnbench.store.tables import read_launches


def _describe(folder, complete=False, swept=None, **more):
    settings = {**vars(Settings(rounds=3)), **more}
    info = RunInfo(
        run_id="r", timestamp="2026-01-02T03:04:05+00:00", complete=complete, command="", op="decode", gpu="cpu",
        settings=settings, cases=[],
        machine={"gpu": None}, swept=swept or {},
    )  # fmt: skip
    write_info(folder, info)


def _replayed(folder, *parts, **more):
    """What a run of two cases, stopped after each part, has measured: samples by case and round."""
    _describe(folder, **more)
    for part in parts:
        with Journal(folder) as journal:
            for event in part:
                journal.append(encode(event))
    return load_unfinished(folder.parent, str(folder), load_catalog([])).collected


def _sampled(number, case, part):
    return Sampled(number, case, (float(part) or 9.0,))


@pytest.mark.parametrize("plain", [False, True])
def test_a_run_goes_on_as_it_began(tmp_path, plain):
    _describe(tmp_path, plain=plain)
    settings = load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([])).settings
    assert settings == Settings(rounds=3, plain=plain)


def test_a_run_that_began_with_settings_unknown_here_is_not_taken_up(tmp_path):
    _describe(tmp_path, copies=8)
    with pytest.raises(RunFormatError, match="copies") as caught:
        load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([]))
    assert caught.value.hint


def test_a_run_that_is_whole_is_not_taken_up(tmp_path):
    _describe(tmp_path, complete=True)
    with pytest.raises(UsageError, match="is complete") as caught:
        load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([]))
    assert caught.value.hint == "gdnbench show r"


def test_a_run_that_is_being_measured_is_not_taken_up(tmp_path):
    measuring = RunFolder.create(tmp_path, "r")
    _describe(measuring.path)
    with pytest.raises(UsageError, match="is being measured by another process") as caught:
        resume_session(CATALOG, tmp_path, "r", ignore)
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [".r.partial"]


def test_the_halves_of_a_round_of_two_parts_do_not_make_a_whole(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    first = [*burn_in, _sampled(1, "a", 1), _sampled(1, "b", 1), _sampled(2, "a", 1)]
    second = [*burn_in, _sampled(2, "b", 2)]
    collected = _replayed(tmp_path, first, second)
    assert collected.complete_rounds("ab") == {1}


def test_a_lost_case_does_not_tear_the_rounds_of_the_others(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    lost = Examined("b", Status.CRASHED, "SIGKILL")
    first = [*burn_in, _sampled(1, "a", 1), lost, _sampled(0, "a", 1), _sampled(2, "a", 1)]
    collected = _replayed(tmp_path, first)
    assert collected.complete_rounds("a") == {1, 2}
    assert not collected.lost


@pytest.mark.parametrize("status", [Status.WRONG_WHEN_TIMED, Status.TAMPERS])
@pytest.mark.parametrize("clock", ["", "cupti"])
def test_a_case_that_cheated_gets_no_other_chance(tmp_path, status, clock):
    """Each of its launches is seldom checked: it may come through the next time."""
    _describe(tmp_path, clocks=["cupti"])
    lost = Examined("b", status, "wrong when it was timed", clock=clock)
    with Journal(tmp_path) as journal:
        for event in [*_worker("ab", 1), lost]:
            journal.append(encode(event))
    resumed = load_unfinished(tmp_path.parent, str(tmp_path), load_catalog([]))
    assert (resumed.clocked["cupti"] if clock else resumed.collected).lost == {"b": lost}


def test_a_line_that_a_kill_cut_off_costs_only_itself(tmp_path):
    whole, cut = encode(_sampled(1, "a", 1)), encode(_sampled(2, "a", 1))[:-9]
    _replayed(tmp_path)
    (tmp_path / "journal.jsonl").write_text(f"{whole}\n{cut}")
    collected = _replayed(tmp_path, [_sampled(0, "a", 2), _sampled(2, "a", 2)])
    assert {number: sampled.times_us for number, sampled in collected.samples["a"].items()} == {1: (1.0,), 2: (2.0,)}


def _rounds(collected):
    return {case: sorted(rounds) for case, rounds in collected.samples.items()}


def _worker(cases, *rounds, torn=""):
    """What one worker reports: a burn-in, whole rounds, and a round that only some cases saw."""
    last = max(rounds, default=0) + 1
    whole = [_sampled(number, case, number) for number in (0, *rounds) for case in cases]
    return [*whole, *(_sampled(last, case, last) for case in torn)]


SWEPT = {"swept": {"decode-x": ["BV"]}, "budget_s": 60.0}


def test_points_that_left_a_race_keep_their_rounds_and_the_others_theirs(tmp_path):
    collected = _replayed(tmp_path, [*_worker("abc", 1, 2, 3), *_worker("ab", 4, 5), *_worker("a", 6)], **SWEPT)
    assert _rounds(collected) == {"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3, 4, 5], "c": [1, 2, 3]}


def test_a_round_that_was_torn_is_dropped_even_if_the_next_worker_died_in_its_burn_in(tmp_path):
    """Else the point that has one round less would seem to have left the race."""
    first = [*_worker("abc", 1, 2, 3), *_worker("ab", 4, torn="b")]
    collected = _replayed(tmp_path, first, [_sampled(0, "a", 0)], **SWEPT)
    assert _rounds(collected) == {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [1, 2, 3]}


def test_a_point_that_was_lost_in_a_race_stays_lost(tmp_path):
    """The others are ahead of it: it could not be compared with them."""
    lost = Examined("b", Status.CRASHED, "SIGKILL")
    collected = _replayed(tmp_path, [*_worker("ab", 1), lost, *_worker("a", 2)], **SWEPT)
    assert collected.lost == {"b": lost}
    assert _rounds(collected) == {"a": [1, 2]}


TABLE = '[h200.qk4_v8]\nsource = "r"\nB1 = {{ kernel = "decode-v4", WARPS = {warps} }}\n'


@pytest.fixture
def catalog_with(tmp_path):
    """Gives the bundled kernels and a dispatcher that picks decode-v4 with so many warps."""

    def load(warps):
        write_dispatcher(tmp_path / "kernels", TABLE.format(warps=warps))
        return load_catalog([default_roots()[0], tmp_path / "kernels"])

    return load


def begin(catalog, folder, kernels):
    request = make_request(catalog, "decode", kernels, axes="B=1", settings=Settings())
    return begin_session(catalog, make_plan(catalog, request, None), folder, ignore).info


def test_a_run_knows_the_sources_of_what_a_dispatcher_picked_and_its_table(catalog_with, tmp_path):
    catalog = catalog_with(warps=2)
    info = begin(catalog, tmp_path / "results", "decode-mine")
    assert {"decode-v4", "decode-mine"} <= info.sources.keys()
    assert source_change(info, catalog) == ""


def test_a_table_that_has_changed_is_told(catalog_with, tmp_path):
    info = begin(catalog_with(warps=2), tmp_path / "results", "decode-mine")
    assert source_change(info, catalog_with(warps=4)) == "decode-mine has changed"


def test_a_run_is_not_taken_up_with_another_definition_of_its_op_or_another_library(tmp_path):
    catalog = CATALOG
    info = begin(catalog, tmp_path, "decode-v4")
    assert (source_change(info, catalog), library_change(info)) == ("", "")
    assert (
        source_change(replace(info, op_hash="of-then"), catalog) == "what decode says of inputs and gates has changed"
    )
    folder = tmp_path / f".{info.run_id}.partial"
    versions = {**info.machine["versions"], "torch": "1.0"}
    write_info(folder, replace(info, machine={**info.machine, "versions": versions}))
    with pytest.raises(UsageError, match=r"torch has changed from 1\.0 to .* since") as caught:
        resume_session(catalog, tmp_path, info.run_id, ignore)
    assert caught.value.hint == "start a new run, or install what it began with"


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
