"""A kernel's history, and `gdnbench history`: steps of its ratio to the anchor, and what changed beside it."""

import json
import shutil

import numpy as np
import pytest
from committed import RESULTS as RECORDED
from history_data import BASELINE, FLOOR, KERNEL, PEER, TIMES, store_run
from processes import flat
from run_data import WORKLOAD

from gdnbench.analyse.history import choose_gpu, choose_label, history_of
from gdnbench.analyse.runs import load_stored_runs
from gdnbench.errors import LeftOutWarning, UnknownNameError
from gdnbench.model.status import Status


def history(results, label=KERNEL, **more):
    return history_of(
        [each for each in load_stored_runs(results) if each.gpu == "h200"], label, WORKLOAD, gpu="h200", **more
    )


def steps(found):
    return [place for place, row in enumerate(found.rows) if row.is_step]


def with_kernel(time_us):
    return {**TIMES, KERNEL: time_us}


def test_a_planted_step_is_marked_where_it_is_and_its_size_is_right(tmp_path):
    for day in range(6):
        store_run(tmp_path, day, with_kernel(4.4 if day < 3 else 4.4 * 1.06), launch=1.65 * (day >= 3))
    found = history(tmp_path)
    assert steps(found) == steps(history(tmp_path, margin=0.03)) == [3]
    assert steps(history(tmp_path, margin=0.10)) == []
    row = found.largest_step
    assert 1 / row.change.speedup.estimate == pytest.approx(1.06, abs=0.005)
    assert row.change.verdict.value == "slower"
    assert row.since == found.rows[2].run.source.name


def test_a_launch_that_all_kernels_share_is_no_step(tmp_path):
    for day, launch in enumerate([0.0, 0.09, -0.06, 1.65, 1.7, 0.0]):
        store_run(tmp_path, day, launch=launch, card=f"GPU-{day}")
    found = history(tmp_path)
    times = [row.figure.time_us for row in found.rows]
    assert max(times) / min(times) > 1.15
    ratios = [row.ratio.estimate for row in found.rows]
    assert max(ratios) / min(ratios) > 1.01, "the ratio to the anchor does not cancel a launch"
    assert steps(found) == []


def test_noise_is_no_step(tmp_path):
    random = np.random.default_rng(5)
    for day in range(12):
        store_run(tmp_path, day, {name: time * np.exp(random.normal(0.0, 0.004)) for name, time in TIMES.items()})
    for label in (KERNEL, PEER, BASELINE):
        assert steps(history(tmp_path, label)) == []


def test_another_kernels_step_makes_none_of_this_one(tmp_path):
    for day in range(5):
        store_run(tmp_path, day, {**TIMES, PEER: 4.8 if day < 2 else 6.0})
    assert steps(history(tmp_path)) == []
    assert steps(history(tmp_path, PEER)) == [2]


def test_the_ratio_is_the_kernels_time_over_the_floors(tmp_path):
    store_run(tmp_path, 0)
    (row,) = history(tmp_path).rows
    assert row.ratio.estimate == pytest.approx(1.1, abs=0.005)
    assert row.ratio.low < row.ratio.estimate < row.ratio.high
    assert row.change is None


def test_without_a_floor_the_baseline_is_the_anchor(tmp_path):
    times = {name: time for name, time in TIMES.items() if name != FLOOR}
    for day in range(3):
        store_run(tmp_path, day, times)
    assert history(tmp_path).anchor == BASELINE


def test_without_any_anchor_there_are_times_and_no_steps(tmp_path):
    for day, time in enumerate([4.0, 8.0]):
        store_run(tmp_path, day, {KERNEL: time})
    found = history(tmp_path)
    assert found.anchor == ""
    assert [row.ratio for row in found.rows] == [None, None]
    assert steps(found) == []


def test_a_failed_run_is_a_row_and_the_step_is_found_across_it(tmp_path):
    store_run(tmp_path, 0)
    store_run(tmp_path, 1, broken=(KERNEL,))
    store_run(tmp_path, 2, with_kernel(5.2))
    found = history(tmp_path)
    assert [row.figure.status for row in found.rows] == [Status.OK, Status.CRASHED, Status.OK]
    assert steps(found) == [2]
    assert found.rows[2].since == found.rows[0].run.source.name


