"""`gdnbench run --gpu all` on a machine whose cards are simulated: each card's run is a process that writes one."""

import json

import pytest
from cards_data import store_card_run

from gdnbench.errors import ExitCode
from gdnbench.model.gpu import Gpu

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
