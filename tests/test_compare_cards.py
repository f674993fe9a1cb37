"""Runs of several cards, measured at once and joined: which cards there are, and what is refused or said of it."""

import json
import shutil

import pytest
from cards_data import CASES_US, store_card_run, uuid_of
from committed import EVIDENCE

from gdnbench.analyse.cards import join_runs
from gdnbench.errors import ExitCode, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Role

AGAIN = [EVIDENCE / name for name in (
    "20261122-215641-h200-decode-again-1",
    "20261122-215810-h200-decode-again-2",
    "20261122-215931-h200-decode-again-3",
)]  # fmt: skip
OTHER_CARD = EVIDENCE / "20261122-215641-h200-decode-processes"


@pytest.fixture
def runs(tmp_path):
    """Stores a run of each card, with what is said of it."""

    def make(*cards):
        return [
            store_card_run(tmp_path / "results" / f"20260102-03040{place}-h200-decode-card{number}", number, **more)
            for place, (number, more) in enumerate(cards)
        ]

    return make


def ratios(joint, clock=None):
    rows = joint.clocks[clock] if clock else joint.measurements
    return {(row.case.label, row.case.workload.x_term): row.versus for row in rows if row.versus}


def test_two_cards_are_one_answer_by_each_clock(runs):
    joint = join_runs(runs((0, {}), (1, {})))
    assert [(card.name, card.processes, card.rounds) for card in joint.cards] == [
        ("GPU 0 (GPU-0000aaaa)", 3, 42),
        ("GPU 1 (GPU-1000aaaa)", 3, 42),
    ]
    assert len(joint.measurements) == len(CASES_US)
    assert set(joint.clocks) == {"cupti"}
    versus = ratios(joint)["decode-v9", "B=1"]
    assert versus.speedup == pytest.approx(5.1 / 4.2, rel=0.005)
    assert versus.verdict == "faster"
    assert ratios(joint, "cupti")["decode-v9", "B=1"].speedup == pytest.approx(2.3 / 1.4, rel=0.005)
    assert all(row.timing.rounds == 84 for row in joint.measurements)
    assert not joint.strays
    assert not joint.warnings
    assert not joint.left_out


def test_several_runs_of_one_card_are_one_cluster_and_no_cards_are_compared(runs):
    joint = join_runs(runs((0, {}), (0, {"seed": 2})))
    (card,) = joint.cards
    assert (len(card.runs), card.processes, card.rounds) == (2, 6, 84)
    assert not joint.by_card
    assert not joint.strays


def test_a_slower_card_is_named_with_its_clock_and_the_interval_of_times_grows(runs, command_line):
    folders = runs((0, {}), (1, {}), (2, {}), (3, {"slower": 0.025, "mhz": 1755.0}))
    joint = join_runs(folders)
    assert [stray.card for stray in joint.strays] == [3]
    _, out, _ = command_line("show", *folders)
    told = "GPU 3 (GPU-3000aaaa) takes 2.5% longer than the others; SM clock 1755 MHz, theirs 1980"
    assert told in " ".join(out.split())


def test_without_kernel_times_a_slow_card_is_told_from_a_long_launch(runs):
    slow = join_runs(runs(*((n, {"clocks": ()}) for n in range(3)), (3, {"clocks": (), "slower": 0.03})))
    assert [stray.card for stray in slow.strays] == [3]


def test_a_host_with_a_longer_launch_is_no_stray_and_is_told(runs, command_line):
    folders = runs((0, {}), (1, {}), (2, {"launch_us": 4.45}))
    joint = join_runs(folders)
    assert not joint.strays
    (warning,) = joint.warnings
    assert "differ by up to 1.6" in warning
    assert "CUPTI's kernel time" in warning
    kernel_time = ratios(joint, "cupti")["decode-v9", "B=1"]
    assert kernel_time.speedup == pytest.approx(2.3 / 1.4, rel=0.005)


def test_what_some_run_lacks_is_left_out_and_said(runs, command_line):
    fewer = {key: time for key, time in CASES_US.items() if key[1] != "decode-v8"}
    folders = runs((0, {}), (1, {"cases_us": fewer}))
    joint = join_runs(folders)
    assert {row.case.label for row in joint.measurements} == {
        "decode-fla", "decode-fla@again", "decode-v9", "decode-floor-copy",
    }  # fmt: skip
    assert list(joint.left_out) == ["not timed in every run"]
    _, out, _ = command_line("show", *folders)
    assert "2 cases not timed in every run, so not joined: decode-v8 B=1" in " ".join(out.split())


