"""Counters of instructions: read from a report of ncu's, kept, summed up by source line, and shown where they help."""

import gzip
import json
import shutil

import pytest
from ncu_data import V1, unpack_report

from gdnbench.errors import ExitCode, LeftOutWarning, ReportFormatError
from gdnbench.profile.ncu.lines import lines_path, profiled_lines, read_lines, stored_lines, write_lines
from gdnbench.profile.ncu.report import read_any, read_instructions

pytest.importorskip("ncu_report")
FUNCTION = "gdn_decode_v1"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return unpack_report(tmp_path_factory.mktemp("ncu"))


@pytest.fixture(scope="module")
def instructions(report):
    return read_instructions(report)


@pytest.fixture
def profile(tmp_path, instructions):
    """Stored profiles with what each instruction did beside them."""
    path = tmp_path / "20261121-212731-h200-B1-qk4_v8.csv.gz"
    shutil.copy(V1, path)
    write_lines(lines_path(path), instructions)
    return path


def test_instructions_add_up_to_the_counters_of_their_launch(report, instructions):
    first = read_any(report)[0]
    for counter, metric in (
        ("executed", "inst_executed"),
        ("samples", "smsp__pcsamp_sample_count"),
        ("sectors", "memory_l2_theoretical_sectors_global"),
    ):
        assert sum(getattr(each, counter) for each in instructions) == first.number(metric)
    assert all(sum(each.stalls.values()) == each.samples for each in instructions)
    addresses = [each.address for each in instructions]
    assert addresses == sorted({*addresses})
    assert {address % 16 for address in addresses} == {0}
    assert addresses[0] == 0


def test_lines_have_their_instructions_the_most_waited_at_first(instructions):
    lines = profiled_lines(instructions, FUNCTION)
    samples = [line.total("samples") for line in lines]
    assert samples == sorted(samples, reverse=True)
    [loads] = [line for line in lines if line.line == "v1/kernel.cu:15"]
    assert sum("LDG.E.EF.128" in each.sass for each in loads.instructions) == 8
    assert loads.total("sectors") == 8 * 128 * 16  # of 8 loads in 128 warps, 512 bytes each
    [gates] = [line for line in lines if line.line == "decode/gdn.cuh:29"]
    assert gates.stall == ("long_scoreboard", pytest.approx(30 / 33))
    assert not profiled_lines(instructions, "another")


def test_what_is_kept_is_read_again(tmp_path, instructions):
    path = tmp_path / "a.lines.json.gz"
    write_lines(path, instructions)
    assert read_lines(path) == instructions
    first = path.read_bytes()
    write_lines(path, instructions)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    "content",
    [b"", b"[", gzip.compress(b'[{"function": "f"}]'), gzip.compress(b'[{"function":"f","address":-1,"sass":"x"}]')],
    ids=["empty", "not packed", "fields missing", "a negative address"],
)
def test_a_damaged_file_is_refused_and_left_out_where_it_only_adds(profile, content):
    lines_path(profile).write_bytes(content)
    with pytest.raises(ReportFormatError, match=r"lines\.json\.gz"):
        read_lines(lines_path(profile))
    with pytest.warns(LeftOutWarning, match="lines are left out"):
        assert stored_lines(profile, FUNCTION) == ()


@pytest.mark.parametrize("of", ["report", "profile"])
def test_the_table_shows_lines_and_their_instructions(command_line, request, of):
    code, out, _ = command_line("ncu", "--import", request.getfixturevalue(of), "--lines", columns="120")
    assert code == ExitCode.OK
    lines = [line.split() for line in out.splitlines()]
    assert ["decode/gdn.cuh:29", "13%", "long_scoreboard", "91%", "1,536"] in lines
    assert ["0320", "LDG.E.EF.128", "R32,", "desc[UR4][R50.64+0x200]"] in [line[:4] for line in lines]
    assert "248 samples of warps at 583 instructions of 29 source lines" in out
    assert "long_scoreboard: waiting for global or local memory" in out


def test_json_has_every_line(command_line, profile):
    code, out, _ = command_line("ncu", "--import", profile, "--lines", "--json")
    [found] = json.loads(out)
    assert code == ExitCode.OK
    assert len(found["lines"]) == 29
    assert sum(line["samples"] for line in found["lines"]) == 248
    assert sum(len(line["instructions"]) for line in found["lines"]) == 583


def test_explain_and_the_text_for_models_name_the_lines(command_line, profile):
    _, out, _ = command_line("explain", "decode-v1", "--from", profile, columns="120")
    assert "v1/kernel.cu:18 19%, imc_miss; decode/gdn.cuh:66 15%, selected" in out
    _, out, _ = command_line("ncu", "--import", profile, "--for-model")
    [lines] = [fact["source_lines"] for fact in json.loads(out)["facts"] if "source_lines" in fact]
    assert lines["decode/gdn.cuh:29"] == "13%, long_scoreboard, FFMA.SAT R51, R6, R7, 0.5"


@pytest.mark.parametrize("options", [["--diff", "decode-v4"], ["--for-model"], ["--csv"]])
def test_lines_are_a_form_of_their_own(command_line, profile, options):
    code, _, err = command_line("ncu", "--import", profile, "--lines", *options)
    assert code == ExitCode.USAGE
    assert "--lines is a table of its own" in err


def test_a_profile_without_them_says_how_to_have_them(command_line, tmp_path):
    shutil.copy(V1, tmp_path / "p.csv.gz")
    code, _, err = command_line("ncu", "--import", tmp_path / "p.csv.gz", "--lines")
    assert code == ExitCode.PROFILER
    assert "profile again" in err
