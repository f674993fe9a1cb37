"""Parts of a run, and the one run that is made of them, on a simulated GPU."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from faults import answer
from simulated_workers import GPU, install

from gdnbench.analyse.merge import merge_parts
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import make_request
from gdnbench.errors import UsageError
from gdnbench.measure.plan import make_plan, make_sweep_request
from gdnbench.measure.start import begin_session
from gdnbench.model.case import Part, parse_part
from gdnbench.model.gpu import Gpu
from gdnbench.process.events import ignore
from gdnbench.store.find import list_runs
from gdnbench.store.info import info_document, read_info, suite_of
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.settings import Settings
from gdnbench.store.tables import read_builds, read_sweep

CATALOG = load_catalog(default_roots()[:1])
KERNELS = "decode-v1,decode-v4"
SETTINGS = Settings(rounds=9, samples=100, processes=3, clocks=("cupti",), seed=7)
SWEEP = Settings(rounds=7, samples=64, budget_s=600.0, seed=7)
OTHER = Gpu(1, GPU.name, "GPU-b2000000-0000-0000-0000-000000000001", GPU.capability, GPU.sms, GPU.memory_bytes)


@pytest.fixture(scope="module", autouse=True)
def simulated():
    with pytest.MonkeyPatch.context() as patch:
        install(patch.setattr)
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run, and a folder with its three parts."""
    folder = tmp_path_factory.mktemp("measured")
    parts_of(folder / "parts", 3)
    return measure(folder / "whole"), folder / "parts"


@pytest.fixture
def parts(measured, tmp_path):
    """The parts, in the test's own folder."""
    shutil.copytree(measured[1], tmp_path, dirs_exist_ok=True)
    return list_runs(tmp_path)


def measure(results, part=None, gpu=GPU, settings=SETTINGS, **more):
    axes = {} if "suite" in more else {"axes": "B=1,2,8,64,3"}
    request = make_request(
        CATALOG, "decode", KERNELS, baseline="decode-v1", settings=settings, part=part, **{"axes": "", **axes, **more}
    )
    return begin_session(CATALOG, make_plan(CATALOG, request, gpu), results, ignore).run().path


def sweep(results, part=None):
    request = make_sweep_request(
        CATALOG, "decode", ["decode-v4"], ["WARPS"], axes="B=1,2,8,64,3", settings=SWEEP, gpu=GPU, label="sweep",
        part=part,
    )  # fmt: skip
    return begin_session(CATALOG, make_plan(CATALOG, request, GPU), results, ignore).run().path


def parts_of(results, count, take=measure, **more):
    return [take(results, Part(number, count), **more) for number in range(1, count + 1)]


def cells(path):
    """The rows without what names the run, numbers to five digits: tables keep six, and ratios are made of them."""
    frame = pd.read_csv(path / "measurements.csv").drop(columns=["run_id", "timestamp"])
    return frame.map(lambda cell: float(f"{cell:.4g}") if isinstance(cell, float) else cell)


def test_a_run_of_its_parts_is_the_run_that_was_measured_as_one(tmp_path, parts, measured):
    whole, _ = measured
    assert [name.name.rpartition("-")[2] for name in parts] == ["part1of3", "part2of3", "part3of3"]
    merged = merge_parts(CATALOG, parts, tmp_path)
    pd.testing.assert_frame_equal(cells(merged), cells(whole), check_exact=False, rtol=1e-3)
    assert list(cells(merged)["verdict"].dropna()) == list(cells(whole)["verdict"].dropna())
    assert list_runs(tmp_path) == [merged]
    rounds = [
        pd.read_csv(each / "rounds.csv")
        .drop(columns="run_id")
        .sort_values(["timer", "case", "round"], ignore_index=True)
        for each in (merged, whole)
    ]
    pd.testing.assert_frame_equal(*rounds)
    for name in ("samples.parquet", "samples-cupti.parquet"):
        by_case = [pd.read_parquet(each / name).astype({"case": str}) for each in (merged, whole)]
        first, second = (each.sort_values(["case", "round", "time_us"], ignore_index=True) for each in by_case)
        pd.testing.assert_frame_equal(first, second)
    assert read_builds(merged) == read_builds(whole)


def test_its_description_is_that_of_a_whole_run_and_names_the_parts(tmp_path, parts, measured):
    whole = read_info(measured[0])
    assert [read_info(part).part for part in parts] == [{"number": number, "of": 3} for number in (1, 2, 3)]
    info = read_info(merge_parts(CATALOG, parts, tmp_path))
    assert info.part is None
    assert [each["run_id"] for each in info.merged] == [part.name for part in parts]
    assert (info.cases, info.sources, info.settings) == (whole.cases, whole.sources, whole.settings)
    assert info.machine["gpu"]["uuid"] == GPU.uuid
    assert info.warnings == whole.warnings
    assert "merged" not in info_document(whole)
    assert "part" not in json.loads((measured[0] / "run.json").read_text())


