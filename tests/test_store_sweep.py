"""`builds.csv` and `sweep.json`: written whole, read whole or refused."""

import csv
import json
import math
from dataclasses import replace

import pytest
from run_data import info
from sweep_data import JOINT, label_of

from gdnbench.errors import RunFormatError
from gdnbench.store.info import write_info
from gdnbench.store.tables import SWEEP_NAME, BuildRow, read_builds, read_sweep, write_builds, write_sweep


@pytest.fixture
def folder(tmp_path):
    write_info(tmp_path, info())
    write_sweep(tmp_path, JOINT)
    return tmp_path


def test_what_is_written_is_read(folder):
    assert any(math.isinf(each.slower_hi) for each in JOINT.points)
    assert read_sweep(folder) == JOINT


def changed(**fields):
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def without(field):
    def harm(path):
        document = json.loads(path.read_text())
        del document[field]
        path.write_text(json.dumps(document))

    return harm


def first_point(**fields):
    def harm(path):
        document = json.loads(path.read_text())
        document["points"][0] |= fields
        path.write_text(json.dumps(document))

    return harm


DAMAGES = {
    "empty": lambda path: path.write_text(""),
    "cut": lambda path: path.write_text(path.read_text()[:-100]),
    "a list": lambda path: path.write_text("[]"),
    "a number": lambda path: path.write_text("1"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "no points": without("points"),
    "no plateaus": without("plateaus"),
    "no axes": without("axes"),
    "no schema": without("schema"),
    "points of nothing": changed(points=None),
    "a point too short": changed(points=[{}]),
    "an unknown place": first_point(place="third"),
    "an unknown field": first_point(colour="red"),
    "an impossible shape": first_point(shape={"B": 0}),
    "an axis that is none": first_point(shape={"Q": 1}),
    "another schema": changed(schema=99),
    "a plateau of no point": changed(points=[]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_with_a_hint(folder, damage):
    path = folder / SWEEP_NAME
    DAMAGES[damage](path)
    with pytest.raises(RunFormatError, match=r"sweep\.json") as caught:
        read_sweep(folder)
    assert caught.value.hint


@pytest.mark.parametrize("field", ["best", "simplest", "tied", "unclear"])
def test_a_plateau_without_its_points_is_refused(field):
    small, large = JOINT.plateaus
    elsewhere = label_of({"BV": 8, "WARPS": 4})  # a point of the small workload only
    lame = replace(large, **{field: (elsewhere,) if field in {"tied", "unclear"} else elsewhere})
    with pytest.raises(ValueError, match="B=64"):
        replace(JOINT, plateaus=(small, lame))


MADE = BuildRow(
    kernel="decode-v4", label="decode-v4b", language="cuda", series="qk4_v8", arch="sm_90", registers=32,
    shared_bytes=0, spill_bytes=0, load_bits=128, code_bytes=4096, interpreter="passed",
)  # fmt: skip
FAILED = BuildRow(
    kernel="decode-x", label="decode-x", language="cuda", series="qk4_v8", arch="sm_100", status="build-failed",
    reason="kernel.cu(3): error: identifier \"x\", undefined\n  y = x;",
)  # fmt: skip


def test_builds_come_back(tmp_path):
    write_builds(tmp_path, [MADE, FAILED])
    assert read_builds(tmp_path) == [MADE, FAILED]


def test_a_compiler_may_say_more_than_python_takes_for_a_cell(tmp_path):
    said = replace(FAILED, reason="error: much\n" * 40_000)
    write_builds(tmp_path, [MADE, said, MADE])
    assert read_builds(tmp_path) == [MADE, said, MADE]
    assert csv.field_size_limit() == 131_072, "other readers keep their limit"


def test_why_products_are_serialized_comes_back_and_older_files_do_not_tell(tmp_path):
    told = replace(MADE, serialized_because="insufficient register resources, say")
    write_builds(tmp_path, [told])
    assert read_builds(tmp_path) == [told]
    path = tmp_path / "builds.csv"
    header, row = path.read_text().splitlines()
    assert header.endswith(",interpreter,serialized_because")
    path.write_text(header.rpartition(",")[0] + "\n" + row.partition(',"insufficient')[0] + "\n")
    assert read_builds(tmp_path) == [MADE]


@pytest.mark.parametrize("damage", [
    ("4096", "big"), ("4096", ""), (",spill_bytes", ""), ("qk4_v8", "a,b,c,d"), ("label", "kernel"),
    ("decode-x,decode-x", "decode-x"), ("decode-v4b", '"decode-v4b'), ("decode-v4b", "decode\xff"),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, damage):
    write_builds(tmp_path, [MADE, FAILED])
    path = tmp_path / "builds.csv"
    path.write_bytes(path.read_text().replace(*damage, 1).encode("latin-1"))
    with pytest.raises(RunFormatError, match=r"builds.csv") as caught:
        read_builds(tmp_path)
    assert caught.value.hint
