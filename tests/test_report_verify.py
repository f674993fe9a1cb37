"""What verification found, in a terminal of 80 columns, as JSON and as CSV."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest
from decode_workloads import decode_at
from run_data import case

from gdnbench.errors import ExitCode
from gdnbench.model.status import GateResult, Status, WrongElements
from gdnbench.store.journal import Examined
from gdnbench.verbs.verify_tables import print_verdicts
from gdnbench.verify.preflight import Verification

OUTPUT = "output within 1 ulp + 1e-05"
GOOD, BAD = case("decode-triton:BV=128:WARPS=16", BV=128), case("decode-bad")
GOOD_64, FAR = case("decode-triton:BV=128:WARPS=16", workload=decode_at(B=64), BV=128), case("decode-far")
WRONG = WrongElements(64, 1024, 0.25, -1.5, "HV 3 of 8; V 0,2,…,126 of 128")
FAILED = GateResult(OUTPUT, "zero-b", math.inf, 1.0, "[0, 0, 7, 127]", Status.WRONG_NUMBERS, WRONG)
BAD_3 = case("decode-bad", workload=decode_at(B=3))
JUDGED = {
    GOOD.id: Examined(GOOD.id, Status.OK, gates=(GateResult(OUTPUT, "typical", 0.51, 1.0, "[0, 0, 3, 9]", "ok"),)),
    GOOD_64.id: Examined(
        GOOD_64.id, Status.OK, gates=(GateResult(OUTPUT, "saturated-gates", 0.97, 1.0, "[63, 0, 7, 127]", "ok"),)
    ),
    BAD.id: Examined(
        BAD.id, Status.WRONG_NUMBERS, FAILED.reason, (FAILED,),
    ),
    BAD_3.id: Examined(BAD_3.id, Status.WRONG_NUMBERS, "another element", (FAILED,)),
    FAR.id: Examined(FAR.id, Status.UNSUPPORTED, "needs a GPU [any]"),
}  # fmt: skip
VERDICTS = Verification(7, "cpu", (GOOD, GOOD_64, BAD, BAD_3, FAR), JUDGED, {GOOD.id: "Triton's interpreter"})


@pytest.fixture
def shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def show(json=False, csv=False):
        print_verdicts(VERDICTS, json=json, csv=csv)
        return capsys.readouterr().out

    return show


def test_the_table_shows_the_worst_over_all_workloads_and_inputs(shown):
    text = shown()
    assert not re.search("…(?!,)", text)
    assert re.search(r"^decode-tri\S*\s+(.*\n\s+)*?.*0\.97\s+of 1\s+pass", text, re.MULTILINE)
    assert re.search(r"^decode-bad\S*\s+(.*\n\s+)*?.*inf\s+of 1\s+FAIL", text, re.MULTILINE)
    assert "3 kernels: 1 passed in Triton's interpreter, 1 failed, 1 not checked; seed 7" in text


def test_wrong_numbers_show_what_came_what_should_have_and_where_and_how_to_see_them_again(shown):
    text = " ".join(shown().split())
    assert "got 0.25, expected -1.5; 64 of 1,024 wrong; HV 3 of 8; V 0,2,…,126 of 128" in text
    assert "at B=1 qk4_v8; also wrong at B=3" in text
    assert shown().splitlines()[-1] == "next: gdnbench verify decode-bad --shape B=1 --seed 7"


def test_a_failure_at_other_heads_is_repeated_there(capsys):
    other = case("decode-bad", workload=decode_at(B=3, HQ=16, HV=32))
    checked = {other.id: Examined(other.id, Status.CRASHED, "SIGSEGV")}
    print_verdicts(Verification(7, "cpu", (other,), checked, {}), json=False, csv=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "next: gdnbench verify decode-bad --shape B=3 --shape heads=qk16_v32 --seed 7"


def test_what_an_interpreter_saw_stands_below_the_gates(capsys):
    only = case("decode-v4")
    told = "kernel.cu:7: thread 31 of block 0 reads 4 bytes at byte 128 of `state`, which has 128"
    gate = GateResult("memory and barriers", "typical", 1.0, 0.0, "kernel.cu:7", Status.UNSAFE, told=told)
    note = "kernel.cu:9: loads 32 sectors a request, where 16 hold the bytes"
    checked = {only.id: Examined(only.id, Status.UNSAFE, gate.reason, (gate,), notes=(note,))}
    verdicts = Verification(7, "cpu", (only,), checked, {only.id: "the interpreter of PTX"})
    print_verdicts(verdicts, json=False, csv=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "memory and barriers 1 of 0 FAIL B=1 typical kernel.cu:7" in text
    assert f"unsafe: {told} (typical inputs), at B=1 qk4_v8" in text
    assert note in text
    assert verdicts.exit_code is ExitCode.WRONG_NUMBERS
    print_verdicts(verdicts, json=True, csv=False)
    [row] = json.loads(capsys.readouterr().out)["gates"]
    assert (row["notes"], row["status"], row["where"], row["interpreted"]) == (note, "unsafe", "kernel.cu:7", True)


def test_what_only_compiles_passes_nothing(capsys):
    only = case("decode-v4")
    checked = {only.id: Examined(only.id, Status.UNSUPPORTED, "compiles for sm_90; its numbers need a GPU")}
    verdicts = Verification(7, "cpu", (only,), checked, {}, frozenset({only.id}))
    print_verdicts(verdicts, json=False, csv=False)
    out = capsys.readouterr().out
    assert "decode-v4  compiles for sm_90; its numbers need a GPU" in out
    assert "1 kernel: 1 compiled only; seed 7" in out
    assert "pass" not in out
    assert out.splitlines()[-1] == "next: gdnbench inspect decode-v4"
    assert verdicts.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("compiled", "told"),
    [
        ((), "1 kernel: 1 passed in the interpreter of PTX; seed 7"),
        ((1,), "1 kernel: 1 passed at some workloads in the interpreter of PTX and compiled only at others; seed 7"),
        ((0, 2), "1 kernel: 1 passed at some workloads in the interpreter of PTX and compiled only at others; seed 7"),
        ((0, 1, 2), "1 kernel: 1 compiled only; seed 7"),
    ],
)
def test_what_passes_at_some_workloads_and_compiles_at_others_is_not_said_to_have_passed(capsys, compiled, told):
    cases = tuple(case("decode-v4", workload=decode_at(B=number + 1)) for number in range(3))
    statuses = [Status.UNSUPPORTED if number in compiled else Status.OK for number in range(3)]
    checked = {each.id: Examined(each.id, status) for each, status in zip(cases, statuses, strict=True)}
    interpreted = {each.id: "the interpreter of PTX" for each in cases}
    ids = frozenset(cases[number].id for number in compiled)
    print_verdicts(Verification(7, "cpu", cases, checked, interpreted, ids), json=False, csv=False)
    assert told in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", ["40", "60", "76"])
def test_in_a_narrow_terminal_the_verdicts_stay(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    print_verdicts(VERDICTS, json=False, csv=False)
    *lines, _ = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert sum("pass " in line or line.rstrip().endswith("pass") for line in lines) == 1
    assert sum("FAIL" in line for line in lines) == 1
    assert any(line.startswith("no room here for where") for line in lines) == (width != "76")


def test_what_could_not_be_verified_says_why(shown):
    assert "needs a GPU [any]" in " ".join(shown().split())


def test_json_has_a_row_per_gate_and_case_and_null_for_infinity(shown):
    document = json.loads(shown(json=True), parse_constant=pytest.fail)
    rows = {(row["label"], row["B"]): row for row in document["gates"]}
    assert len(rows) == 5
    assert (rows["decode-bad", 1]["got"], rows["decode-bad", 1]["wrong"]) == (0.25, 64)
    assert document["seed"] == 7
    assert (rows["decode-bad", 1]["worst"], rows["decode-bad", 1]["passed"]) == (None, False)
    assert rows[GOOD.label, 1]["interpreted"] is True
    assert rows["decode-far", 1]["status"] == "unsupported"


def test_csv_parses(shown):
    rows = list(csv.DictReader(io.StringIO(shown(csv=True))))
    assert [row["passed"] for row in rows] == ["True", "True", "False", "False", ""]
    assert rows[2]["worst"] == "inf"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([Status.OK], ExitCode.OK),
        ([Status.OK, Status.UNSUPPORTED], ExitCode.OK),
        ([Status.UNSUPPORTED, Status.MISSING], ExitCode.ENVIRONMENT),
        ([Status.OK, Status.WRONG_NUMBERS, Status.BUILD_FAILED], ExitCode.WRONG_NUMBERS),
        ([Status.OK, Status.BUILD_FAILED, Status.CRASHED], ExitCode.BUILD),
        ([Status.CRASHED], ExitCode.PARTIAL),
    ],
)
def test_the_exit_code_tells_the_gravest(statuses, code):
    checked = {str(status): Examined(str(status), status, "" if status is Status.OK else "why") for status in statuses}
    assert Verification(1, "cpu", (), checked, {}).exit_code is code


def test_launches_that_differ_are_a_note_and_no_failure(capsys):
    note = "two launches on the same inputs differ in 3 of 1,024 elements of output"
    checked = {GOOD.id: replace(JUDGED[GOOD.id], notes=(note,)), GOOD_64.id: replace(JUDGED[GOOD_64.id], notes=(note,))}
    verdicts = Verification(7, "cuda", (GOOD, GOOD_64), checked, {})
    print_verdicts(verdicts, json=False, csv=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.count(note) == 1
    assert "1 kernel: 1 passed on cuda" in text
    print_verdicts(verdicts, json=True, csv=False)
    rows = json.loads(capsys.readouterr().out)["gates"]
    assert {(row["status"], row["notes"]) for row in rows} == {("ok", note)}
