"""`gdnbench explain` after a change to the kernel: what was stored of its former code is told as that."""

import json
from functools import partial

import pytest
from code_data import OTHER
from processes import flat

from gdnbench.errors import ExitCode

pytestmark = pytest.mark.slow

CHANGED = "        of other code: decode-mine's sources have changed since\n"
PROFILE = "next: gdnbench ncu decode-mine --shape B=1"


@pytest.fixture
def explain(command_line, mine):
    """Runs `gdnbench explain decode-mine ARGUMENTS`, and gives what it prints."""
    run = partial(command_line, "explain", "decode-mine", "--quiet", "--profiles", mine.profiles, "--out", mine.results)

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, err) == (ExitCode.OK, "")
        return out

    return call


def told(explain, *arguments):
    return json.loads(explain("--json", *arguments))["evidence"]


def test_after_a_change_both_are_told_where_they_are_named_and_a_profile_is_next(explain, mine):
    path = mine.profiled(2)
    run_id = mine.timed(3)
    mine.change()
    out = explain()
    assert f"{path}\n{CHANGED}cycles" in out
    assert f"{run_id}: 4.600 µs; decode-floor-copy 4.000; decode-floor-empty 2.700 of other code" in flat(out)
    assert f"{CHANGED}gain    at most 13%, of other code: decode-floor-copy takes" in out
    heads = [line for line in out.splitlines() if line[:2] in {"1.", "2.", "3."}]
    assert heads
    assert all(line.endswith("% of the cycles, of other code)") for line in heads)
    assert PROFILE in out


def test_the_newest_of_this_code_wins_over_a_newer_one_of_other_code(explain, mine):
    mine.profiled(2)
    own = mine.profiled(3)
    mine.profiled(4, OTHER)
    mine.profiled(5, "")
    mine.timed(2, time_us=5.0)
    run_id = mine.timed(3, time_us=4.9)
    mine.timed(4, {"decode-mine": OTHER}, time_us=4.8)
    evidence = told(explain)
    assert (evidence["profile"], evidence["profile_code"]) == (str(own), "current")
    assert (evidence["run"]["run_id"], evidence["run"]["code"]) == (run_id, "current")


def test_files_of_before_there_was_a_hash_are_read_and_nothing_is_said(explain, mine):
    path = mine.profiled(2, "")
    header, *rows = path.read_text().splitlines(keepends=True)
    place = header.split(",").index("source")
    without = [",".join([*cells[:place], *cells[place + 1 :]]) for cells in (row.split(",") for row in [header, *rows])]
    path.write_text("".join(without))
    mine.timed(3, {"decode-mine": ""})
    mine.change()
    assert "other code" not in explain()
    evidence = told(explain)
    assert (evidence["profile_code"], evidence["run"]["code"]) == ("unknown", "unknown")


def spoil_by_cutting(path):
    path.write_bytes(path.read_bytes()[:-100])


def spoil_with_bytes(path):
    path.write_bytes(b"\x80\xff" * 100)


def spoil_a_cell(path):
    path.write_text(path.read_text().replace(",B=1", "").replace(",decode,1,4,8,", ",decode,0,4,8,"))


def make_a_folder(path):
    path.unlink()
    path.mkdir()


SPOILS = [spoil_by_cutting, spoil_with_bytes, spoil_a_cell, make_a_folder]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_profile_that_cannot_be_used_is_left_out_with_a_warning_and_the_one_before_speaks(explain, mine, spoil):
    older = mine.profiled(2)
    newest = mine.profiled(3, OTHER)
    spoil(newest)
    assert told(explain)["profile"] == str(older)
    document = json.loads(explain("--json"))
    [warning] = document["warnings"]
    assert newest.name in warning
    assert f"warning: {flat(warning)} " in flat(explain())


def test_a_file_that_is_named_and_damaged_is_an_error(command_line, mine):
    path = mine.profiled(2)
    spoil_a_cell(path)
    code, out, err = command_line("explain", "decode-mine", "--from", path, columns="300")
    assert (code, out) == (ExitCode.PROFILER, "")
    assert f"{path} line 2: B=0: an axis has at least one element" in err
