"""Single passes through marks: what is known of them comes out, in the table, for Perfetto, and in the picture."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from decode_workloads import decode_at
from report_data import store_run
from stamps_data import MHZ, about, looping, specialised, stamps

from gdnbench.errors import ExitCode, LeftOutWarning, ReportFormatError
from gdnbench.profile.stamps import UNWRITTEN, Passes, read_stamps
from gdnbench.profile.timeline import pass_rows, spans_of
from gdnbench.verbs.html.report import write_report


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "a.npz"
    looping().write(path)
    return path


def test_passes_survive_the_file_and_older_files_have_none(tmp_path, stored):
    made, again = looping().passes, read_stamps(stored).passes
    assert (again.words == made.words).all()
    assert (again.records == made.records).all()
    specialised().write(tmp_path / "old.npz")
    assert read_stamps(tmp_path / "old.npz").passes is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda passes: Passes(passes.records[:1], passes.words),
        lambda passes: Passes(passes.records[:, :, :4], passes.words),
        lambda passes: Passes(passes.records, passes.words.astype(float)),
        lambda passes: Passes(passes.records, passes.words[:, :, :0]),
        lambda passes: Passes(passes.records, passes.words | np.uint32(3 << 26)),  # a phase that there is not
    ],
)
def test_passes_that_do_not_fit_are_refused(tmp_path, spoil):
    made = looping()
    replace(made, passes=spoil(made.passes)).write(tmp_path / "a.npz")
    with pytest.raises(ReportFormatError, match="pass_"):
        read_stamps(tmp_path / "a.npz")


def test_a_phase_of_a_loop_tells_how_much_its_turns_differ():
    made = looping(turns=4)
    [row] = pass_rows(made.passes, made.about, (0,), MHZ)
    assert (row.name, row.passes, row.average, row.p95) == ("load", 4, 1.25, 2.0)  # 1, 1, 1 and 2 µs
    assert row.ratio == pytest.approx(1.6)
    assert not pass_rows(made.passes, made.about, (1, 2, 3), MHZ)  # which pass each phase once
    assert pass_rows(made.passes, made.about, (), MHZ) == (row,)


def test_passes_beyond_the_room_and_of_silent_warps_are_left_out():
    made = looping(turns=4)
    records = made.passes.records.copy()
    records[:, 0, 4] = 7  # three more than there is room for, with one word that was never written
    records[:, 4] = UNWRITTEN
    passes = Passes(records, made.passes.words[:, :, :4])
    [row] = pass_rows(passes, made.about, (0,), MHZ)
    assert row.passes == 4
    assert {span.warp[1] for span in spans_of(passes, made.about, MHZ) if span.warp[2] == 0} == {0, 2, 3, 4}


def test_the_timeline_has_each_pass_where_and_when_it_was(command_line, tmp_path, stored):
    file = tmp_path / "launch.json.gz"
    code, _, _ = command_line("proton", "--import", stored, "--timeline", file)
    assert code == ExitCode.OK
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    named = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == "thread_name"}
    loads = [each for each in events if each["ph"] == "X" and named[each["pid"], each["tid"]] == "block 1 warp 0"]
    assert [each["dur"] for each in loads] == pytest.approx([1, 1, 1, 2], rel=0.01)
    assert [each["ts"] - loads[0]["ts"] for each in loads] == pytest.approx([0, 1, 2, 3], rel=0.01)
    assert {each["pid"] for each in loads} == {4}  # the fifth warp's SM
    assert len([each for each in events if each["ph"] == "X"]) == 5 * (4 + 3 * 2)


def test_a_picture_shows_the_warps_of_the_first_sms(command_line, tmp_path, stored):
    code, _, _ = command_line("proton", "--import", stored, "--timeline", tmp_path / "launch.svg")
    assert code == ExitCode.OK
    drawn = (tmp_path / "launch.svg").read_text()
    assert "SM 0, block 0, warp 0" in drawn
    assert "update" in drawn


def test_the_table_tells_passes_and_warps(command_line, stored):
    code, out, _ = command_line("proton", "--import", stored, "--warps")
    assert code == ExitCode.OK
    lines = [line.split() for line in out.splitlines()]
    assert ["load", "4", "1.249", "1.999", "1.60"] in lines
    assert ["3", "2.998", "0.200", "3.158"] in lines  # warp 3 of a block: update, store, total
    _, out, _ = command_line("proton", "--import", stored, "--json")
    roles = json.loads(out)[0]["roles"]
    assert [each["p95_over_avg"] for role in roles for each in role["passes"]] == pytest.approx([1.6])
    assert roles[0]["by_warp"]["2"]["update"] == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--import", "old.npz", "--timeline", "a.json"], "0 of these have passes"),
        (["--import", "a.npz", "a.npz", "--timeline", "a.pdf"], "a.pdf"),
        (["decode-triton", "--warps"], "--warps is for CUDA and CuTe kernels"),
    ],
)
def test_a_timeline_that_cannot_be_is_refused(command_line, tmp_path, monkeypatch, stored, arguments, said):
    monkeypatch.chdir(tmp_path)
    stamps().write(tmp_path / "old.npz")
    code, out, err = command_line("proton", *arguments, columns="200")
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err


def test_a_report_shows_the_kernels_that_were_stamped_from_within(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "profiles" / "phases" / "decode-k1"
    folder.mkdir(parents=True)
    for gpu, size in (("h200", 8), ("h100", 64)):
        stamped = about(label="decode-k1", block_warps=4, workload=decode_at(B=size))
        replace(looping(), about=stamped).write(folder / f"20260101-000000-{gpu}-B{size}-qk4_v8.npz")
    (folder / "20270101-000000-h200-B8-qk4_v8.npz").write_bytes(b"newer, and damaged")
    with pytest.warns(LeftOutWarning, match="stamps are left out"):
        write_report([store_run(tmp_path, samples=False)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("Inside decode-k1") == 2  # the title and the description, at B=8 on the run's GPU model alone
    assert "SM 4, block 1, warp 0" in page
