"""What verification found, in a terminal of 80 columns, as JSON and as CSV."""

import csv
import io
import json
import math
import re

import pytest
from run_data import case

from gdnbench.bench.events import Examined
from gdnbench.bench.verifying import Verdicts
from gdnbench.errors import ExitCode
from gdnbench.model import GateResult, Shape, Status
from gdnbench.report.verify_table import print_verdicts

OUTPUT = "output within 1 ulp + 1e-05"
GOOD, BAD = case("decode-triton:BV=128:WARPS=16", BV=128), case("decode-bad")
GOOD_64, FAR = case("decode-triton:BV=128:WARPS=16", shape=Shape(B=64), BV=128), case("decode-far")
JUDGED = {
    GOOD.id: Examined(GOOD.id, Status.OK, gates=(GateResult(OUTPUT, "typical", 0.51, 1.0, "[0, 0, 3, 9]", "ok"),)),
    GOOD_64.id: Examined(
        GOOD_64.id, Status.OK, gates=(GateResult(OUTPUT, "saturated-gates", 0.97, 1.0, "[63, 0, 7, 127]", "ok"),)
    ),
    BAD.id: Examined(
        BAD.id, Status.WRONG_NUMBERS, "wrong",
        (GateResult(OUTPUT, "zero-b", math.inf, 1.0, "[0, 0, 7, 127]", "wrong-numbers"),),
    ),
    FAR.id: Examined(FAR.id, Status.UNSUPPORTED, "needs a GPU [any]"),
}  # fmt: skip
VERDICTS = Verdicts(7, "cpu", (GOOD, GOOD_64, BAD, FAR), JUDGED, frozenset({GOOD.id}))


@pytest.fixture
def shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def show(json=False, csv=False):
        print_verdicts(VERDICTS, json=json, csv=csv)
        return capsys.readouterr().out

    return show


def test_the_table_shows_the_worst_over_all_shapes_and_inputs(shown):
    text = shown()
    assert "…" not in text
    assert re.search(r"^decode-tri\S*\s+(.*\n\s+)*?.*0\.97\s+of 1\s+pass", text, re.MULTILINE)
    assert re.search(r"^decode-bad\S*\s+(.*\n\s+)*?.*inf\s+of 1\s+FAIL", text, re.MULTILINE)
    assert "2 of 4 cases pass" in text
    assert "seed 7" in text


def test_what_could_not_be_verified_says_why(shown):
    assert "needs a GPU [any]" in " ".join(shown().split())


def test_json_has_a_row_per_gate_and_case_and_null_for_infinity(shown):
    document = json.loads(shown(json=True), parse_constant=pytest.fail)
    rows = {(row["label"], row["B"]): row for row in document["gates"]}
    assert len(rows) == 4
    assert document["seed"] == 7
    assert (rows["decode-bad", 1]["worst"], rows["decode-bad", 1]["passed"]) == (None, False)
    assert rows[GOOD.label, 1]["interpreted"] is True
    assert rows["decode-far", 1]["status"] == "unsupported"


def test_csv_parses(shown):
    rows = list(csv.DictReader(io.StringIO(shown(csv=True))))
    assert [row["passed"] for row in rows] == ["True", "True", "False", ""]
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
    judged = {str(status): Examined(str(status), status, "" if status is Status.OK else "why") for status in statuses}
    assert Verdicts(1, "cpu", (), judged, frozenset()).exit_code is code