def test_a_floor_that_is_fastest_in_another_form_on_each_card_is_joined_and_a_kernel_of_other_params_is_not(runs):
    forms = [{"decode-floor-copy": {"ROWS": rows}, "decode-v9": {"WARPS": 4 * rows}} for rows in (1, 2)]
    joint = join_runs(runs((0, {"params": forms[0]}), (1, {"params": forms[1]})))
    assert joint.left_out == {"of other code in some run": ("decode-v9 B=1 qk4_v8", "decode-v9 B=64 qk4_v8")}
    joined = {(row.case.label, row.case.workload.B): row for row in joint.measurements}
    assert joined["decode-v8", 1].timing.sol == pytest.approx(4.0 / 4.3, rel=0.01)
    assert joined["decode-floor-copy", 1].warnings == ("its form differs between the cards: ROWS=1, ROWS=2",)
    assert joined["decode-v8", 1].warnings == ()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"op": "prefill"}, "different ops"),
        ({"machine": {"gpu": {"name": "NVIDIA B200", "uuid": "GPU-9"}}}, "different GPU models"),
        ({"machine": {"gpu": {"name": "NVIDIA H200"}}}, "does not tell which GPU"),
        ({"machine": {"gpu": None}, "gpu": "cpu"}, "does not tell which GPU"),
        ({"baseline": "decode-v9"}, "different baselines"),
        (
            {"settings": {"rounds": 42, "samples": 64, "margin": 0.005, "confidence": 0.95, "trim": 0.05}},
            "0.25 and 0.05",
        ),
        ({"settings": {"rounds": 42, "samples": 64, "margin": 0.005, "confidence": 0.95, "plain": True}}, "plain"),
        ({"swept": {"decode-v9": ["WARPS"]}}, "is a sweep"),
    ],
)
def test_what_is_not_one_question_is_refused(runs, more, told):
    folders = runs((0, {}), (1, more))
    with pytest.raises(UsageError, match=told) as refused:
        join_runs(folders)
    assert refused.value.hint


def test_a_damaged_run_says_which(runs, command_line):
    folders = runs((0, {}), (1, {}))
    shutil.copy(folders[0] / "run.json", folders[1] / "rounds.csv")
    code, out, err = command_line("show", *folders)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "rounds.csv" in "".join(err.split())


def test_the_committed_runs_of_two_cards_agree_with_each_of_them():
    if not OTHER_CARD.is_dir():
        pytest.skip("the checkout's results are not here")
    joint = join_runs([*AGAIN, OTHER_CARD])
    assert [(card.index, len(card.runs)) for card in joint.cards] == [(1, 3), (0, 1)]
    assert not joint.strays
    assert not joint.warnings
    found = ratios(joint)
    assert found["decode-v9", "B=1"].speedup == pytest.approx(1.151, abs=0.003)
    assert found["decode-v9", "B=1"].low < 1.149
    assert found["decode-v9", "B=1"].high > 1.154
    assert found["decode-fla@again", "B=1"].verdict == "same"
    assert {row.role for row in joint.measurements} == set(Role) - {Role.ABLATION}


def test_rounds_of_a_low_clock_and_what_else_differs_are_said(runs):
    gpu = {"name": "NVIDIA H200", "uuid": uuid_of(1), "index": 1, "driver": "580.1"}
    joint = join_runs(runs((0, {}), (1, {"mhz": 1700.0, "machine": {"gpu": gpu}}), (2, {})))
    assert "the runs differ in driver: none, 580.1" in joint.warnings
    (row,) = [row for row in joint.measurements if row.case.id.startswith("decode-v9/B1_")]
    assert row.warnings == ("42 of 126 rounds below 97% of the median clock of all cards",)
    assert [card.sm_mhz for card in joint.cards] == [1980.0, 1700.0, 1980.0]


def test_a_kernel_that_fails_is_told_and_on_which_card(runs, command_line):
    folders = runs((0, {}), (1, {"failing": ("decode-v8",)}), (2, {}))
    code, out, _ = command_line("show", *folders)
    assert code == 0
    assert "decode-v8: on GPU 1 (GPU-1000aaaa): its output is off" in " ".join(out.split())
    everywhere = [store_card_run(folders[0].parent / f"all-{n}", n, failing=("decode-v8",)) for n in (0, 1)]
    _, out, _ = command_line("show", *everywhere)
    assert "decode-v8: its output is off" in " ".join(out.split())
    assert "on GPU" not in out
    rows = json.loads(command_line("show", *everywhere, "--json")[1])["measurements"]
    assert [row["status"] for row in rows if row["label"] == "decode-v8"] == ["wrong-numbers"] * 2


GPUS = tuple(
    Gpu(index=n, name="NVIDIA H200", uuid=f"GPU-{n}000aaaa-0000-0000-0000-000000000000", capability=(9, 0))
    for n in range(3)
)
ARGUMENTS = ("run", "decode-v9", "--shape", "B=1,64", "--baseline", "decode-fla")

