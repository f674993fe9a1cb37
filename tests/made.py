"""Runs, sweeps, verdicts and comparisons that are made up, for what no committed run has; `golden.MADE` prints them."""

import math
from dataclasses import replace

from clocks_data import LABELS, rows_of, store_clocks, without_time
from code_data import OTHER
from compare_data import compared, figure, published, run_of, source, with_params
from compare_data import failed as failed_figure
from decode_workloads import decode_at
from launches_data import store_profile
from run_data import case, failed, measured, store, store_bound_by_flops, timing, versus
from stamps_data import about, specialised, stamps
from sweep_data import JOINT, KERNEL, LARGE, SMALL, point, store_sweep, sweep_of

from gdnbench.model.measurement import InputsEffect, Measurement, OneForAll, Place
from gdnbench.model.status import GateResult, InvarianceResult, Role, Status, WrongElements
from gdnbench.store.journal import Examined
from gdnbench.store.tables import BuildRow, write_builds, write_sweep
from gdnbench.verbs.compare_tables import print_comparison
from gdnbench.verbs.verify_tables import print_verdicts
from gdnbench.verify.preflight import Verification

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
    failed(case("decode-odd"), Status.CRASHED, "[bold]not markup[/bold] [/]"),
    measured(case("decode-fla", Role.BASELINE, BIG), 12_345.6),
    measured(case("decode-v4", workload=BIG, WARPS=8), 1023.4, versus(12.06)),
    measured(case("decode-auto", kernel="decode-v6", WARPS=8), 4.3, versus(1.19)),
    measured(case("decode-auto", workload=BIG, kernel="decode-triton", BV=16, WARPS=8), 1000.0, versus(12.0)),
]  # fmt: skip
NOT_RUN = [failed(case("decode-v4", workload=decode_at(B=batch)), Status.NOT_RUN, "stopped") for batch in (8, 16, 32)]
EMPTY = Measurement(
    case=case("decode-floor-empty", Role.FLOOR), status=Status.OK, timing=timing(2.0, bandwidth_gbs=math.nan)
)
EFFECTS = [
    measured(
        case("decode-v4", workload=decode_at(B=batch).at(profile), WARPS=8),
        inputs=InputsEffect("never", "forgetful", ratio, 0.99 * ratio, 1.01 * ratio),
    )
    for batch, ratio in ((1, 1.5), (8, 2.5))
    for profile in ("", "mixed-heads", "never")
]
CHEATS = [
    measured(case("decode-fla", Role.BASELINE), 5.13),
    failed(case("decode-late"), Status.WRONG_WHEN_TIMED, "not so"),
]
FAILED_POINTS = [{"BV": 4, "WARPS": warps} for warps in (1, 8)] + [{"BV": 16, "WARPS": 2}, {"BV": 16, "WARPS": 8}]
GRID = sweep_of(
    {KERNEL: {"STAGES": [1, 2], "BV": [4, 8], "WARPS": [1, 2]}},
    sorted(
        (
            point(0.5 * (bv == 4) + 0.1 * (warps == 1) + 0.01 * (stages == 1), BV=bv, WARPS=warps, STAGES=stages)
            for bv in (4, 8) for warps in (1, 2) for stages in (1, 2)
        ),
        key=lambda each: each.slower_by,
    ),
)  # fmt: skip
LINES = sweep_of(
    {KERNEL: {"BV": [4, 8, 16]}},
    [point(0.0, SMALL, BV=8), point(0.1, SMALL, BV=4), point(0.25, SMALL, BV=16)],
    [point(0.0, LARGE, BV=16), point(0.5, LARGE, BV=4)],
)
WIDE = sweep_of(
    {KERNEL: {"BV": [2**n for n in range(12)], "WARPS": [1 << n for n in range(12)], "A_LONG_PARAM_NAME": [1, 2]}},
    [point(0.003 * n, BV=2**n, WARPS=2048 >> n, A_LONG_PARAM_NAME=1) for n in range(12)],
)
ODD = {
    "one-value": sweep_of({KERNEL: {"BV": [4]}}, [point(0.0, BV=4)]),
    "one-of-two": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4)]),
    "alike": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4), point(0.0, place=Place.TIED, BV=8)]),
    "text": sweep_of({KERNEL: {"MODE": ["[red]", "ünï"]}}, [point(0.0, MODE="ünï"), point(0.1, MODE="[red]")]),
    "none": sweep_of({KERNEL: {"BV": [4, 8]}}),
    "faster": sweep_of(
        {KERNEL: {"BV": [4, 8], "WARPS": [1, 2]}},
        [point(0.0, BV=4, WARPS=1), point(-0.5, place=Place.SLOWER, BV=8, WARPS=2)],
    ),
    "far": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, BV=4), point(1234.5, BV=8)]),
    "heads": sweep_of({KERNEL: {"BV": [4, 8]}}, [point(0.0, decode_at(HQ=2, HV=4, K=64, V=32), BV=4)]),
}


