"""`gdnbench history` as a user meets it."""

import json
import shutil

import pytest
from committed import RESULTS as RECORDED
from history_data import KERNEL, TIMES, store_run

BEFORE_AN_AXIS = "20261124-172753-h200-layer-heads"


@pytest.fixture
def run(command_line):
    return command_line


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


def flat(text):
    return " ".join(text.split())


@pytest.fixture
def before_an_axis(tmp_path):
    """A run of `layer` of the time when the op had no axis BETA."""
    shutil.copytree(RECORDED / BEFORE_AN_AXIS, tmp_path / BEFORE_AN_AXIS)
    return tmp_path


@pytest.mark.parametrize("verb", ["history", "list", "explain"])
def test_a_run_of_before_an_axis_was_added_is_at_its_default(run, before_an_axis, verb):
    shape = () if verb == "list" else ("--shape", "B=1")
    more = {"explain": ("--profiles", before_an_axis / "none", "--gpu", "h200"), "history": ("--csv",)}.get(verb, ())
    code, out, err = run(verb, "layer-v1", *shape, *more, "--out", before_an_axis)
    assert code == 0, err
    assert BEFORE_AN_AXIS[:15] in out
    assert ("6.75979" if verb == "history" else "6.760") in out


def test_a_kernel_that_cannot_do_the_default_suite_is_followed_where_it_was_timed(run, tmp_path):
    """verify-v3 cannot do states in fp32, which a run of `results` tells, too."""
    for name in ("20261125-021738-h200-verify-bf16-small", "20261125-032937-h200-verify-last-heads"):
        shutil.copytree(RECORDED / name, tmp_path / name)
    code, out, _ = run("history", "verify-v3", "--out", tmp_path)
    assert code == 0
    assert "verify-v3 B=1 T=4 last qk4_v8 bf16 on h200" in out
    assert "fp32" not in out
    assert "--shape B=1 --shape keep=last --shape state=bf16" in flat(out.splitlines()[-1])


def test_a_damaged_run_is_a_warning_that_names_it(run, stepped):
    damaged = store_run(stepped, 9)
    (damaged / "run.json").write_text("{")
    code, out, err = run("history", KERNEL, "--out", stepped, "--json")
    assert code == 0
    assert damaged.name in flat(err)
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
def test_what_cannot_be_is_refused_with_what_can(run, stepped, arguments, told):
    code, out, err = run("history", *arguments, "--out", stepped)
    assert code == 2
    assert out == ""
    assert told in flat(err)


def test_a_folder_without_runs_is_an_error(run, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, _, err = run("history", KERNEL, "--out", folder)
        assert code == 2
        assert "no runs in" in err
