"""What a tuner chose is stored with a run, and told where it differs."""

import csv
import gc
import json

import pytest
import triton
import triton.language as tl
from committed import RESULTS
from compare_data import plant
from faults import answer

from gdnbench.analyse.rounds import Collected
from gdnbench.store.journal import Tuned, decode, encode
from gdnbench.workers.launched import TunerChoices

CASE = "decode-fla/HQ4_HV8_K128_V128_B1"
CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 2), (128, 4))]


@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def scale_of_test(values, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + at, 2.0 * tl.load(values + at, at < count), at < count)


@pytest.fixture
def chosen():
    gc.unfreeze()  # a worker loads kernels after it has frozen what torch made; here they were there before
    scale_of_test.best_config = CONFIGS[1]
    yield
    del scale_of_test.best_config


@pytest.mark.usefixtures("chosen")
def test_of_what_a_case_launches_the_last_choice_is_told():
    choices = TunerChoices()
    (line,) = choices.of("mine", ("scale_of_test", "memset"))
    assert line.startswith("scale_of_test: BLOCK: 128, num_warps: 4")
    scale_of_test.best_config = CONFIGS[0]
    assert choices.of("mine", ("scale_of_test",))[0].startswith("scale_of_test: BLOCK: 64, num_warps: 2")


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("launched", [(), ("memset",), ("another_kernel",)])
def test_of_what_a_case_does_not_launch_nothing_is_told(launched):
    assert TunerChoices().of("mine", launched) == ()


class DerivedTuner(type(scale_of_test)):
    """As FLA's tuner, which looks for a stored config first."""


@pytest.mark.usefixtures("chosen")
def test_a_tuner_derived_from_tritons_is_found(monkeypatch):
    monkeypatch.setattr(scale_of_test, "__class__", DerivedTuner)
    assert len(TunerChoices().of("mine", ("scale_of_test",))) == 1


def test_a_tuner_that_has_not_run_has_chosen_nothing():
    assert TunerChoices().of("mine", ("scale_of_test",)) == ()


def test_each_choice_of_a_process_is_kept_once():
    collected = Collected()
    for configs in (("f: BK: 64", "g: BK: 32"), ("f: BK: 128", "g: BK: 32"), ("f: BK: 64", "g: BK: 32")):
        collected.take(decode(encode(Tuned(CASE, configs))))
    assert collected.tuned == {CASE: ["f: BK: 64; g: BK: 32", "f: BK: 128; g: BK: 32"]}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["f: BK: 64"], ["f: BK: 128"], True),
        (["f: BK: 64"], ["f: BK: 64"], False),
        (["f: BK: 64"], None, True),
        (None, None, False),
    ],
)
def test_compare_says_where_a_tuner_chose_other_code_and_takes_it_for_a_change(tmp_path, before, after, told):
    runs = [plant(tmp_path / name, "decode-fla", 1.03 if name == "b" else 1.0) for name in "ab"]
    for run, choices in zip(runs, (before, after), strict=True):
        document = json.loads((run / "run.json").read_text())
        with (run / "rounds.csv").open(newline="") as file:
            ids = {row["case"] for row in csv.DictReader(file) if row["case"].startswith("decode-fla/")}
        document |= {"tuned": dict.fromkeys(ids, choices)} if choices else {}
        (run / "run.json").write_text(json.dumps(document))
    done = answer("compare", *map(str, runs), folder=RESULTS.parent)
    assert done.code == 0, done.err
    assert ("its choice is stored by one run alone: decode-fla" in done.out + done.err) is told
