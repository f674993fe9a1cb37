"""Names of files and ranges, there and back."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gdnbench.errors import ExitCode, MachineError, ReportFormatError
from gdnbench.model import Case, Params, Shape, Variant
from gdnbench.profilers.place import find_stored, folder_of, stem_of
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
    assert find_stored(tmp_path, "ncu", label, shape, suffix=".csv") == (path,)
    assert find_stored(tmp_path, "ncu", label, shape, suffix=".csv", gpu="rtx3090") == (path,)
    assert find_stored(tmp_path, "proton", label, shape, suffix=".csv") == ()
    for other in SHAPES:
        if other != shape:
            assert find_stored(tmp_path, "ncu", label, other, suffix=".csv") == ()


def test_what_was_stored_last_is_found_first(tmp_path):
    folder = tmp_path / "ncu" / "decode-triton_BV=16"
    folder.mkdir(parents=True)
    for stem in (
        "20261121-100000-h200-B1-qk4_v8",
        "20261121-110000-h200-B1-qk4_v8",
        "20261121-120000-b200-B1-qk4_v8",
        "20261121-130000-h200-B16-qk4_v8",
        "20261121-140000-h200-B1-qk4_v8-K64-V64",
        "notes",
    ):
        (folder / f"{stem}.csv").touch()
    (folder / "20261121-150000-h200-B1-qk4_v8.ncu-rep").touch()  # whose metrics were never stored

    def found(shape, gpu=None, label="decode-triton:BV=16"):
        return [path.name[9:13] for path in find_stored(tmp_path, "ncu", label, shape, suffix=".csv", gpu=gpu)]

    assert found(Shape()) == ["1200", "1100", "1000"]
    assert found(Shape(), "h200") == ["1100", "1000"]
    assert found(Shape(B=16)) == ["1300"]
    assert found(Shape(K=64, V=64)) == ["1400"]
    assert found(Shape(), "rtx3090") == found(Shape(B=2)) == found(Shape(), label="decode-triton") == []


def test_a_folder_that_is_a_file_or_may_not_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "ncu").mkdir()
    (tmp_path / "ncu" / "decode-v4").touch()
    with pytest.raises(ReportFormatError, match="decode-v4 cannot be read: Not a directory"):
        find_stored(tmp_path, "ncu", "decode-v4", Shape(), suffix=".csv")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ReportFormatError, match="decode-v1 cannot be read: Permission denied") as caught:
        find_stored(tmp_path, "ncu", "decode-v1", Shape(), suffix=".csv")
    assert "--profiles" in caught.value.hint


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "ncu").touch()
    with pytest.raises(MachineError) as caught:
        folder_of(tmp_path, "ncu", "decode-v4")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--profiles" in caught.value.hint


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_a_ranges_name_is_read_back(label, shape):
    assert parse_name(name_of("decode", _case(label, shape))) == ("decode", label, shape, "")
    source = "0123456789abcdef"
    assert parse_name(name_of("decode", _case(label, shape), source)) == ("decode", label, shape, source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "profiled",
        "decode v4 B=1",
        "decode v4 B=0 qk4_v8",
        "decode v4 B=1 qk3_v8",
        "a",
        f"decode v4 B={'9' * 5000} qk4_v8",
        "decode v4 B=1 qk4_v8 source=0123",
        "decode v4 B=1 qk4_v8 source=0123456789ABCDEF",
    ],
)
def test_ranges_of_others(text):
    assert parse_name(text) is None