def rivals(workload, best, others):
    """The final of two kernels at a workload, and the plateaus of one point each that they come from."""
    first = point(0.0, workload, kernel=best[0], **best[1])
    second = point(others[2], workload, others[3], kernel=others[0], **others[1])
    alone = [[first], [replace(second, place=Place.BEST, slower_by=0.0, slower_lo=0.0, slower_hi=0.0)]]
    return (first, second), alone


TWO = {"decode-x": {"BV": [4, 8]}, "decode-y": {"WARPS": [2, 4]}}
WIDE_HEADS = decode_at(B=2, HQ=16, HV=32)
FINALS = [
    rivals(SMALL, ("decode-x", {"BV": 8}), ("decode-y", {"WARPS": 2}, 0.09, Place.SLOWER)),
    rivals(LARGE, ("decode-y", {"WARPS": 4}), ("decode-x", {"BV": 8}, 0.001, Place.TIED)),
    rivals(WIDE_HEADS, ("decode-y", {"WARPS": 4}), ("decode-x", {"BV": 4}, 0.004, Place.UNCLEAR)),
]
RACED = replace(
    sweep_of(TWO, *(group for _, alone in FINALS for group in alone)),
    finals=tuple(each for final, _ in FINALS for each in final),
)
APART = sweep_of(
    {"decode-x": {"BV": [4, 8]}, "decode-y": {"BV": [4, 8]}},
    *([point(0.0, workload, kernel=name, BV=4 * n)] for n, name in ((1, "decode-x"), (2, "decode-y"))
      for workload in (SMALL, LARGE)),
    one_for_all=[
        OneForAll(kernel=f"decode-{name}", label=f"decode-{name}:BV={bv}", regret={SMALL: 0.0, LARGE: 0.0})
        for name, bv in (("x", 4), ("y", 8))
    ],
)  # fmt: skip


def store_floors(folder):
    """A sweep of a floor: its points are in the role of a floor, and there is no baseline."""
    floor = "decode-floor-copy"
    points = [point(0.0, kernel=floor, WARPS=8), point(0.07, kernel=floor, WARPS=16)]
    rows = [
        measured(case(each.label, Role.FLOOR, kernel=floor, **each.params), 4.0 * (1 + each.slower_by))
        for each in points
    ]
    rows.append(failed(case(f"{floor}:WARPS=1", Role.FLOOR, WARPS=1), Status.BUILD_FAILED, "too few"))
    store(folder, rows, swept={floor: ["WARPS"]}, baseline="")
    write_sweep(folder, sweep_of({floor: {"WARPS": [1, 8, 16]}}, points))


def store_builds(folder):
    """A run without a GPU: builds for two architectures, one that failed, and one whose products are serialized."""
    rows = [
        measured(case("decode-reference", Role.BASELINE), 812.3),
        failed(case("decode-v4"), Status.UNSUPPORTED, "needs a GPU"),
    ]
    store(folder, rows, gpu="cpu", machine={"gpu": None}, baseline="decode-reference")
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
    slow = replace(made[0], kernel="decode-v7", label="decode-v7", launch="scan", serialized_because="registers")
    write_builds(folder, [*made, broken, slow])


def clocked(*clocks, labels=tuple(LABELS), without=""):
    """Stores a run with further clocks; the first of them has no time of the kernel `without`."""
    rows = [row for clock in ("nvbench", *clocks) for row in rows_of(clock, labels)]
    rows = [
        without_time(row) if row.clock == clocks[0] and row.case.label == without else row for row in rows
    ]  # fmt: skip
    return lambda folder: store_clocks(folder.parent, rows=rows, clocks=clocks, run_id=folder.name)


def rows(some, **more):
    return lambda folder: store(folder, some, **more)


def sweep(some, **more):
    return lambda folder: store_sweep(folder, some, **more)