def test_facts_in_which_the_parts_differ_are_told_of_each_part_alone(tmp_path):
    parts = [
        measure(tmp_path, Part(1, 2)),
        measure(tmp_path, Part(2, 2), gpu=OTHER, settings=replace(SETTINGS, seed=8)),
    ]
    info = read_info(merge_parts(CATALOG, parts, tmp_path))
    assert "uuid" not in info.machine["gpu"]
    assert info.machine["gpu"]["name"] == GPU.name
    assert [each["machine"]["gpu"]["uuid"] for each in info.merged] == [GPU.uuid, OTHER.uuid]
    assert [each["seed"] for each in info.merged] == [7, 8]
    assert "measured in 2 parts on 2 cards: times of two workloads may be of two cards" in info.warnings


def test_a_suite_is_summed_up_when_it_is_whole(tmp_path, capsys):
    parts = parts_of(tmp_path, 2, suite="contest")
    assert suite_of(read_info(parts[0])) is None
    shown = answer("show", str(parts[0]), folder=tmp_path)
    assert "part 1 of 2" in shown.out
    assert "suite contest" not in shown.out
    done = answer("runs", "merge", "part1of2", "part2of2", "--out", str(tmp_path), folder=tmp_path)
    assert done.code == 0, done.err
    assert "suite contest" in done.out


def test_parts_of_a_sweep_become_the_sweep(tmp_path):
    whole = read_sweep(sweep(tmp_path / "whole"))
    merged = read_sweep(merge_parts(CATALOG, parts_of(tmp_path, 4, take=sweep), tmp_path))
    assert merged.axes == whole.axes
    assert [(each.kernel, each.workload) for each in merged.plateaus] == [
        (each.kernel, each.workload) for each in whole.plateaus
    ]
    found, expected = ({(point.label, point.workload): point for point in each.points} for each in (merged, whole))
    assert found.keys() == expected.keys()
    for key, point in found.items():
        assert point.place == expected[key].place, key
        assert point.slower_by == pytest.approx(expected[key].slower_by, abs=0.004), key
    assert [each.label for each in merged.one_for_all] == [each.label for each in whole.one_for_all]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda parts, _: parts.pop(), "part 3 of 3 is missing"),
        (lambda parts, _: parts.append(parts[0]), "part 1 of 3 is named twice"),
        (lambda parts, _: change(parts[1], complete=False), "is not complete"),
        (lambda parts, _: change(parts[1], op_hash="other"), "differ in the definition of the op"),
        (lambda parts, _: change(parts[1], part={"number": 2, "of": 4}), "differ in the number of parts"),
        (lambda parts, _: change(parts[1], sources={"decode-v4": "other"}), "differ in the code of decode-v4"),
        (lambda parts, _: change(parts[1], settings={"samples": 3}), "differ in the setting samples"),
        (lambda parts, _: change(parts[1], part={"number": 3, "of": 3}), "named twice"),
        (lambda parts, _: copy_as(parts, 2), "is in two parts"),
        (lambda parts, measured: parts.append(measured[0]), "is not a part of a run"),
    ],
)
def test_what_is_no_whole_run_is_refused_and_every_part_stays(tmp_path, parts, measured, harm, told):
    harm(parts, measured)
    there = set(list_runs(tmp_path))
    with pytest.raises(UsageError) as raised:
        merge_parts(CATALOG, parts, tmp_path)
    assert told in raised.value.message
    assert set(list_runs(tmp_path, stopped=True)) == there


def change(folder, **fields):
    path = folder / "run.json"
    document = json.loads(path.read_text())
    fields = {name: {**document[name], **value} if isinstance(value, dict) else value for name, value in fields.items()}
    path.write_text(json.dumps(document | fields))


def copy_as(parts, number):
    """The first part once more, in the place of another."""
    shutil.rmtree(parts[number - 1])
    shutil.copytree(parts[0], parts[number - 1])
    change(parts[number - 1], part={"number": number, "of": 3})


def test_workloads_are_assigned_round_robin():
    assert [Part(number, 3).take("abcdefg") for number in (1, 2, 3)] == [tuple("adg"), tuple("be"), tuple("cf")]
    with pytest.raises(UsageError, match="--part 3/4: there is nothing left for it of 2 workloads"):
        Part(3, 4).take("ab")


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "2/0", "a/b", "-1/4", "2/4/8", " 2/4"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(UsageError, match="there is no such part"):
        parse_part(text)


def test_the_verdicts_of_a_clock_are_corrected_for_all_of_its_comparisons(tmp_path, parts):
    alone = {row.case.id: row for part in parts for row in read_by_clock(part)[None]}
    merged = {row.case.id: row for row in read_by_clock(merge_parts(CATALOG, parts, tmp_path))[None]}
    judged = [id_ for id_, row in alone.items() if row.versus and row.role.value == "kernel"]
    assert len(judged) == 5
    half = [[row.versus.high - row.versus.low for row in (rows[id_] for id_ in judged)] for rows in (alone, merged)]
    wider = [together / by_itself for by_itself, together in zip(*half, strict=True)]
    assert min(wider) > 0.999  # Holm's correction leaves the last of a family as it is
    assert sum(each > 1.05 for each in wider) >= 3