FAKE = """
import json, shutil, sys
from pathlib import Path
words = sys.argv[1:]
after = lambda name: words[words.index(name) + 1]
card = after("--gpu")[4]
print("measuring (5)", file=sys.stderr, flush=True)
if card in "{failing}":
    print("error: this card is lost", file=sys.stderr)
    sys.exit(5)
name = "20260102-030405-h200-decode-" + after("--label")
shutil.copytree(Path("{made}") / card, Path(after("--out")) / name)
path = Path(after("--out")) / name / "run.json"
document = json.loads(path.read_text()) | {{"run_id": name}}
path.write_text(json.dumps(document))
print(json.dumps({{"run": document}}))
sys.exit({code})
"""


@pytest.fixture
def cards(monkeypatch, tmp_path, command_line):
    """Calls `gdnbench run` on some cards."""
    for number in range(3):
        store_card_run(tmp_path / "made" / str(number), number)
    monkeypatch.setattr("gdnbench.verbs.parallel.build_cases", lambda *_: None)
    monkeypatch.setattr("gdnbench.measure.plan.unavailable", lambda *_: "")

    def call(*words, gpus=GPUS[:2], failing="-", code=0):
        monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: gpus)
        fake = FAKE.format(made=tmp_path / "made", failing=failing, code=code)
        monkeypatch.setattr("gdnbench.process.child._COMMAND_LINE", fake)
        return command_line(*ARGUMENTS, *words, "--out", tmp_path / "results")

    return call


def names_in(folder):
    return sorted(path.name for path in (folder / "results").iterdir())


def test_every_card_has_a_run_and_one_table_is_printed(cards, tmp_path):
    code, out, err = cards("--gpu", "all", "--label", "night")
    assert code == 0
    names = ["20260102-030405-h200-decode-night-card0", "20260102-030405-h200-decode-night-card1"]
    assert names_in(tmp_path) == names
    assert out.startswith("decode on 2 NVIDIA H200")
    told = " ".join(err.split())
    assert "measuring on 2 cards at once" in told
    assert "GPU 0: measuring (5)" in told
    assert "GPU 1: measuring (5)" in told
    assert f"gdnbench show {names[0]} {names[1]} --out {tmp_path / 'results'}" in err


def test_a_card_that_fails_is_told_and_the_others_are_joined(cards):
    code, out, err = cards("--gpu", "all", gpus=GPUS, failing="1")
    assert code == ExitCode.ENVIRONMENT
    assert out.startswith("decode on 2 NVIDIA H200")
    assert "GPU 1: error: this card is lost" in err
    assert "GPU 1: its run wrote nothing" in err


def test_runs_that_share_nothing_are_printed_one_by_one(cards, tmp_path):
    store_card_run(tmp_path / "made" / "9", 1, failing=("decode-fla", "decode-v8", "decode-v9", "decode-floor-copy"))
    (tmp_path / "made" / "1").rename(tmp_path / "made" / "whole")
    (tmp_path / "made" / "9").rename(tmp_path / "made" / "1")
    code, out, err = cards("--gpu", "all", code=3)
    assert code == ExitCode.WRONG_NUMBERS
    assert "the runs are not joined: no case can be joined" in " ".join(err.split())
    assert out.count("decode on NVIDIA H200: NVBench") == 2


def test_where_all_cards_fail_nothing_is_printed(cards):
    code, out, err = cards("--gpu", "all", "--quiet", failing="01")
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert err.count("this card is lost") == 2


def test_runs_that_were_stopped_say_how_to_finish_each(cards):
    code, out, err = cards("--gpu", "all", code=130)
    assert code == ExitCode.INTERRUPTED
    assert out.startswith("decode on 2")
    assert err.count("gdnbench run --resume 20260102-030405-h200-decode-card") == 2


@pytest.mark.parametrize("gpus", [GPUS[:1], GPUS])
def test_a_dry_run_is_the_plan_of_one_card_and_says_on_how_many(cards, gpus, tmp_path):
    code, out, _ = cards("--gpu", "all", "--dry-run", gpus=gpus)
    assert code == 0
    assert (f"on each of {len(gpus)} cards at once" in out) is (len(gpus) > 1)
    assert json.loads(cards("--gpu", "all", "--dry-run", "--json", gpus=gpus)[1]).get("cards", 1) == len(gpus)
    assert not (tmp_path / "results").exists()


def test_gpus_of_two_models_are_refused_before_anything_is_done(cards, tmp_path):
    other = Gpu(index=1, name="NVIDIA B200", uuid="GPU-9", capability=(10, 0))
    code, out, err = cards("--gpu", "all", gpus=(GPUS[0], other))
    assert (code, out) == (ExitCode.USAGE, "")
    assert "run each model by itself" in " ".join(err.split())
    assert not (tmp_path / "results").exists()


def test_resume_is_of_one_run(command_line, tmp_path):
    code, _, err = command_line("run", "--resume", "x", "--gpu", "all", "--out", tmp_path)
    assert code == ExitCode.USAGE
    assert "--resume does not go with --gpu" in " ".join(err.split())
    code, _, err = command_line("run", "--resume", "x", "--yes", "--out", tmp_path)  # as a script has it
    assert "does not go" not in err
