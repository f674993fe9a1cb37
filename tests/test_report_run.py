"""A stored run on stdout, in a terminal of 80 columns, as JSON and as CSV."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest
from decode_workloads import decode_at
from run_data import case, failed, info, measured, store, store_bound_by_flops, timing, versus

from gdnbench.model.measurement import InputsEffect, Measurement
from gdnbench.model.status import Role, Status
from gdnbench.store.tables import BuildRow, write_builds
from gdnbench.verbs.run_tables import print_run

LONG = "decode-triton:BV=128:WARPS=16:STAGES=4"
BIG = decode_at(B=256, HQ=16, HV=32)
ROWS = [
    measured(case("decode-fla", Role.BASELINE), 5.13),
    measured(case("decode-v4", WARPS=8), 4.321, versus(1.187)),
    measured(case(LONG, BV=128, WARPS=16, STAGES=4), 6.789, versus(0.756, "slower")),
    measured(
        case("decode-v1"),
        5.12,
        versus(1.002, "unclear", more_rounds=17),
        warnings=("3 of 21 rounds below 97% of the run's median clock",),
        spill_bytes=16,
    ),
    measured(case("decode-floor-copy", Role.FLOOR), 4.01),
    Measurement(
        case=case("decode-new"), status=Status.OK, nbytes=1, launches=11,
        timing=timing(5.0, sm_mhz=math.nan, cpu_time_us=math.nan, sol=math.nan),
        versus=versus(1.026, "unclear", low=0.0, high=math.inf),
    ),
    measured(case("decode-fla", Role.CONTROL), 5.13, versus(1.0002, "same")),
    failed(case("decode-broken"), Status.BUILD_FAILED, "kernel.cu(3): error: [expected] a ;\n  x = 1\n      ^"),
    failed(case("decode-hopper-only"), Status.UNSUPPORTED, "needs a GPU"),
    measured(case("decode-fla", Role.BASELINE, BIG), 12_345.6),
    measured(case("decode-v4", workload=BIG, WARPS=8), 1023.4, versus(12.06)),
]  # fmt: skip


@pytest.fixture
def stored(tmp_path):
    store(tmp_path, ROWS, warnings=["other processes are on the GPU: python (1234)"])
    return tmp_path


@pytest.fixture
def shown(stored, capsys, monkeypatch):
    def show(columns="80", folder=stored, **form):
        monkeypatch.setenv("COLUMNS", columns)
        print_run(folder, **{"json": False, "csv": False, **form})
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("columns", ["80", "100", "120", "200"])
def test_no_cell_is_cut_and_no_number_is_wrapped(shown, columns):
    text = shown(columns)
    assert "…" not in text
    for row in ROWS:
        if row.timing and row.role is not Role.CONTROL:
            start, time = row.case.label[:13], _time(row)
            (line,) = (line for line in text.splitlines() if line.startswith(start) and time in line)
            if row.versus:
                assert f"{row.versus.speedup:.{3 if row.versus.speedup < 10 else 2}f}x" in line
                assert row.versus.verdict.upper() in line


def test_what_would_settle_a_verdict_is_not_told_of_one_that_has_no_interval(shown):
    lines = shown("210").splitlines()
    (unclear,) = (line for line in lines if line.startswith("decode-v1"))
    (of_one_round,) = (line for line in lines if line.startswith("decode-new"))
    assert "17 more rounds would settle" in unclear
    assert "UNCLEAR" in of_one_round and "settle" not in of_one_round


def _time(row):
    time_us = row.timing.time_us
    return f" {time_us:.3f} ±" if time_us < 100 else f" {time_us:.1f} ±"


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_label_is_whole_or_folded_over_lines_of_its_own(shown, columns):
    names = "".join(line[:40].strip().split(" ")[0] for line in shown(columns).splitlines())
    assert LONG in names


def test_params_go_to_a_line_of_their_own_where_the_table_is_too_wide(shown):
    name, params = LONG.split(":", 1)
    lines = shown("90").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{name} "))
    assert lines[at + 1].strip() == f":{params}"
    assert LONG in shown("160")


@pytest.mark.parametrize("columns", ["80", "200"])
def test_lines_of_the_table_fit_the_terminal(shown, columns):
    lines = [line for line in shown(columns).splitlines() if "±" in line]
    assert lines
    assert max(map(len, lines)) <= int(columns)


def test_a_table_per_workload_with_the_fastest_first(shown):
    text = shown()
    first, second = text.index("B=1 qk4_v8"), text.index("B=256 qk16_v32")
    order = [text.index(f"\n{label} ") for label in ("decode-floor-copy", "decode-v4", "decode-v1")]
    assert first < min(order) < max(order) < second
    assert order == sorted(order)


def test_what_qualifies_a_row_is_told_beside_or_below_it(shown):
    for columns in ("80", "200"):
        text = " ".join(shown(columns).split())
        assert "3 of 21 rounds below 97%" in text
        assert "17 more rounds" in text
        assert "spills 16 B" in text
        assert text.count(" launches") == text.count("11 launches") == 1  # the others are one launch each
        assert "other processes are on the GPU: python (1234)" in text


def test_the_noise_floor_is_told(shown):
    (line,) = (line for line in shown().splitlines() if line.startswith("A/A"))
    assert "decode-fla" in line
    assert "1.000x" in line
    assert "SAME" in line


def test_a_floor_that_moves_nothing_has_no_bandwidth_and_hides_no_traffic(stored, shown):
    empty = Measurement(
        case=case("decode-floor-empty", Role.FLOOR), status=Status.OK, timing=timing(2.0, bandwidth_gbs=math.nan)
    )
    store(stored, [empty, measured(case("decode-fla", Role.BASELINE), 5.13)])
    text = shown()
    assert "nan" not in text
    assert "B=1 qk4_v8  (1.05 MB)" in text
    document = json.loads(shown(json=True), parse_constant=pytest.fail)
    assert [row["bandwidth_gbs"] for row in document["measurements"]] == [None, pytest.approx(1055 / 4.0, rel=0.3)]


def test_failures_are_listed_with_all_of_their_reasons(shown):
    text = shown()
    assert "kernel.cu(3): error: [expected] a ;" in text
    assert re.search(r"^ +\^$", text, re.MULTILINE)
    for label, status in (("decode-broken", "build-failed"), ("decode-hopper-only", "unsupported")):
        assert re.search(rf"{label}.*{status}|{status}.*{label}", text)


@pytest.mark.parametrize("variable", ["NO_COLOR", None])
def test_no_escape_codes_outside_a_terminal_or_where_unwanted(shown, monkeypatch, variable):
    if variable:
        monkeypatch.setenv(variable, "1")
    assert "\x1b" not in shown()


def test_a_partial_run_says_so(stored, shown):
    assert "(partial)" not in shown()
    store(stored, ROWS, complete=False)
    assert "(partial)" in shown()


def test_workloads_that_a_stopped_run_did_not_come_to_share_a_line(stored, shown):
    left = [
        failed(replace(case("decode-v4"), workload=decode_at(B=batch)), Status.NOT_RUN, "stopped")
        for batch in (8, 16, 32)
    ]
    store(stored, [*ROWS, *left], complete=False)
    text = " ".join(shown().split())
    assert "not-run 3 workloads, B=8 qk4_v8 to B=32 qk4_v8: the run was stopped before their turn" in text
    assert "B=16" not in text


def test_the_next_command_can_be_copied_however_narrow_the_terminal(stored, shown):
    folder = stored / ("20260102-030405-h200-decode-" + "a-long-label-" * 8)
    folder.mkdir()
    store(folder, ROWS, run_id=folder.name)
    (line,) = (line for line in shown(folder=folder).splitlines() if line.startswith("next: "))
    assert line == f"next: gdnbench show {folder.name} --out {stored} --csv"


def test_a_run_that_was_stopped_is_to_be_finished(stored, shown):
    folder = stored / ".20260102-030405-h200-decode.partial"
    folder.mkdir()
    store(folder, ROWS, complete=False)
    assert shown().splitlines()[-1].startswith("next: gdnbench show ")
    assert "(partial)" in shown(folder=folder)
    assert shown(folder=folder).splitlines()[-1] == f"next: gdnbench run --resume {info().run_id} --out {stored}"


def test_json_is_whole_and_unknown_numbers_are_null(shown):
    document = json.loads(shown(json=True), parse_constant=pytest.fail)
    rows = {(row["label"], row["B"]): row for row in document["measurements"]}
    assert len(rows) == len(ROWS)
    assert rows["decode-new", 1]["sol"] is None
    assert rows["decode-new", 1]["vs_hi"] is None
    assert rows["decode-broken", 1]["status"] == "build-failed"
    assert rows["decode-v4", 1]["time_us"] == pytest.approx(4.321)
    assert document["run"]["run_id"] == info().run_id


def test_csv_parses_and_holds_every_row(shown):
    rows = list(csv.DictReader(io.StringIO(shown(csv=True))))
    assert len(rows) == len(ROWS)
    by_label = {row["label"]: row for row in rows if row["B"] == "1"}
    assert by_label["decode-broken"]["reason"].count("\n") == 2
    assert (by_label["decode-v4"]["time_us"], by_label["decode-broken"].get("time_us")) == ("4.321", "")
    assert by_label[LONG]["BV"] == "128"
    assert (by_label["decode-new"]["launches"], by_label["decode-v4"]["launches"]) == ("11", "1")


def cpu_run(folder, builds):
    rows = [
        measured(case("decode-reference", Role.BASELINE), 812.3),
        failed(case("decode-v4"), Status.UNSUPPORTED, "needs a GPU"),
    ]
    store(folder, rows, gpu="cpu", machine={"gpu": None}, baseline="decode-reference")
    write_builds(folder, builds)


def test_without_a_gpu_builds_are_shown_instead_of_times(stored, shown):
    made = [
        BuildRow(
            kernel=label, label=label, language="cuda", series="qk4_v8", arch=arch, registers=32, shared_bytes=49152,
            spill_bytes=128, load_bits=256, code_bytes=4096, interpreter="passed",
        )
        for label in ("decode-v4", LONG)
        for arch in ("sm_90", "sm_100")
    ]  # fmt: skip
    broken = BuildRow(
        kernel="x", label="decode-x", language="cuda", series="qk16_v32", arch="sm_90", status="build-failed",
        reason="error: no [such] thing",
    )  # fmt: skip
    cpu_run(stored, [*made, broken])
    text = shown()
    assert "…" not in text
    assert "error: no [such] thing" in text
    lines = [line for line in text.splitlines() if "49152" in line]
    assert len(lines) == 2
    for line in lines:
        assert line.count("49152") == line.count(" 32 ") == line.count(" 128 ") == line.count(" 256 ") == 2
        assert "passed" in line
    assert "MHz" not in text
    assert "of bound" not in text


def test_without_a_gpu_a_build_says_why_its_products_are_serialized(stored, shown):
    made = BuildRow(
        kernel="decode-v4", label="decode-v4", language="cuda", series="qk4_v8", launch="scan", arch="sm_90",
        registers=32, shared_bytes=0, spill_bytes=0, load_bits=128, code_bytes=4096,
    )  # fmt: skip
    cpu_run(stored, [made])
    assert "serializes" not in shown()
    cpu_run(stored, [replace(made, serialized_because="registers")])
    assert "decode-v4/scan sm_90: ptxas serializes the wgmma: registers" in shown()


@pytest.mark.parametrize("reason", ["\n", " ", "[bold]not markup[/bold]", "[/]", "x" * 500])
def test_whatever_the_reason_a_run_can_be_shown(stored, shown, reason):
    store(stored, [failed(case("decode-odd"), reason=reason)])
    text = shown()
    assert "decode-odd" in text
    assert reason.strip() in text.replace("\n", "")


def test_a_run_without_a_baseline_can_be_shown(stored, shown):
    store(stored, [measured(case("decode-v4"))], baseline="")
    assert "decode-v4" in shown()


PICKED = [
    measured(case("decode-auto", kernel="decode-v6", WARPS=8), 4.3, versus(1.19)),
    measured(case("decode-auto", workload=BIG, kernel="decode-triton", BV=16, WARPS=8), 1000.0, versus(12.0)),
]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_what_a_dispatcher_picked_is_told_at_each_workload(stored, shown, columns):
    store(stored, ROWS + PICKED)
    small, large = shown(columns).split("B=256 qk16_v32")
    assert "decode-v6 WARPS=8" in small
    assert "decode-triton BV=16 WARPS=8" in large
    assert "decode-auto" in small
    if columns == "80":
        assert "  decode-auto: decode-v6 WARPS=8\n" in small


def test_rows_of_a_dispatcher_hold_the_kernel_that_was_picked(stored, shown):
    store(stored, ROWS + PICKED)
    rows = [row for row in csv.DictReader(io.StringIO(shown(csv=True))) if row["label"] == "decode-auto"]
    assert [(row["kernel"], row["BV"], row["WARPS"]) for row in rows] == [
        ("decode-v6", "", "8"),
        ("decode-triton", "16", "8"),
    ]


def test_where_flops_bind_their_rate_is_shown_and_the_legend_says_what_bounds(shown, tmp_path_factory):
    text = shown("100", store_bound_by_flops(tmp_path_factory.mktemp("flops")))
    small, large = text.split("B=256", 1)
    assert "MB, bound by copying)" in small
    assert "MB, bound by FLOPs)" in large
    assert "TFLOP/s" in small
    assert "TFLOP/s" in large
    (line,) = (line for line in large.splitlines() if line.startswith("decode-v4"))
    assert line.split()[1:6] == ["12.346", "±0.10%", "0", "68.0", "68.7%"]
    assert "of bound: the bound's time / the kernel's, launch on both sides." in text
    assert "FLOPs of the op / time" in text
    assert "fastest copying floor's time / the kernel's" not in text


@pytest.mark.parametrize(("here", "there"), [(1.5, 1.5), (1.5, 2.5)])
def test_by_how_much_times_depend_on_the_inputs_is_told_once_for_all_profiles_of_some_sizes(
    shown, tmp_path, here, there
):
    rows = [
        measured(
            case("decode-v4", workload=decode_at(B=batch).at(profile), WARPS=8),
            inputs=InputsEffect("never", "forgetful", ratio, 0.99 * ratio, 1.01 * ratio),
        )
        for batch, ratio in ((1, here), (8, there))
        for profile in ("", "mixed-heads", "never")
    ]
    store(tmp_path, rows)
    text = shown("120", tmp_path)
    assert len(re.findall("^B=", text, re.MULTILINE)) == 6
    small, large = text[: text.index("B=8")], text[text.index("B=8") :]
    assert [part.count("inputs: decode-v4 takes") for part in (small, large)] == [1, 1]


def test_what_another_profile_lost_is_told_where_the_lines_differ(shown, tmp_path):
    effect = InputsEffect("never", "forgetful", 1.5, 1.4, 1.6)
    one, both = (decode_at(B=1).at(profile) for profile in ("never", "mixed-heads"))
    store(
        tmp_path,
        [
            measured(case("decode-v4", workload=one, WARPS=8), inputs=effect),
            failed(case("decode-v8", workload=one)),
            measured(case("decode-v4", workload=both, WARPS=8), inputs=effect),
            measured(case("decode-v8", workload=both), inputs=effect),
        ],
    )
    lines = [line for line in shown("200", tmp_path).splitlines() if line.startswith("inputs:")]
    assert ["decode-v8" in line for line in lines] == [False, True]


def test_where_copying_bounds_everything_there_are_no_flops(shown):
    text = shown("120")
    assert "FLOP" not in text
    assert "bound by" not in text
    assert "of bound: the fastest copying floor's time / the kernel's, launch on both sides." in text


def test_long_times_are_in_milliseconds_and_always_in_microseconds_for_programs(shown, tmp_path_factory):
    folder = store_bound_by_flops(tmp_path_factory.mktemp("long"))
    small, large = shown("100", folder).split("B=256", 1)
    assert "time µs" in small
    assert "time ms" in large
    assert "time µs" not in large
    rows = json.loads(shown(folder=folder, json=True))["measurements"]
    assert [(row["time_us"], row["tflops"], row["bound"]) for row in rows[3:5]] == [
        (20_345.6, 41.26, "flops"),
        (12_345.6, 68.0, "flops"),
    ]
    table = list(csv.DictReader(io.StringIO(shown(folder=folder, csv=True))))
    assert (table[4]["time_us"], table[4]["tflops"], table[4]["bound"]) == ("12345.6", "68", "flops")
    assert (table[1]["tflops"], table[1]["bound"]) == ("", "")


@pytest.mark.parametrize("status", [Status.WRONG_WHEN_TIMED, Status.IMPLAUSIBLE])
def test_what_only_a_run_shows_is_to_be_run_again(shown, tmp_path, status):
    folder = tmp_path / "cheats"
    folder.mkdir()
    store(folder, [measured(case("decode-fla", Role.BASELINE), 5.13), failed(case("decode-late"), status, "not so")])
    assert shown(folder=folder).splitlines()[-1] == "next: gdnbench run --kernel decode-late --shape B=1 --gpu h200"