def test_a_run_whose_floor_failed_has_a_time_and_no_ratio(tmp_path):
    store_run(tmp_path, 0)
    store_run(tmp_path, 1, broken=(FLOOR,))
    assert history(tmp_path).rows[1].ratio is None


def test_plain_runs_are_compared_with_plain_runs_only(tmp_path):
    for day in range(4):
        store_run(tmp_path, day, with_kernel(4.4 if day % 2 else 5.0), plain=not day % 2)
    found = history(tmp_path)
    assert steps(found) == []
    assert found.rows[2].since == found.rows[0].run.source.name
    assert "method" in found.rows[1].changes


def test_what_changed_is_said(tmp_path):
    store_run(tmp_path, 0, params={KERNEL: {"BV": 8}})
    store_run(tmp_path, 1, card="GPU-22222222-b", sources={KERNEL: "s1"}, params={KERNEL: {"BV": 16}})
    store_run(tmp_path, 2, card="GPU-22222222-b", sources={KERNEL: "s1", FLOOR: "s1"}, params={KERNEL: {"BV": 16}},
              versions={"triton": "3.7.1"})  # fmt: skip
    first, second, third = history(tmp_path).rows
    assert first.changes == {}
    assert set(second.changes) == {"source", "params", "card"}
    assert (second.changes["card"].before, second.changes["card"].after) == ("11111111", "22222222")
    assert (second.changes["params"].before, second.changes["params"].after) == ("BV=8", "BV=16")
    assert set(third.changes) == {"anchor", "triton"}


def test_a_kernel_is_followed_on_the_inputs_where_it_was_timed(command_line, tmp_path):
    """They are not the op's default ones; and its op has a dash in its name, which the baseline's name leaves out."""
    shutil.copytree(RECORDED / "20261127-205907-h100-kda-prefill-composed", tmp_path / "run")
    _, out, _ = command_line("history", "kda-prefill-v7", "--out", tmp_path)
    assert "kda-prefill-v7 h32 bounded lengths=8192 production on h100" in out and "/ v5" in out


def test_a_damaged_run_is_left_out_and_named(tmp_path):
    store_run(tmp_path, 0)
    for day, name in enumerate(["run.json", "measurements.csv", "rounds.csv"], start=1):
        file = store_run(tmp_path, day) / name
        file.write_bytes(file.read_bytes()[:-40])
    odd = store_run(tmp_path, 5) / "rounds.csv"
    odd.write_text(odd.read_text().replace(",nvbench,1,", ",nvbench,first,"))
    for day, time in ((6, "-4.0"), (7, "0"), (8, "inf")):
        file = store_run(tmp_path, day) / "rounds.csv"
        header, first, *lines = file.read_text().splitlines(keepends=True)
        cells, at = first.split(","), header.split(",").index("time_us")
        file.write_text("".join([header, ",".join([*cells[:at], time, *cells[at + 1 :]]), *lines]))
    with pytest.warns(LeftOutWarning) as warned:
        assert len(history(tmp_path).rows) == 1
    assert [str(warning.message)[:8] for warning in warned] == [f"202601{day:02}" for day in (3, 4, 5, 7, 8, 9, 10)]


def test_a_label_is_found_with_its_params_in_any_order(tmp_path):
    store_run(tmp_path, 0, {**TIMES, "decode-x:BV=8:WARPS=4": 4.0})
    runs = load_stored_runs(tmp_path)
    assert choose_label(runs, "decode-x:WARPS=4:BV=8") == "decode-x:BV=8:WARPS=4"
    assert choose_label(runs, KERNEL) == KERNEL


def test_the_gpu_is_that_of_the_latest_run_with_the_kernel(tmp_path):
    store_run(tmp_path, 0, gpu="h200")
    store_run(tmp_path, 1, gpu="b200")
    store_run(tmp_path, 2, {BASELINE: 5.0}, gpu="h100")
    runs = load_stored_runs(tmp_path)
    assert choose_gpu(runs, KERNEL, "") == choose_gpu(runs, KERNEL, "auto") == "b200"
    assert choose_gpu(runs, KERNEL, "H200") == choose_gpu(runs, KERNEL, "NVIDIA H200") == "h200"
    with pytest.raises(UnknownNameError, match="h100") as caught:
        choose_gpu(runs, KERNEL, "h100")
    assert "h200, b200" in caught.value.hint


