"""Files of stamps: what was written is read, and what cannot be is refused with the field or array that is wrong."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from stamps_data import about, stamps

from gdnbench.errors import ExitCode, ProfilerError, ReportFormatError
from gdnbench.profile.stamps import read_stamps


def test_stamps_survive_the_file(tmp_path):
    made = stamps(launches=3, warps=5)
    made.write(tmp_path / "a.npz")
    again = read_stamps(tmp_path / "a.npz")
    assert again.about == made.about
    assert (again.records == made.records).all()
    assert (again.stamped_us == made.stamped_us).all()
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-200]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("phase,share\n"),
        lambda path: np.savez(path, records=np.zeros(3)),
        lambda path: np.savez(path, about=np.array("{}"), records=np.zeros(3), plain_us=np.zeros(1), stamped_us=0),
    ],
)
def test_a_file_that_holds_no_stamps_is_refused(tmp_path, spoil):
    path = tmp_path / "a.npz"
    stamps(launches=3, warps=5).write(path)
    spoil(path)
    with pytest.raises(ReportFormatError, match=r"a\.npz(:| holds no stamps)"):
        read_stamps(path)


def test_records_that_do_not_fit_the_phases_are_refused(tmp_path):
    replace(stamps(launches=3, warps=5), about=about(phases=("load", "store"))).write(tmp_path / "a.npz")
    with pytest.raises(ReportFormatError, match="for 2 phases"):
        read_stamps(tmp_path / "a.npz")


def test_a_file_of_no_launch_is_refused(tmp_path):
    made = stamps(launches=3, warps=5)
    replace(made, records=made.records[:0]).write(tmp_path / "a.npz")
    with pytest.raises(ProfilerError, match="no launch"):
        read_stamps(tmp_path / "a.npz")


def _rewrite(path, fields=None, without=(), **arrays):
    """Writes the stamps of a file again, with other fields of `about` or other arrays."""
    with np.load(path) as stored:
        kept = dict(stored)
    document = json.loads(str(kept["about"]))
    told = {name: value for name, value in {**document, **(fields or {})}.items() if name not in without}
    np.savez(path, **{**kept, "about": np.array(json.dumps(told)), **arrays})


ABOUT = about(source="0123456789abcdef")


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "a.npz"
    stamps(launches=3, warps=5, about_=ABOUT).write(path)
    return path


def test_a_file_of_before_there_was_a_source_is_read(stored):
    assert read_stamps(stored).about == ABOUT
    _rewrite(stored, without=("source",))
    assert read_stamps(stored).about == about()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label", ["decode-v4"]),
        ("label", "decode-\x1b[2Jv4"),
        ("shape", {"B": 0, "HQ": 4, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 4, "HV": 8, "K": 128}),
        ("shape", {"B": 1, "HQ": 3, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 4, "HV": 8, "K": 128, "V": 128, "W": 1}),
        ("phases", ["load", "update", 3]),
        ("asked", -1),
        ("stamped_spill_bytes", True),
        ("source", "no hash"),
        ("schema", 2),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_named(stored, field, value):
    _rewrite(stored, fields={field: value})
    named = "HQ" if field == "shape" and isinstance(value, dict) and value["HQ"] == 3 else field
    with pytest.raises(ReportFormatError, match=rf"a\.npz holds no stamps: .*{named}"):
        read_stamps(stored)


@pytest.mark.parametrize(
    "array",
    [
        {"plain_us": np.array([1e300])},
        {"plain_us": np.array(["4.0"])},
        {"plain_us": np.array([4.0], dtype=object)},  # which is pickled
        {"stamped_us": np.array([4.0, np.nan])},
        {"records": np.zeros((3, 5, 7), dtype=np.int64)},
        {"records": np.zeros((3, 5, 8), dtype=np.uint32)},
        {"about": np.array(["{}"])},
        {"about": np.array({"op": "decode"}, dtype=object)},
        {"about": np.array('{"schema": 1, "more": ' + "[" * 100_000 + "]" * 100_000 + "}")},
        {"about": np.array('"\ud800"')},
    ],
)
def test_an_array_that_cannot_be_what_it_is_is_refused(stored, array):
    _rewrite(stored, **array)
    with pytest.raises(ReportFormatError, match=r"a\.npz holds no stamps: ") as caught:
        read_stamps(stored)
    assert caught.value.exit_code is ExitCode.PROFILER


def _with_member(path, name, content, **told):
    """Puts a member in the place of another, as it is."""
    with zipfile.ZipFile(path) as archive:
        kept = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in {**kept, name: content}.items():
            archive.writestr(each, data, **told)


def _header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<u4', 'fortran_order': False, 'shape': (1000000, 1000000, 7), }",  # 28 terabytes
        "{'descr': '<u4', 'fortran_order': False, 'shape': (99999999999999999999, 1, 7), }",
        "{'descr': '<u4', 'fortran_order': False, 'shape': (-1, -2, 7), }",
        "{'descr': '<u4', 'fortran_order': False, 'shape': 7, }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': 'no type', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<u4'}",
        "(" * 5000,
        "-" * 9000 + "1",
        "",
    ],
)
def test_a_header_that_promises_what_is_not_there_is_not_believed(stored, header):
    _with_member(stored, "records.npy", _header(header) + bytes(56))
    with pytest.raises(ReportFormatError, match="records"):
        read_stamps(stored)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00\x00\x00", b"no array"])
def test_a_member_that_is_no_array_is_refused(stored, content):
    _with_member(stored, "plain_us.npy", content)
    with pytest.raises(ReportFormatError, match="plain_us"):
        read_stamps(stored)


def test_an_archive_with_a_wrong_byte_is_refused_or_reads_the_same(stored):
    data, whole = stored.read_bytes(), read_stamps(stored)
    for place in range(0, len(data), len(data) // 150):
        stored.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        try:
            again = read_stamps(stored)
        except ReportFormatError:
            continue
        assert again.about == whole.about
        assert (again.records == whole.records).all()
