"""What may be expected of a kernel besides its time, and who says what became of it where there is no run."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from decode_workloads import decode_at
from ledger_data import SLOWER, keep_run
from stamps_data import about, stamps

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode, UsageError
from gdnbench.ledger.entry import parse_effort, parse_expected
from gdnbench.ledger.file import read_ledger
from gdnbench.profile.ncu.quantities import LaunchProfile, Metric
from gdnbench.profile.ncu.store import write_profiles
from gdnbench.store.measurements import read_by_clock

pytest_plugins = ["ledger_data"]

AT_B1 = decode_at(B=1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SLOWER, [("vs", "decode-v8", ">=", 1.02, False, "", "B=1")]),
        ("vs decode-v8>=1.02x at B=1 heads=qk4_v8", [("vs", "decode-v8", ">=", 1.02, False, "", "B=1 heads=qk4_v8")]),
        ("vs decode-triton:BV=16>=1 at B=1", [("vs", "decode-triton:BV=16", ">=", 1, False, "", "B=1")]),
        ("time <= 4.2us at B=1", [("time", "", "<=", 4.2, False, "", "B=1")]),
        (" stream time  >=  4 µs  at  B=1 ", [("time", "", ">=", 4.0, False, "", "B=1")]),
        ("kernel time <= 2us at B=8", [("kernel time", "", "<=", 2, False, "", "B=8")]),
        (
            "registers <= 64 and spills = 0",
            [("registers", "", "<=", 64, False, "", ""), ("spills", "", "=", 0, False, "", "")],
        ),
        ("registers <= -8 at B=8", [("registers", "", "<=", -8, True, "", "B=8")]),
        ("code <= +0", [("code", "", "<=", 0, True, "", "")]),
        ("shared memory <= 48K on sm_100", [("shared memory", "", "<=", 49152, False, "sm_100", "")]),
        ("counter dram_read_bytes <= 1000000", [("counter", "dram_read_bytes", "<=", 1000000, False, "", "")]),
        (
            "phase write <= -200 cycles and error <= 2 ulp at B=4",
            [("phase", "write", "<=", -200, True, "", "B=4"), ("error", "", "<=", 2, False, "", "B=4")],
        ),
        (
            "time <= 4us at B=1 and time <= 9us at B=8",
            [("time", "", "<=", 4, False, "", "B=1"), ("time", "", "<=", 9, False, "", "B=8")],
        ),
    ],
)
def test_an_expectation_is_read(text, told):
    found = parse_expected(text)
    assert [(e.quantity, e.of, e.sign, e.bound, e.is_change, e.arch, e.workload) for e in found] == told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins with none of vs BASELINE, time"),
        ("faster", "begins with none of"),
        ("registers <= 64 and", "registers are a number"),
        ("and registers <= 64", "begins with none of"),
        ("vs decode-v8 > 1.02 at B=1", "`>=` or `<=` is missing"),
        ("registers 64", "`>=`, `=` or `<=` is missing"),
        ("vs decode-v8 >= 1.02", "the workload is missing"),
        ("kernel time <= 2us", "the workload is missing"),
        ("vs decode-v8 >= 2% at B=1", "a ratio is a plain number"),
        ("vs decode-v8 >= nan at B=1", "a ratio is a plain number"),
        ("vs decode-v8 >= 1e400 at B=1", "a ratio is a plain number"),
        ("vs decode-v8 >= 0.0 at B=1", "a bound of 0"),
        ("registers >= 0", "a bound of 0"),
        ("time <= 4.2 at B=1", "a number with its unit"),
        ("time <= 4.2ms at B=1", "a number with its unit"),
        ("time <= -0.2us at B=1", "a time's change is a ratio"),
        ("error = 2 ulp", "`>=` or `<=` is missing"),
        ("error <= 2", "2 ulp"),
        ("spills <= 1 cycles", "spills are bytes"),
        ("phase <= 3 cycles", "`phase` is followed by NAME"),
        ("registers a <= 3", "`a` means nothing behind `registers`"),
        ("error <= 2 ulp on sm_90", "`on` is for what a build has"),
        ("time <= 4us at B=1 and time <= 9us at B=8 and spills = 0", "which workload is meant"),
    ],
)
def test_what_is_no_expectation_is_refused_with_its_reason(text, why):
    with pytest.raises(UsageError, match=why) as raised:
        parse_expected(text)
    assert "which" in why or SLOWER in raised.value.hint


@pytest.mark.parametrize("text", ["soon", "0 h", "1.5 closings", "-2 h", "3"])
def test_what_is_no_effort_is_refused(text):
    with pytest.raises(UsageError, match="not a number of closings, hours or minutes"):
        parse_effort(text)


def _outcomes(entry):
    return {each["expectation"]: each["outcome"] for each in entry["closings"][-1]["findings"]}


def test_a_build_closes_an_entry_without_a_gpu(home, begin, close):
    expected = ("registers <= 200 and spills = 0 on sm_100", "registers >= 200 on sm_90")
    begin(*expected, kernel="decode-v9")
    closed = close(run="")
    assert (closed["state"], closed["closings"][0]["run"]) == ("refuted", "")
    assert _outcomes(closed) == {
        "registers <= 200 on sm_90 at B=1": "confirmed",
        "spills = 0 bytes on sm_100 at B=1": "confirmed",
        "registers >= 200 on sm_90 at B=1": "refuted",
    }
    values = [each["value"] for each in closed["closings"][0]["findings"]]
    assert values[1] == 0
    assert 0 < values[0] == values[2] < 200


def test_what_was_not_measured_is_undecided_and_says_so(home, begin, close):
    begin("time <= 9us and phase load <= 9 cycles and counter dram_read_bytes <= 9 and spills = 0 at B=1")
    closed = close(run="")
    assert closed["state"] == "undecided"
    reasons = {each["expectation"].split()[0]: each["reason"] for each in closed["closings"][0]["findings"]}
    assert reasons["time"].startswith("it takes a run: gdnbench run --kernel decode-v10")
    for name, verb in (("phase", "proton"), ("counter", "ncu")):
        assert f"no profile of decode-v10 as it is now: gdnbench {verb} decode-v10" in reasons[name]
    assert reasons["spills"] == ""
    keep_run(home)
    later = close()
    assert [*_outcomes(later).values()] == ["confirmed", "undecided", "undecided", "confirmed"]


WITH_CUPTI = "20261124-044420-h200-decode-by-ssh"


def test_kernel_time_is_held_against_cupti_and_not_the_run_s_own_timer(home, begin, close):
    folder = keep_run(home, of=WITH_CUPTI, name=WITH_CUPTI)
    clocks = {
        clock: {row.case.label: row.timing for row in rows if row.case.workload == AT_B1 and row.timing}
        for clock, rows in read_by_clock(folder).items()
    }
    stream, own = (clocks[clock]["decode-v9"].time_us for clock in (None, "cupti"))
    assert own < stream
    bound = round((own + stream) / 2, 2)
    begin(f"kernel time <= {bound}us and time <= {bound}us at B=1", kernel="decode-v9")
    found = close(run=WITH_CUPTI)["closings"][0]["findings"]
    assert [each["outcome"] for each in found] == ["confirmed", "refuted"]
    assert [each["value"] for each in found] == [own, stream]


def test_times_alone_are_not_closed_without_a_run(home, begin, close):
    begin("time <= 9us at B=1")
    assert "which a run measures" in close(run="", code=ExitCode.USAGE)


def test_a_change_is_held_against_the_kernel_as_it_was_opened(draft, begin, close):
    begin("code >= +16 and error >= +1 ulp and registers <= +0", kernel="decode-mine")
    source = draft.read_text()
    draft.write_text(source.replace("+ place) = updated;", "+ place) = gdn::scaled(1.000001f, updated);"))
    assert draft.read_text() != source
    closed = close(run="")
    outcomes = list(_outcomes(closed).values())
    assert outcomes[:2] == ["confirmed", "confirmed"], closed
    code = closed["closings"][0]["findings"][0]
    assert re.fullmatch(r"\d+ to \d+ on sm_90", code["how"])
    before, after = map(int, code["how"].split(" on ")[0].split(" to "))
    assert after - before == code["value"] > 0


def test_a_kernel_with_wrong_numbers_has_no_error_that_is_small(draft, begin, close):
    begin("error <= 8 ulp", kernel="decode-mine")
    draft.write_text(draft.read_text().replace("+ place) = updated;", "+ place) = decayed;"))
    assert close(run="")["state"] == "refuted"


def test_a_kernel_that_does_not_build_decides_nothing(draft, begin, close):
    begin("spills = 0", kernel="decode-mine")
    draft.write_text(draft.read_text().replace("const int lane", "const it lane"))
    finding = close(run="")["closings"][0]["findings"][0]
    assert finding["outcome"] == "undecided"
    assert "it" in finding["reason"]


def _stamp(date, source, cycles):
    """Stores a profile of phases whose phase `update` takes some cycles a warp."""
    entry = stamps(about_=about(label="decode-mine", workload=AT_B1, source=source))
    records = entry.records.copy()
    records[:, :, 5] = cycles
    path = Path("profiles/phases/decode-mine")
    path.mkdir(parents=True, exist_ok=True)
    replace(entry, records=records).write(path / f"{date}-120000-h200-{AT_B1.slug}.npz")


def test_a_phase_and_a_counter_are_held_against_stored_profiles_of_both_codes(draft, begin, close):
    opened = begin(
        "phase update <= -200 cycles and counter dram_read_bytes <= 5000 and phase nothing <= 9 cycles",
        kernel="decode-mine",
    )
    then = opened["hashes"]["decode-mine"]
    _stamp("20250101", then, 900)
    draft.write_text(draft.read_text() + "// another\n")
    now = load_catalog().entries["decode-mine"].known_source()
    assert now != then
    _stamp("20990101", now, 600)
    Path("profiles/ncu/decode-mine").mkdir(parents=True)
    metric = Metric("dram__bytes_read.sum", "byte", 4096.0, "")
    profile = LaunchProfile(
        "decode-mine", "decode", AT_B1, "NVIDIA H200", "sm_90", "gdn_decode_mine", 0, {metric.name: metric}, now
    )
    write_profiles(Path(f"profiles/ncu/decode-mine/20990101-120000-h200-{AT_B1.slug}.csv"), [profile])
    closed = close(run="")
    phase, counter, missing = closed["closings"][0]["findings"]
    assert (phase["outcome"], phase["how"]) == ("confirmed", "900 to 600 on h200")
    assert phase["value"] == pytest.approx(-300, rel=1e-3)
    assert (counter["outcome"], counter["value"]) == ("confirmed", 4096)
    assert missing["outcome"] == "undecided"
    assert "has no phase nothing: it has load, update, store" in missing["reason"]


def test_a_profile_of_before_the_entry_or_of_other_code_decides_nothing(draft, begin, close):
    source = begin("phase update <= 9000 cycles", kernel="decode-mine")["hashes"]["decode-mine"]
    _stamp("20250101", source, 600)
    _stamp("20990102", "2:0123456789abcdef", 600)
    assert close(run="")["state"] == "undecided"
    _stamp("20990101", source, 600)
    assert close(run="")["state"] == "confirmed"


def test_an_entry_whose_effort_is_spent_is_given_up(home, begin, close, command_line):
    begin("phase load <= 9 cycles", more=["--effort", "1 closing"])
    assert close(run="")["state"] == "undecided"
    assert "the effort of entry 1, 1 closing, was spent" in close(run="", code=ExitCode.USAGE)
    _, out, _ = command_line("ledger")
    assert "given up" in out


def test_hours_count_from_when_the_entry_was_opened_to_when_a_run_began(home, begin, close):
    begin("time <= 9us at B=1", more=["--effort", "2 h"])
    keep_run(home)  # of 2099
    assert "2 h, was spent" in close(code=ExitCode.USAGE)


def test_a_ledger_of_before_there_were_other_quantities_is_read(home, begin):
    begin(SLOWER)
    path = home / "ledger.jsonl"
    line = json.loads(path.read_text())
    for name in ("quantity", "of", "is_change", "before", "where"):
        del line["expectations"][0][name]
    del line["effort"]
    path.write_text(json.dumps(line | {"schema": 1}) + "\n")
    (expected,) = read_ledger(path)[1].opened.expectations
    assert (expected.measured.is_time, expected.baseline) == (True, "decode-v8")


def test_an_unknown_counter_or_architecture_leaves_no_entry(home, begin):
    assert "no counter nonsense" in begin("counter nonsense <= 1", code=ExitCode.USAGE)
    assert "sm_7" in begin("spills = 0 on sm_7", code=ExitCode.USAGE)
    assert not (home / "ledger.jsonl").exists()