STORED = {
    "rows": rows(ROWS, warnings=["other processes are on the GPU: python (1234)"]),
    "partial": rows([*ROWS[:3], *NOT_RUN], complete=False),
    "empty-floor": rows([EMPTY, ROWS[0]]),
    "no-baseline": rows([measured(case("decode-v4"))], baseline=""),
    "effects": rows(EFFECTS),
    "cheats": rows(CHEATS),
    "flops": store_bound_by_flops,
    "builds": store_builds,
    "clocks": clocked("cupti", "graph"),
    "clocks-graph": clocked("graph"),
    "clocks-no-empty": clocked("cupti", labels=tuple(label for label in LABELS if label != "decode-floor-empty")),
    "clocks-missing": clocked("cupti", "graph", without="decode-v4"),
    "sweep-joint": sweep(JOINT, without=FAILED_POINTS),
    "sweep-failed": sweep(sweep_of({KERNEL: {"BV": [4, 16], "WARPS": [1, 2, 8]}}), without=FAILED_POINTS),
    "sweep-grid": sweep(GRID, complete=False),
    "sweep-lines": sweep(LINES),
    "sweep-wide": sweep(WIDE),
    "sweep-raced": sweep(RACED),
    "sweep-apart": sweep(APART),
    "sweep-floors": store_floors,
    **{f"sweep-{name}": sweep(found) for name, found in ODD.items()},
}
"""By name, what writes a run to a folder."""

OUTPUT = "output within 1 ulp + 1e-05"
GOOD, BAD = case("decode-triton:BV=128:WARPS=16", BV=128), case("decode-bad")
GOOD_64, FAR = case("decode-triton:BV=128:WARPS=16", workload=decode_at(B=64), BV=128), case("decode-far")
BAD_3, UNSAFE = case("decode-bad", workload=decode_at(B=3)), case("decode-v4")
WRONG = WrongElements(64, 1024, 0.25, -1.5, "HV 3 of 8; V 0,2,…,126 of 128")
FAILED = GateResult(OUTPUT, "zero-b", math.inf, 1.0, "[0, 0, 7, 127]", Status.WRONG_NUMBERS, WRONG)
TOLD = "kernel.cu:7: thread 31 of block 0 reads 4 bytes at byte 128 of `state`, which has 128"
OUTSIDE = GateResult("memory and barriers", "typical", 1.0, 0.0, "kernel.cu:7", Status.UNSAFE, told=TOLD)
JUDGED = {
    GOOD.id: Examined(
        GOOD.id, Status.OK, gates=(GateResult(OUTPUT, "typical", 0.51, 1.0, "[0, 0, 3, 9]", "ok"),),
        notes=("two launches on the same inputs differ in 3 of 1,024 elements of output",),
    ),
    GOOD_64.id: Examined(
        GOOD_64.id, Status.OK, gates=(GateResult(OUTPUT, "saturated-gates", 0.97, 1.0, "[63, 0, 7, 127]", "ok"),)
    ),
    BAD.id: Examined(BAD.id, Status.WRONG_NUMBERS, FAILED.reason, (FAILED,)),
    BAD_3.id: Examined(BAD_3.id, Status.WRONG_NUMBERS, "another element", (FAILED,)),
    FAR.id: Examined(FAR.id, Status.UNSUPPORTED, "needs a GPU [any]"),
    UNSAFE.id: Examined(
        UNSAFE.id, Status.UNSAFE, OUTSIDE.reason, (OUTSIDE,),
        notes=("kernel.cu:9: loads 32 sectors a request, where 16 hold the bytes",),
    ),
}  # fmt: skip
CASES = (GOOD, GOOD_64, BAD, BAD_3, FAR, UNSAFE)
HERE = {GOOD.id: "Triton's interpreter", UNSAFE.id: "the interpreter of PTX"}


EQUAL = InvarianceResult("batch", True, "B=1 | B=8", 3, 0, 2048)
DEPENDING = {
    GOOD.id: replace(JUDGED[GOOD.id], invariance=(
        EQUAL,
        InvarianceResult("append", False, skipped="there are no sequences of two tokens or more"),
        InvarianceResult(
            "split", False, "BV=128 | 2", 2, 7, 1024, "output 7 of 1,024", "output[0, 3], 1 and 2", 0.078, "BV=128 | 2"
        ),
    )),
    GOOD_64.id: replace(JUDGED[GOOD_64.id], invariance=(
        replace(EQUAL, pair="B=64 | B=1", differing=64, first="output[0, 3], 1 and -1", in_gates=math.inf),
    )),
}  # fmt: skip


def compiled(*places):
    """Prints verdicts of three workloads, of which those at some places only compile."""
    cases = tuple(case("decode-v4", workload=decode_at(B=number + 1)) for number in range(3))
    told = "compiles for sm_90; its numbers need a GPU"
    found = {
        each.id: Examined(each.id, *((Status.UNSUPPORTED, told) if number in places else (Status.OK,)))
        for number, each in enumerate(cases)
    }
    interpreted = {each.id: "the interpreter of PTX" for each in cases}
    ids = frozenset(cases[number].id for number in places)
    return lambda **form: print_verdicts(Verification(7, "cpu", cases, found, interpreted, ids), **form)


KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}
SLOWER = {("decode-v4", 1): 1.05, ("decode-v4", 8): 1.05}
WEATHER = {"driver": "580", "triton": "3.6", "samples": "100", "GPU": "GPU-1"}


def comparison(*sides, **how):
    return lambda **form: print_comparison(compared(*sides, **how), None, ["one", "other run"], **form)


PRINTED = {
    "verdicts": lambda **form: print_verdicts(Verification(7, "cpu", CASES, JUDGED, HERE), **form),
    "verdicts-invariance": lambda **form: print_verdicts(
        Verification(7, "cpu", CASES, JUDGED | DEPENDING, HERE, invariance=True), **form
    ),
    "verdicts-some": compiled(1),
    "verdicts-none": compiled(0, 1, 2),
    "compared": comparison(run_of(KERNELS), run_of(KERNELS, "other", strays=SLOWER, launch=0.12)),
    "compared-kernel-times": comparison(
        run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", launch=1.65, kernel_times=True)
    ),
    "compared-one-without": comparison(run_of(KERNELS, kernel_times=True), run_of(KERNELS, "other", launch=1.65)),
    "compared-models": comparison(run_of(KERNELS), run_of(KERNELS, "other", gpu="h100")),
    "compared-conditions": comparison(
        run_of(KERNELS, conditions=WEATHER, warnings=("a cold day",)),
        run_of(KERNELS, "other", conditions={**WEATHER, "driver": "590", "GPU": "GPU-2", "fla-core": "0.6"}),
    ),
    "compared-published": comparison(
        source(figure(time_us=4.0)), published(figure(time_us=5.0, rounds=0, timer="cupti", citation="a paper, 2026"))
    ),
    "compared-workloads": comparison(
        source(figure(workload=decode_at(B=4))),
        source(figure(workload=decode_at(B=4, HQ=16, HV=32)), name="other"),
        rows="label,B",
    ),
    "compared-missing": comparison(
        source(figure("decode-fla"), figure(), failed_figure("decode-v1"), figure("decode-v2"), figure("decode-v3")),
        source(
            figure("decode-fla"), failed_figure(status=Status.WRONG_NUMBERS), figure("decode-v1"),
            figure("decode-v9"), name="[b]",
        ),
    ),
    "compared-params": comparison(
        source(figure("decode-v1"), figure(**with_params("decode-v4", WARPS=8))),
        source(figure("decode-v1"), figure(**with_params("decode-v4", WARPS=4)), name="b"),
    ),
    "compared-three": comparison(*(run_of(KERNELS, name) for name in ("one", "two", "three"))),
    "compared-labels": comparison(
        run_of(KERNELS), columns="label", rows="B", filtered="label=decode-v1,decode-v4"
    ),
    "compared-one-round": comparison(
        source(figure(), figure("decode-v1", rounds=1)), source(figure(), figure("decode-v1"), name="b")
    ),
}  # fmt: skip
"""By name, what prints verdicts or a comparison in a form."""


def warn(home):
    """Stamps that everything is wrong with: too few, of no store, of a warp that is silent, and slow."""
    made_up = stamps(about_=about(asked=200, stamped_spill_bytes=16), warps=8)
    made_up.records[:, :, 6] = 0
    made_up.records[0, 7] = 0xFFFFFFFF
    replace(made_up, stamped_us=made_up.plain_us * 1.5).write(home / "a.npz")


def stamp_launches(home):
    for entry, after in (("prologue", 0), ("scan", 15_000)):
        stamps(after=after, about_=about(entry=entry)).write(home / f"{entry}.npz")


REVERSED = {"partial_sums": "decode-v4-B1", "add_sums": "decode-v1-B1"}
SCENES = {
    "split": lambda home: store_profile(home / "profiles"),
    "split-reversed": lambda home: store_profile(home / "profiles", functions=REVERSED),
    "split-lacking": lambda home: store_profile(home / "profiles", functions={"add_sums": "decode-v4-B1"}),
    "split-other": lambda home: store_profile(home / "profiles", source=OTHER),
    "split-table": lambda home: store_profile(home / "profiles").rename(home / "split.csv"),
    "roles": lambda home: specialised().write(home / "a.npz"),
    "warned": warn,
    "stamped": stamp_launches,
}
"""By name, what lays profiles out in a folder."""
