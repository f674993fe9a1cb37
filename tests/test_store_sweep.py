"""`sweep.json`: written whole, read whole or refused."""

import json
import math
from dataclasses import replace

import pytest
from run_data import info
from sweep_data import JOINT, label_of

from gdnbench.errors import RunFormatError
from gdnbench.store.info import write_info
from gdnbench.store.tables import SWEEP_NAME, read_sweep, write_sweep


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
