"""Where profiles lie: what was written is found again, the newest first."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from decode_workloads import decode_at

from gdnbench.errors import ExitCode, MachineError, ReportFormatError
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.profile.files import find_files, make_folder, profile_name

WORKLOADS = [decode_at(), decode_at(B=256, HQ=16, HV=32), decode_at(B=3, K=64, V=256)]
NOW = datetime(2026, 11, 21, 20, 30, tzinfo=UTC)


def _case(label, workload):
    return Case(Variant("decode-triton", label, params=Params({})), workload)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("label", ["decode-v4", "decode-triton:BV=16:WARPS=4"])
def test_what_was_written_is_found(tmp_path, label, workload):
    folder = make_folder(tmp_path, "ncu", label)
    assert ":" not in folder.name
    path = folder / f"{profile_name(_case(label, workload), 'rtx3090', NOW)}.csv"
    path.touch()
    assert find_files(tmp_path, "ncu", label, workload, suffix=".csv") == (path,)
    assert find_files(tmp_path, "ncu", label, workload, suffix=".csv", gpu="rtx3090") == (path,)
    assert find_files(tmp_path, "proton", label, workload, suffix=".csv") == ()
    for other in WORKLOADS:
        if other != workload:
            assert find_files(tmp_path, "ncu", label, other, suffix=".csv") == ()


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

    def found(workload, gpu=None, label="decode-triton:BV=16"):
        return [path.name[9:13] for path in find_files(tmp_path, "ncu", label, workload, suffix=".csv", gpu=gpu)]

    assert found(decode_at()) == ["1200", "1100", "1000"]
    assert found(decode_at(), "h200") == ["1100", "1000"]
    assert found(decode_at(B=16)) == ["1300"]
    assert found(decode_at(K=64, V=64)) == ["1400"]
    assert found(decode_at(), "rtx3090") == found(decode_at(B=2)) == found(decode_at(), label="decode-triton") == []


def test_a_folder_that_is_a_file_or_may_not_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "ncu").mkdir()
    (tmp_path / "ncu" / "decode-v4").touch()
    with pytest.raises(ReportFormatError, match="decode-v4 cannot be read: Not a directory"):
        find_files(tmp_path, "ncu", "decode-v4", decode_at(), suffix=".csv")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ReportFormatError, match="decode-v1 cannot be read: Permission denied") as caught:
        find_files(tmp_path, "ncu", "decode-v1", decode_at(), suffix=".csv")
    assert "--profiles" in caught.value.hint


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "ncu").touch()
    with pytest.raises(MachineError) as caught:
        make_folder(tmp_path, "ncu", "decode-v4")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--profiles" in caught.value.hint
