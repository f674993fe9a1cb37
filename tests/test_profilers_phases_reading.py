"""Stamps of known clocks, and stamps that something is wrong with."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stamps_data import MHZ, STEP_NS, about, records, stamps

from gdnbench.errors import ExitCode, ProfilerError, ReportFormatError
from gdnbench.profilers.breakdown import BETWEEN, TOTAL
from gdnbench.profilers.phases.reading import read
from gdnbench.profilers.phases.stamps import SM, UNWRITTEN, Stamps, read_stamps
from gdnbench.profilers.phases.stamps import TOTAL as TOTAL_CYCLES


def _rows(reading):
    return {row.name: row for row in reading.breakdown.rows()}


def test_cycles_become_microseconds_by_the_clock_of_the_launches():
    reading = read(stamps(skew_ns=10))
    assert reading.timeline.sm_mhz == pytest.approx(MHZ, rel=0.002)
    load = _rows(reading)["load"]
    assert load.minimum == pytest.approx(1.0, rel=0.003)
    assert load.maximum == pytest.approx(1 + 63 * 0.02, rel=0.003)
    assert load.average == pytest.approx(1 + 63 * 0.02 / 2, rel=0.003)
    assert _rows(reading)["update"].average == pytest.approx(0.5, rel=0.003)


def test_the_spread_is_that_between_warps_of_a_launch_and_not_between_launches():
    made = stamps(warps=16)
    slower = made.records.copy()
    slower[25:, :, 5] += 7500  # in half of the launches, each warp alike
    row = _rows(read(replace(made, records=slower)))["update"]
    assert row.spread == pytest.approx(0, abs=1e-9)
    assert row.maximum > 5 * row.minimum


def test_shares_of_phases_and_of_what_follows_the_last_mark_make_the_whole():
    rows = _rows(read(stamps(after=450)))
    assert sum(row.share for name, row in rows.items() if name != TOTAL) == pytest.approx(1)
    assert rows[BETWEEN].average == pytest.approx(0.3, rel=0.003)


def test_the_span_of_a_launch_and_how_far_apart_its_warps_begin():
    line = read(stamps(skew_ns=20)).timeline
    assert line.skew_us == pytest.approx(63 * 0.020, abs=0.033)
    assert line.span_us == pytest.approx(63 * 0.020 + (1500 + 63 * 30 + 1050) / MHZ, abs=0.033)
    assert line.step_ns == STEP_NS


def test_a_timer_that_wraps_during_the_launches_changes_nothing():
    plain, wrapping = (read(stamps(skew_ns=20, origin_ns=origin)) for origin in (2**20, 2**32 - 2_500_000))
    assert wrapping.timeline.sm_mhz == pytest.approx(plain.timeline.sm_mhz, rel=0.003)
    assert wrapping.timeline.span_us == pytest.approx(plain.timeline.span_us, abs=0.033)


def test_a_phase_that_some_warps_skip_is_averaged_over_those_that_pass_it():
    cycles = np.full((20, 8, 3), 300)
    cycles[:, ::2, 1] = 0
    reading = read(Stamps(about(), records(cycles, skew_ns=3), np.array([4.0]), np.array([4.2])))
    row = _rows(reading)["update"]
    assert row.minimum == pytest.approx(0.2, rel=0.02)
    assert row.share == pytest.approx(4 / (2 * 8 + 4))
    assert reading.unpassed == ()


def test_a_phase_that_no_warp_passes_is_told_and_has_no_row():
    cycles = np.full((20, 8, 3), 300)
    cycles[:, :, 2] = 0
    reading = read(Stamps(about(), records(cycles), np.array([4.0]), np.array([4.2])))
    assert reading.unpassed == ("store",)
    assert "store" not in _rows(reading)


def test_warps_without_a_record_are_counted_and_left_out():
    made = stamps(warps=16)
    silent = made.records.copy()
    silent[3, 5] = UNWRITTEN  # once is enough
    silent[:, 9] = UNWRITTEN
    reading = read(replace(made, records=silent))
    assert (reading.silent, reading.breakdown.warps) == (2, 14)
    assert reading.timeline.sm_mhz == pytest.approx(MHZ, rel=0.005)


def test_no_record_at_all_is_an_error_that_names_the_cause():
    made = stamps(launches=2, warps=4)
    with pytest.raises(ProfilerError, match="no warp of decode-v4") as caught:
        read(replace(made, records=np.full_like(made.records, UNWRITTEN)))
    assert "GDNBENCH_PHASES_BEGIN" in caught.value.hint


def test_a_timer_that_stands_still_is_an_error():
    made = stamps(launches=2, warps=4)
    stopped = made.records.copy()
    stopped[:, :, :SM] = 4096
    with pytest.raises(ProfilerError, match="did not move"):
        read(replace(made, records=stopped))


def test_a_clock_that_stands_still_is_an_error():
    made = stamps(launches=2, warps=4)
    stopped = made.records.copy()
    stopped[:, :, TOTAL_CYCLES] = 0
    with pytest.raises(ProfilerError, match="no warp counted a cycle"):
        read(replace(made, records=stopped))


def test_what_stamping_costs_is_the_ratio_of_medians():
    cost = read(stamps()).overhead
    assert cost.plain_us == pytest.approx(4.11, abs=0.03)
    assert cost.share == pytest.approx(cost.stamped_us / cost.plain_us - 1)
    assert cost.share == pytest.approx(0.1, abs=0.02)


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
    assert read_stamps(stored).about == replace(ABOUT, source="")


def test_a_field_that_a_later_gdnbench_adds_changes_nothing(stored):
    _rewrite(stored, fields={"colour": "red"})
    assert read_stamps(stored).about == ABOUT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("op", 3),
        ("op", ""),
        ("label", ["decode-v4"]),
        ("label", "decode v4"),
        ("label", "decode-\x1b[2Jv4"),
        ("shape", {"B": 0, "HQ": 4, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 4, "HV": 8, "K": 128}),
        ("shape", {"B": 1.5, "HQ": 4, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 3, "HV": 8, "K": 128, "V": 128}),
        ("shape", {"B": 1, "HQ": 4, "HV": 8, "K": 128, "V": 128, "W": 1}),
        ("shape", "B=1"),
        ("gpu", None),
        ("phases", []),
        ("phases", "load"),
        ("phases", ["load", "update", 3]),
        ("asked", -1),
        ("asked", "50"),
        ("registers", 1e9),
        ("registers", 10**30),
        ("stamped_spill_bytes", True),
        ("source", "no hash"),
        ("source", None),
        ("schema", 2),
        ("schema", "1"),
    ],
)
def test_a_field_that_cannot_be_what_it_is_is_named(stored, field, value):
    _rewrite(stored, fields={field: value})
    named = "HQ" if field == "shape" and isinstance(value, dict) and value["HQ"] == 3 else field
    with pytest.raises(ReportFormatError, match=rf"a\.npz holds no stamps: .*{named}"):
        read_stamps(stored)


@pytest.mark.parametrize("field", ["schema", "op", "label", "shape", "gpu", "arch", "phases", "asked", "registers"])
def test_a_field_that_is_missing_is_named(stored, field):
    _rewrite(stored, without=(field,))
    with pytest.raises(ReportFormatError, match=field):
        read_stamps(stored)


@pytest.mark.parametrize(
    "array",
    [
        {"plain_us": np.array([])},
        {"plain_us": np.array([4.0, 0.0])},
        {"plain_us": np.array([1e-300])},
        {"plain_us": np.array([1e300])},
        {"plain_us": np.array([[4.0]])},
        {"plain_us": np.array(["4.0"])},
        {"plain_us": np.array([4.0], dtype=object)},  # which is pickled
        {"stamped_us": np.array([4.0, np.nan])},
        {"stamped_us": np.array([4.0, np.inf])},
        {"stamped_us": np.array([-4.0])},
        {"stamped_us": np.array([4 + 1j])},
        {"records": np.zeros((3, 5), dtype=np.uint32)},
        {"records": np.zeros((3, 5, 7))},
        {"records": np.zeros((3, 5, 7), dtype=np.int64)},
        {"records": np.zeros((3, 5, 8), dtype=np.uint32)},
        {"about": np.array(3)},
        {"about": np.array(["{}"])},
        {"about": np.array({"op": "decode"}, dtype=object)},
        {"about": np.array("[" * 100_000)},
        {"about": np.array('{"schema": 1, "more": ' + "[" * 100_000 + "]" * 100_000 + "}")},
        {"about": np.array("not JSON")},
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


def test_an_archive_that_unpacks_without_end_is_not_unpacked(stored, monkeypatch):
    monkeypatch.setattr("gdnbench.profilers.files.MOST_BYTES", 1 << 20)
    _with_member(stored, "plain_us.npy", bytes(50 << 20), compress_type=zipfile.ZIP_DEFLATED)
    with pytest.raises(ReportFormatError, match="plain_us declares 52428800 bytes"):
        read_stamps(stored)


def test_a_file_of_the_repository_is_read_as_ever():
    folder = Path(__file__).parents[1] / "profiles" / "phases"
    found = [read_stamps(path).about for path in sorted(folder.glob("*/*.npz"))]
    assert [(each.label, each.source) for each in found] == [("decode-v4", ""), ("decode-v9", "")]
