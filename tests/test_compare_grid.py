"""What is compared: sources as a user names them, rows and columns, what has no partner, and what is refused."""

import json
from dataclasses import replace

import pytest
from committed import RESULTS, results_until
from compare_data import B1, B8, DEFAULT, MAIN, compared, figure, plant, ratios_of, run_of, source, with_params
from decode_workloads import decode_at
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from run_data import case, measured, store

from gdnbench.analyse.figure import WorkloadKeys, differing_parts, workload_value
from gdnbench.analyse.grid import default_rows, entries_of, join
from gdnbench.analyse.runs import load_run
from gdnbench.analyse.sources import load_sources
from gdnbench.catalog.catalog import op_named
from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.declaration import Params
from gdnbench.model.status import Role, Status
from gdnbench.store.samples import write_rounds

KERNELS = {"decode-v4": 4.7, "decode-triton": 4.4}


def test_runs_are_joined_by_label_params_and_workload():
    side = compared(run_of(KERNELS), run_of({**KERNELS, "decode-v9": 4.0}, "other"))
    assert len(side.grid.rows) == 10
    assert {(row.entries[1].figure.label, row.entries[0]) for row in side.grid.alone} == {("decode-v9", None)}


def test_other_params_under_one_label_are_no_partners_unless_wanted():
    left = source(figure(**with_params("decode-v4", WARPS=8)), figure("decode-v1"), name="a")
    right = source(figure(**with_params("decode-v4", WARPS=4)), figure("decode-v1"), name="b")
    assert len(compared(left, right).grid.alone) == 2
    assert len(compared(left, right, rows="shape,label").grid.rows) == 2


def test_a_floor_by_its_bare_name_is_one_case_in_whichever_form_and_the_forms_are_told():
    left, right = (
        source(
            figure(**with_params("decode-floor-copy", ROWS=rows)),
            figure(**with_params("decode-v4", WARPS=8)),
            name=name,
        )
        for rows, name in ((1, "a"), (2, "b"))
    )
    side = compared(left, right)
    assert [row.entries[0].figure.label for row in side.grid.rows] == ["decode-floor-copy", "decode-v4"]
    assert [line for line in side.warnings if "forms" in line] == [
        "forms differ: decode-floor-copy B=1 qk4_v8: ROWS=1 | ROWS=2"
    ]
    assert not [line for line in compared(left, replace(left, name="c")).warnings if "forms" in line]


def test_forms_that_are_named_stay_apart():
    left, right = (
        source(
            *(figure(**with_params(f"decode-floor-copy:ROWS={rows}", ROWS=rows), role=Role.FLOOR) for rows in (1, 2)),
            name=name,
        )
        for name in "ab"
    )
    side = compared(left, right)
    assert len(side.grid.rows) == 2
    assert all(one.figure.params == other.figure.params for one, other in (row.entries for row in side.grid.rows))


def test_without_a_common_case_it_says_what_each_side_has():
    with pytest.raises(UsageError, match="no common case") as raised:
        compared(source(figure("decode-v1"), name="a"), source(figure("decode-v4", workload=B8), name="b"))
    assert "a has decode-v1 at B=1" in raised.value.hint
    assert "b has decode-v4 at B=8" in raised.value.hint


def test_a_case_that_failed_on_both_sides_is_no_common_case():
    broken = figure(status=Status.CRASHED, reason="x")
    with pytest.raises(UsageError, match="no common case"):
        compared(source(broken), source(broken, name="other"))


