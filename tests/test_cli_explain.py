"""`gdnbench explain` as a user meets it."""

import csv
import io
import json
import re
import subprocess
import sys
from functools import partial

import pytest
from diagnose_data import SPECIMENS, copy_run, recording
from ncu_data import unpack_report

from gdnbench.errors import ExitCode


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    """Runs `gdnbench explain ARGUMENTS` in this process, without a GPU; no profiles are stored."""
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(SPECIMENS))
    copy_run(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "explain")


def test_a_lone_warp_a_block_is_the_first_cause_and_more_at_the_same_grid_the_first_experiment(run):
    code, out, _ = run("decode-v1", "--from", recording("decode-v1-B1"))
    assert code == ExitCode.OK
    assert re.search(r"^1\. too few warps in flight  \(\d\d% of the cycles\)$", out, re.MULTILINE)
    assert "128 blocks of 1 warp on 132 SMs" in out
    assert "try: gdnbench run --kernel decode-v1,decode-v4 --shape B=1\n" in out
    assert out.endswith("next: gdnbench run --kernel decode-v1,decode-v4 --shape B=1\n")
    assert re.search(r"^gain    at most \d\d%: decode-floor-copy takes \d\.\d{3} of \d\.\d{3} µs$", out, re.MULTILINE)


def test_a_workload_that_a_kernel_cannot_do_is_refused_with_one_that_it_can(run):
    code, _, err = run("verify-v3", columns="200")
    assert code == ExitCode.USAGE
    assert "verify-v3 cannot do B=1 T=4 last qk4_v8 fp32: tensor cores multiply bf16" in err
    assert "gdnbench explain verify-v3 --shape B=1 --shape keep=last --shape state=bf16" in err


def test_decodes_hint_on_latency_stands_below_that_finding_alone(run):
    _, out, _ = run("decode-v1", "--from", recording("decode-v1-B1"))
    [hinted] = [part for part in out.split("\n\n") if "for this op: decode-v7 and decode-v9" in part]
    assert "latency: waiting for" in hinted.splitlines()[0]


def test_what_nvidias_rules_estimate_stands_below_the_cycles(run, tmp_path):
    report = unpack_report(tmp_path)
    _, out, _ = run("decode-v1", "--from", report)
    lines = out.splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("NVIDIA  "))
    assert re.match(r"NVIDIA  rules estimate at most \d+%  \S", lines[place])
    assert "cycles  " in "".join(lines[:place])
    _, out, _ = run("decode-v1", "--from", report, "--json")
    rules = json.loads(out)["evidence"]["rules"]
    assert any(rule["rule"] == "CPIStall" and rule["speedup_pct"] > 0 for rule in rules)


def test_a_profile_without_rules_says_nothing_of_them(run):
    _, out, _ = run("decode-v1", "--from", recording("decode-v1-B1"))
    assert "NVIDIA  " not in out
    _, out, _ = run("decode-v1", "--from", recording("decode-v1-B1"), "--json")
    assert "rules" not in json.loads(out)["evidence"]


def test_without_a_profile_the_code_and_the_last_run_answer_and_a_profile_is_next(run):
    code, out, _ = run("decode-v1")
    assert code == ExitCode.OK
    assert "1. too few warps in flight  (up to " in out
    assert out.endswith("next: gdnbench ncu decode-v1 --shape B=1\n")


@pytest.mark.parametrize(
    "name", ["decode-v1-B1", "decode-triton-B1", "decode-v4-B64", "test-tail-B17", "test-conflicts-B64"]
)
def test_text_fits_a_terminal_and_a_pipe_but_for_lines_to_copy(run, monkeypatch, name):
    monkeypatch.setenv("NO_COLOR", "1")
    for columns in ("80", "160"):
        _, out, _ = run(name.rpartition("-")[0], "--from", recording(name), columns=columns)
        *lines, last = out.rstrip("\n").split("\n")
        prose = [line.rstrip() for line in lines if "try: " not in line and "/" not in line]
        assert max(map(len, prose)) <= 80
        assert last.startswith("next: gdnbench ")
        assert "\x1b" not in out
        assert all(line.count("gdnbench ") == 1 for line in lines if "try: " in line)


@pytest.mark.parametrize("arguments", [[], ["--from", recording("decode-v1-B1")]])
def test_what_is_next_goes_on_with_the_same_folders(run, tmp_path, arguments):
    folders = ["--out", tmp_path / "elsewhere", "--profiles", tmp_path / "counters"]
    _, out, _ = run("decode-v1", *folders, *arguments)
    places = {"run": f"--out {tmp_path / 'elsewhere'}", "ncu": f"--profiles {tmp_path / 'counters'}"}
    lines = [line for line in out.splitlines() if line.lstrip().startswith(("next: ", "try: "))]
    for line in lines:
        verb = line.split()[2]
        assert places.get(verb, "") in line
    assert any(place in out for place in places.values())


def test_json_holds_what_the_text_says(run):
    _, out, _ = run("decode-v1", "--from", recording("decode-v1-B1"), "--json")
    document = json.loads(out)
    first = document["findings"][0]
    assert (document["label"], document["B"], document["params"]) == ("decode-v1", 1, {"BV": 8})
    assert (first["rule"], first["basis"]) == ("too_few_warps", "counters")
    assert first["experiment"]["command"] == document["next"]
    assert sum(
        document["account"][name] for name in ("launch", "uneven", "empty", "waiting", "issuing")
    ) == pytest.approx(1)
    assert document["launch"]["blocks"] == 128
    assert document["evidence"]["gpu"] == "NVIDIA H200"
    assert all({"counter", "title", "value", "unit", "note"} == fact.keys() for fact in first["facts"])


def test_csv_has_a_row_for_each_line_of_evidence(run):
    _, out, _ = run("test-tail", "--from", recording("test-tail-B17"), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)
    assert {row["rule"] for row in rows} == {"uneven_sms", "latency", "limited_occupancy"}
    assert float(next(row for row in rows if row["counter"] == "waves")["value"]) == pytest.approx(1.03, abs=0.01)


def test_a_kernel_that_nothing_is_wrong_with(run, tmp_path):
    code, out, _ = run("decode-v6", "--out", tmp_path)
    assert code == ExitCode.OK
    assert "no cause stands out" in out
    assert out.endswith("next: gdnbench ncu decode-v6 --shape B=1\n")


@pytest.mark.parametrize(
    ("arguments", "expected", "said"),
    [
        (("decode-v99",), ExitCode.USAGE, "no kernel decode-v99"),
        (("decode-v1", "--shape", "B=1,2"), ExitCode.USAGE, "2 workloads are given"),
        (("decode-v1", "--from", "/no/such.csv"), ExitCode.PROFILER, "no such file"),
        (("decode-fla", "--shape", "B=5"), ExitCode.USAGE, "nothing is known of decode-fla"),
    ],
)
def test_failures_say_what_to_do(run, arguments, expected, said):
    code, out, err = run(*arguments)
    assert (code, out) == (expected, "")
    assert said in err
    assert "hint:" in err


def test_the_parent_stays_light():
    """Explaining a profile needs no torch, triton, cuda.bench or ncu_report."""
    program = (
        "import sys; from gdnbench.verbs.app import main; "
        f"sys.argv = ['gdnbench', 'explain', 'decode-v1', '-q', '--from', {str(recording('decode-v1-B1'))!r}]; main(); "
        "assert not {'torch', 'triton', 'cuda.bench', 'ncu_report'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
