"""Names of files and ranges, there and back."""

from datetime import UTC, datetime

import pytest

from gdnbench.errors import ExitCode, MachineError
from gdnbench.model import Case, Params, Shape, Variant
from gdnbench.profilers.place import folder_of, latest_of, stem_of
from gdnbench.profilers.ranges import name_of, parse_name

SHAPES = [Shape(), Shape(B=256, HQ=16, HV=32), Shape(B=3, K=64, V=256)]
NOW = datetime(2026, 11, 21, 20, 30, tzinfo=UTC)


def _case(label, shape):
    return Case(Variant("decode-triton", label, params=Params({})), shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_what_was_written_is_found(tmp_path, label, shape):
    folder = folder_of(tmp_path, "ncu", label)
    assert ":" not in folder.name
    path = folder / f"{stem_of(_case(label, shape), 'rtx3090', NOW)}.csv"
    path.touch()
    assert latest_of(tmp_path, "ncu", label, shape, suffix=".csv") == path
    assert latest_of(tmp_path, "ncu", label, shape, suffix=".csv", gpu="rtx3090") == path
    assert latest_of(tmp_path, "proton", label, shape, suffix=".csv") is None
    for other in SHAPES:
        if other != shape:
            assert latest_of(tmp_path, "ncu", label, other, suffix=".csv") is None


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "ncu").touch()
    with pytest.raises(MachineError) as caught:
        folder_of(tmp_path, "ncu", "decode-v4")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--profiles" in caught.value.hint


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_a_ranges_name_is_read_back(label, shape):
    assert parse_name(name_of("decode", _case(label, shape))) == ("decode", label, shape)


@pytest.mark.parametrize("text", ["", "profiled", "decode v4 B=1", "decode v4 B=0 qk4_v8", "decode v4 B=1 qk3_v8", "a"])
def test_ranges_of_others(text):
    assert parse_name(text) is None