def test_params_can_vary_across_columns():
    points = [
        replace(figure(f"decode-v4:WARPS={warps}"), kernel="decode-v4", params=Params({"WARPS": warps}))
        for warps in (8, 4)
    ]
    assert compared(source(*points), columns="WARPS").headings == ("WARPS=8", "WARPS=4")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rows": "label,label"}, "different keys"),
        ({"rows": ","}, "different keys"),
        ({"rows": "run,label,B"}, "in --rows and in --cols"),
        ({"filtered": "label"}, "not KEY=GLOB"),
        ({"filtered": "label="}, "not KEY=GLOB"),
        ({"filtered": "B=7"}, "leaves nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, told):
    with pytest.raises(UsageError, match=told):
        compared(run_of(KERNELS), run_of(KERNELS, "other"), **wrong)


def test_a_filter_takes_globs_and_lists_of_every_key():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other"), filtered="kernel=decode-v*,decode-f* B=1,64 op=decode")
    assert [row.entries[0].figure.workload for row in side.grid.rows] == [B1] * 4


def test_a_filter_hides_no_unchanged_cases():
    side = compared(run_of(KERNELS), run_of(KERNELS, "other", launch=0.15), filtered="label=decode-v4")
    assert ratios_of(side)["decode-v4", 1].value == pytest.approx(1.0, abs=0.002)


def test_what_a_dispatcher_picked_is_told_apart_as_other_params_are(tmp_path):
    """Two kernels whose params happen to be alike are no one kernel that became faster."""
    sides = []
    for name, kernel in (("20260101-000000-h200-decode", "decode-v4"), ("20260102-000000-h200-decode", "decode-v6")):
        folder = tmp_path / name
        folder.mkdir()
        rows = [measured(case("decode-auto", kernel=kernel, WARPS=8)), measured(case("decode-v1"))]
        store(folder, rows, run_id=name)
        write_rounds(folder, [])
        sides.append(load_run(folder))
    side = compared(*sides)
    assert [row.entries[0].figure.label for row in side.grid.rows] == ["decode-v1"]
    assert {str(row.entries[0 if row.entries[0] else 1].figure.params) for row in side.grid.alone} == {
        "KERNEL=decode-v4 WARPS=8",
        "KERNEL=decode-v6 WARPS=8",
    }
    joined = compared(*sides, rows="shape,label")
    assert {row.entries[0].figure.label for row in joined.grid.rows} == {"decode-auto", "decode-v1"}


CASES = st.sets(st.tuples(st.sampled_from(["decode-a", "decode-b", "decode-c"]), st.sampled_from([B1, B8])))


@given(st.lists(CASES, min_size=2, max_size=4), st.sampled_from([("run",), ("label",), ("B",), ("label", "shape")]))
@settings(max_examples=60, deadline=None)
def test_every_figure_stands_once_in_its_own_row_and_column(runs, columns):
    sources = [
        source(*(figure(label, workload=workload) for label, workload in sorted(cases)), name=f"run-{index}")
        for index, cases in enumerate(runs)
    ]
    entries = entries_of(sources)
    rows = default_rows(columns, entries)
    try:
        grid = join(entries, rows, columns)
    except UsageError:
        assume(False)
    placed = [
        (entry, row, column)
        for row in (*grid.rows, *grid.alone)
        for entry, column in zip(row.entries, grid.columns, strict=True)
        if entry
    ]
    assert sorted(id(entry) for entry, *_ in placed) == sorted(map(id, entries))
    for entry, row, column in placed:
        assert tuple(entry.value(key) for key in rows) == row.names
        assert tuple(entry.value(key) for key in columns) == column
    assert all(row.entries[0] and any(row.entries[1:]) for row in grid.rows)
    assert not any(row.entries[0] and any(row.entries[1:]) for row in grid.alone)


AXES = op_named("decode").workloads
KEYS = WorkloadKeys((AXES,))
WORKLOADS = st.builds(
    lambda batch, heads, group, key, value: decode_at(B=batch, HQ=heads, HV=heads * group, K=key, V=value),
    *(st.integers(1, 512) for _ in range(5)),
)


@given(WORKLOADS, WORKLOADS)
def test_two_workloads_differ_in_some_part_unless_they_are_one(one, other):
    left, right = differing_parts(one, other)
    assert (left == right) is (one == other)
    assert len(left.split()) == len(right.split())
    assert differing_parts(other, one) == (right, left)


@given(WORKLOADS, WORKLOADS)
def test_the_parts_of_a_workload_say_as_much_as_the_workload(one, other):
    alike = all(workload_value(one, key) == workload_value(other, key) for key in KEYS.parts)
    assert alike is (one == other)


def test_what_a_key_fixes_is_a_key_too():
    for key in KEYS.names:
        assert key in KEYS.fixed_by(key)
        assert set(KEYS.fixed_by(key)) <= set(KEYS.names)
    assert KEYS.fixed_by("label") == ()


def load_source(text, results):
    (source,) = load_sources([text], results)
    return source


@pytest.fixture
def copy(tmp_path):
    return plant(tmp_path / "copy", "decode-v4", 1.0, DEFAULT[0])


@pytest.mark.parametrize(
    "text", [MAIN, MAIN[:15], RESULTS / MAIN, RESULTS / MAIN / "run.json"], ids=["id", "start", "folder", "file"]
)
def test_a_run_by_id_start_and_folder(text):
    assert load_source(str(text), RESULTS).name == MAIN


def test_a_gpu_stands_for_its_latest_run_that_compared_kernels():
    newest = max(path.name for path in RESULTS.glob("2*-h200-*"))
    assert "sweep" not in newest
    assert load_source("h200", RESULTS).name == newest


def test_beside_another_source_it_is_the_latest_that_timed_what_the_other_did(tmp_path):
    results = results_until("20261124-181759-h200-verify-heads", tmp_path)
    one, _ = load_sources(["h200", "published/b200"], results)
    assert one.name == "20261124-172450-h200-decode-round-trip"
    swept, one = load_sources(["sweep-batches", "h200"], results)
    assert swept.name == "20261121-182329-h200-decode-sweep-batches"
    assert one.name == "20261124-173739-h200-decode-try-10"


def test_a_run_of_before_an_axis_was_added_is_at_its_default():
    """`layer` has had its axis BETA only since the first of them."""
    before, after = load_sources(["20261124-172753", "20261125-094047"], RESULTS)
    assert {figure.workload for figure in before.figures} <= {figure.workload for figure in after.figures}
    assert before.noise.keys() <= after.noise.keys()
    assert {figure.workload.BETA for figure in before.figures} == {1}


@pytest.mark.parametrize("text", ["", "nothing.csv", "no/such", "published/none"])
def test_what_is_not_there_is_told(text):
    with pytest.raises(UsageError) as raised:
        load_source(text, RESULTS)
    assert raised.value.hint


def test_a_copy_of_a_run_bears_the_name_it_was_given(copy):
    assert [source.name for source in load_sources([DEFAULT[0], str(copy)], RESULTS)] == [DEFAULT[0], str(copy)]


def test_a_run_that_was_stopped_says_so(copy):
    document = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**document, "complete": False}))
    assert "stopped before its end" in load_source(str(copy), RESULTS).warnings[-1]


@pytest.mark.parametrize(
    ("name", "damaged", "told"),
    [
        ("measurements.csv", lambda text: "".join(text.splitlines(keepends=True)[:6]), "cut off"),
        ("rounds.csv", lambda text: text[:4000], "cut off"),
        ("rounds.csv", lambda text: text.replace("time_us", "time_ns", 1), "lacks the column time_us"),
        ("rounds.csv", lambda text: text.replace("nvbench,2,", "nvbench,two,", 1), "line 3, round: Expected `int`"),
        ("run.json", lambda text: json.dumps({**json.loads(text), "schema": 9}), "schema version 9"),
    ],
)
def test_a_damaged_run_is_told(copy, name, damaged, told):
    (copy / name).write_text(damaged((copy / name).read_text()))
    with pytest.raises(RunFormatError, match=told) as raised:
        load_source(str(copy), RESULTS)
    assert raised.value.hint


def test_a_run_without_its_rounds_is_told(copy):
    (copy / "rounds.csv").unlink()
    with pytest.raises(RunFormatError, match=r"rounds\.csv is missing"):
        load_source(str(copy), RESULTS)
