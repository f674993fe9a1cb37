import csv
from dataclasses import replace

import pytest

from gdnbench.errors import RunFormatError
from gdnbench.store.tables import BuildRow, read_builds, write_builds

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