BEFORE_AN_AXIS = "20261124-172753-h200-layer-heads"


@pytest.fixture
def stepped(tmp_path):
    """Four runs; from the third on the kernel is 8 % slower, of other sources and on another card."""
    for day in range(4):
        late = day >= 2
        store_run(
            tmp_path, day, {**TIMES, KERNEL: 4.4 * (1.08 if late else 1.0)}, commit=str(day) * 40, dirty=day == 1,
            sources={KERNEL: "new" if late else "old"}, card="GPU-22222222-b" if late else "GPU-11111111-a",
        )  # fmt: skip
    return tmp_path


@pytest.fixture
def before_an_axis(tmp_path):
    """A run of `layer` of the time when the op had no axis BETA."""
    shutil.copytree(RECORDED / BEFORE_AN_AXIS, tmp_path / BEFORE_AN_AXIS)
    return tmp_path


@pytest.mark.parametrize("verb", ["history", "list", "explain"])
def test_a_run_of_before_an_axis_was_added_is_at_its_default(command_line, before_an_axis, verb):
    shape = () if verb == "list" else ("--shape", "B=1")
    more = {"explain": ("--profiles", before_an_axis / "none", "--gpu", "h200"), "history": ("--csv",)}.get(verb, ())
    code, out, err = command_line(verb, "layer-v1", *shape, *more, "--out", before_an_axis)
    assert code == 0, err
    assert BEFORE_AN_AXIS[:15] in out
    assert ("6.75979" if verb == "history" else "6.760") in out


def test_a_kernel_that_cannot_do_the_default_suite_is_followed_where_it_was_timed(command_line, tmp_path):
    """verify-v3 cannot do states in fp32, which a run of `results` tells, too."""
    for name in ("20261125-021738-h200-verify-bf16-small", "20261125-032937-h200-verify-last-heads"):
        shutil.copytree(RECORDED / name, tmp_path / name)
    code, out, _ = command_line("history", "verify-v3", "--out", tmp_path)
    assert code == 0
    assert "verify-v3 B=1 T=4 last qk4_v8 bf16 on h200" in out
    assert "fp32" not in out
    assert "--shape B=1 --shape keep=last --shape state=bf16" in flat(out.splitlines()[-1])


def test_a_damaged_run_is_a_warning_that_names_it(command_line, stepped):
    damaged = store_run(stepped, 9)
    (damaged / "run.json").write_text("{")
    code, out, err = command_line("history", KERNEL, "--out", stepped, "--json")
    assert (code, damaged.name in flat(err)) == (0, True)
    assert len(json.loads(out)["histories"][0]["rows"]) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["decode-xy"], "did you mean decode-x"),
        ([KERNEL, "--gpu", "b200"], "there are runs of it on h200"),
        ([KERNEL, "--shape", "B=3"], "there are B=1 qk4_v8"),
        ([KERNEL, "--shape", "3"], "sets no axis"),
        ([KERNEL, "--shape", "heads=wide"], "no heads"),
        ([KERNEL, "--op", "attention"], "there is no op attention"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(command_line, stepped, arguments, told):
    code, out, err = command_line("history", *arguments, "--out", stepped)
    assert code == 2
    assert out == ""
    assert told in flat(err)


def test_a_folder_without_runs_is_an_error(command_line, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, _, err = command_line("history", KERNEL, "--out", folder)
        assert (code, "no runs in" in err, "pages quote" in err) == (2, True, False)
    shutil.copytree(RECORDED / BEFORE_AN_AXIS, tmp_path / "evidence" / BEFORE_AN_AXIS)
    told = f"or read those that pages quote: --out {tmp_path}/evidence"  # wrapped anywhere, where the path is long
    assert "".join(told.split()) in "".join(command_line("show", "h200", "--out", tmp_path)[2].split())
