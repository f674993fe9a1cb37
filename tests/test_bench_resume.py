"""Reading a run that was stopped: its settings, and the rounds that are whole."""

import pytest

from gdnbench.bench.events import Examined, Sampled, encode
from gdnbench.bench.observer import Observer
from gdnbench.bench.opening import resume_session
from gdnbench.bench.request import Settings
from gdnbench.bench.resume import load_unfinished
from gdnbench.catalog import default_roots, load_catalog
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model import Status
from gdnbench.store import Journal, RunFolder, RunInfo, write_info


def _describe(folder, complete=False, **more):
    settings = {**vars(Settings(rounds=3)), **more}
    info = RunInfo(
        run_id="r", timestamp="", complete=complete, command="", op="decode", gpu="cpu", settings=settings, cases=[],
        machine={"gpu": None},
    )  # fmt: skip
    write_info(folder, info)


def _replayed(folder, *parts):
    """What a run of two cases, stopped after each part, has measured: samples by case and round."""
    _describe(folder)
    for part in parts:
        with Journal(folder) as journal:
            for event in part:
                journal.append(encode(event))
    return load_unfinished(folder.parent, str(folder), load_catalog([])).collected


def _sampled(number, case, part):
    return Sampled(number, case, (float(part),))


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
        resume_session(load_catalog(default_roots()[:1]), tmp_path, "r", Observer())
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [".r.partial"]


def test_the_halves_of_a_round_of_two_parts_do_not_make_a_whole(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    first = [*burn_in, _sampled(1, "a", 1), _sampled(1, "b", 1), _sampled(2, "a", 1)]
    second = [*burn_in, _sampled(2, "b", 2)]
    collected = _replayed(tmp_path, first, second)
    assert collected.whole_rounds("ab") == {1}


def test_a_lost_case_does_not_tear_the_rounds_of_the_others(tmp_path):
    burn_in = [_sampled(0, "a", 0), _sampled(0, "b", 0)]
    lost = Examined("b", Status.CRASHED, "SIGKILL")
    first = [*burn_in, _sampled(1, "a", 1), lost, _sampled(0, "a", 1), _sampled(2, "a", 1)]
    collected = _replayed(tmp_path, first)
    assert collected.whole_rounds("a") == {1, 2}
    assert not collected.lost


def test_a_line_that_a_kill_cut_off_costs_only_itself(tmp_path):
    whole, cut = encode(_sampled(1, "a", 1)), encode(_sampled(2, "a", 1))[:-9]
    _replayed(tmp_path)
    (tmp_path / "journal.jsonl").write_text(f"{whole}\n{cut}")
    collected = _replayed(tmp_path, [_sampled(0, "a", 2), _sampled(2, "a", 2)])
    assert {number: sampled.times_us for number, sampled in collected.samples["a"].items()} == {1: (1.0,), 2: (2.0,)}
