"""Commands whose whole output is held in `data/golden`: by name, the command and the forms that are kept of it.

A form is a width of the terminal, or an option: `json`, `csv`, `md`. `NAME.txt` is at 120 columns, `NAME.60.txt` at 60.
"""

WIDTHS = "60 80 120"
TABLES = f"{WIDTHS} json csv"
FORMS = {"json": "--json", "csv": "--csv", "md": "--markdown"}
_DECODE = "decode/decode_HQ4_HV8_K128_V128"

EARLY_RUNS = (
    "20261121-100542-h200-decode-main",
    "20261121-101900-h200-decode-main",
    "20261121-104159-h200-decode",
    "20261121-104327-h200-decode-plain-1",
    "20261121-104356-h200-decode-default-1",
    "20261121-104427-h200-decode-plain-2",
    "20261121-104456-h200-decode-default-2",
    "20261121-104526-h200-decode-plain-3",
    "20261121-104557-h200-decode-default-3",
    "20261121-180525-h200-decode-sweep-bv",
    "20261121-180544-h200-decode-sweep-joint",
    "20261121-181852-h200-decode-main",
    "20261121-182329-h200-decode-sweep-batches",
    "20261121-182434-h200-decode-sweep-tma",
    "20261121-185007-h200-decode-main",
    "20261121-185458-h200-decode-main",
    "20261121-212854-h200-decode-clocks",
    "20261121-221410-h200-decode-candidates",
    "20261121-221559-h200-decode-hopper",
    "20261122-003003-h200-decode-dispatch",
    "20261122-003129-h200-decode-dispatch-qk16",
    "20261122-023027-h200-decode-triton-one",
    "20261122-024054-h200-decode-hopper",
    "20261122-024300-h200-decode-hopper-qk16",
    "20261122-024409-h200-decode-ablation",
)
LATER_RUNS = (
    "20261121-180525-h200-decode-sweep-bv",
    "20261121-185458-h200-decode-main",
    "20261121-212854-h200-decode-clocks",
    "20261123-014131-h200-decode-hopper",
    "20261123-020752-h100-decode-both-card0",
    "20261123-020752-h100-decode-both-card1",
    "20261123-234637-h200-prefill-contest",
    "20261124-044753-h200-verify-last",
    "20261124-044856-h200-layer-step",
    "20261124-173427-h200-decode-try-1",
    "20261124-181737-h200-nvfp4-grouped-gemm-contest",
    "20261125-093320-h200-launches-step-launches",
    "20261126-003619-h100-fp8-gemm-pos-processes",
)
MAIN, SWEEP, CLOCKS, HOPPER, *CARDS, CONTEST, VERIFY, STEP, TRY, NVFP4, LAUNCHES, FP8 = LATER_RUNS
SWEEP, MAIN = MAIN, SWEEP
PROFILES = {
    "ncu": ("decode-fla", "decode-triton", "decode-v1", "decode-v4", "prefill-v4"),
    "phases": ("decode-v4", "decode-v9"),
    "proton": ("decode-triton",),
}
_REPORTS = {"fla": "212808", "triton": "212755", "v1": "212731", "v4": "212745"}
NCU = {name: f"profiles/ncu/decode-{name}/20261121-{time}-h200-B1-qk4_v8.csv" for name, time in _REPORTS.items()}
STAMPS = "profiles/phases/decode-v9/20261122-024451-h200-B1-qk4_v8.npz"
PROTON = "profiles/proton/decode-triton/20261121-212839-h200-B1-qk4_v8.json"

EARLY = {f"show-{run}": (f"show {run}", "120") for run in EARLY_RUNS} | {
    "show-main": ("show 20261121-185458", "csv"),
    "show-clocks": ("show clocks", "csv json"),
    "show-ablation": ("show ablation", "csv json"),
    "show-plain-1": ("show plain-1", "json"),
    "show-sweep-bv": ("show sweep-bv", "csv json"),
    "show-latest": ("show", "120"),
    "show-latest-of-a-gpu": ("show h200", "120"),
    "show-sweep-joint-declaration": ("show sweep-joint --emit-dispatch", "120"),
    "show-dispatch-declaration": ("show 20261122-003003 --emit-dispatch", "120"),
    "show-dispatch-qk16-declaration": ("show dispatch-qk16 --emit-dispatch", "120"),
    "show-contest-over": ("show 20261122-024054 --suite contest --over decode-fla,decode-flashinfer", "120 csv"),
    "show-contest-incomplete": ("show 20261121-185458 --suite contest", "120"),
    "show-unknown": ("show 20251121", "120"),
    "compare-two-cards": ("compare 20261121-181852 20261121-185458", "120"),
    "compare-markdown": ("compare default-1 default-2 --filter B=1", "md"),
    "compare-defaults": ("compare default-1 default-2", "csv json"),
    "compare-three-defaults": ("compare default-1 default-2 default-3", WIDTHS),
    "compare-plain-and-default": ("compare plain-1 default-1", "120"),
    "compare-dispatch-qk4-and-qk16": ("compare 20261122-003003 dispatch-qk16 --rows label,B --cols heads", "120"),
    "compare-two-in-a-cell": ("compare plain-1 default-1 --rows kernel --cols run", "120"),
    "compare-sweeps": ("compare sweep-joint sweep-batches --filter B=1", "120"),
    "compare-clocks": ("compare clocks --cols kernel", "120"),
    "compare-by-batch": ("compare 20261122-024054 --rows label --cols B", "120"),
    "compare-kernels": ("compare 20261121-185458 --cols label --filter label=decode-fla,decode-v4,decode-v6", "120"),
    "compare-two-kernels": ("compare default-1 --cols label --filter label=decode-fla,decode-v4", "json"),
    "compare-published": ("compare 20261121-185458 published/b200", WIDTHS),
    "compare-published-two": ("compare plain-1 published/b200 published/rtx3090", "csv"),
    "compare-published-alone": ("compare published/rtx3090 published/b200", "120"),
    "compare-gate-passed": ("compare default-1 default-3 --fail-on slower:20% --strict", "120"),
    "compare-gate-failed": ("compare 20261121-181852 20261121-185458 --fail-on slower:1%", "120"),
    "compare-gate-unclear": ("compare default-1 default-2 --fail-on slower:0.5% --strict", "120"),
    "compare-unknown-key": ("compare plain-1 default-1 --rows colour", "120"),
    "history-v4": ("history decode-v4", f"{WIDTHS} json"),
    "history-v4-batches": ("history decode-v4 --shape B=1,8,64", "120 csv"),
    "history-compiled": ("history decode-compiled --shape B=8", "120"),
    "history-baseline": ("history decode-fla", "120"),
    "history-triton": ("history decode-triton", "120"),
    "history-v9": ("history decode-v9 --shape B=1,16", "120"),
    "history-v9-qk16": ("history decode-v9 --shape heads=qk16_v32", "120"),
    "history-unknown": ("history decode-v4 --shape B=3", "120"),
}
"""Of the runs of the first days, of schema 1, which will be read for ever."""

LATER = {
    "list": ("list decode-v4,decode-triton,decode-fla,decode-floor-copy", f"{TABLES} md"),
    "list-long": ("list decode-v4,decode-triton", "80"),
    "list-op": ("list --op nvfp4-gemv", "80"),
    "list-unknown": ("list decode-v44", "80"),
    "list-unknown-of-an-op": ("list epilogue-refrence", "80"),
    "show-run": (f"show {HOPPER}", WIDTHS),
    "show-one": (f"show {TRY}", f"{TABLES} md"),
    "show-columns": (f"show {TRY} --columns 'kernel,kernel us,verdict' --sort -stream --legend", "60 80"),
    "show-columns-csv": (f"show {TRY} --columns label,time_us --sort -time_us --csv", "80"),
    "show-column-unknown": (f"show {TRY} --sort bandwidth", "80"),
    "show-verify": (f"show {VERIFY}", "80 120"),
    "show-nvfp4": (f"show {NVFP4}", "60 80 120 csv"),
    "show-fp8": (f"show {FP8}", "80 120"),
    "show-sweep": (f"show {SWEEP}", "60 80"),
    "show-step": (f"show {STEP}", "60 80 120 csv"),
    "show-launches": (f"show {LAUNCHES}", TABLES),
    "show-suite": (f"show {HOPPER} --suite contest --over decode-fla,decode-flashinfer", "60 80"),
    "show-cards": (f"show {' '.join(CARDS)}", "60 80 120 csv"),
    "contest": (f"show {HOPPER} --contest", TABLES),
    "contest-both": (f"show {HOPPER} {CONTEST} --contest", "80 csv"),
    "chart-without-work": (f"show {MAIN} --chart roofline -o roofline.svg", "80"),
    "show-two-runs-refused": (f"show {MAIN} {HOPPER}", "80"),
    "compare": (f"compare {MAIN} {HOPPER}", "60 80 120"),
    "compare-h100": (f"compare {HOPPER} {CARDS[0]} --filter B=1,64", f"{TABLES} md"),
    "compare-contest": (f"compare {CONTEST} published/contest", "80 120"),
    "history": ("history decode-v9", f"{TABLES} md"),
    "runs": ("runs", TABLES),
    "report": (f"report {TRY} {NVFP4} {SWEEP} -o report.html", "html"),
    "ncu": (f"ncu --import {' '.join(NCU.values())}", TABLES),
    "ncu-one": (f"ncu --import {NCU['v4']}", "80"),
    "ncu-diff": (f"ncu --import {NCU['v1']} --diff {NCU['v4']}", TABLES),
    "ncu-for-model": (f"ncu --import {NCU['v1']} --for-model", "80 json"),
    "ncu-for-model-diff": (f"ncu --import {NCU['v1']} --diff {NCU['v4']} --for-model", "80"),
    "proton": (f"proton --import {PROTON}", f"{WIDTHS} json"),
    "phases": (f"proton --import {STAMPS}", f"{WIDTHS} json"),
    "ledger": ("ledger", "60 80 120 json"),
    "ledger-entry": ("ledger 1", "80 json"),
    "ledger-restore": ("ledger restore 1 --to mine", "80 json"),
    "targets": ("targets", TABLES),
    "new": ("new decode-mine --from decode-v4 --to mine", "80 json"),
    "new-floor": ("new decode-f1 --from decode-floor-copy --to mine", "80"),
    "new-op": ("new --op rms-norm --to mine", "80"),
    "dry-run": ("run -k decode-v4,decode-triton,decode-reference --gpu cpu --dry-run --quick", TABLES),
    "dry-run-suite": ("run -k decode-v4 --gpu cpu --suite contest --dry-run", "80 json"),
    "dry-sweep": ("sweep decode-triton --param BV=4,8 --gpu cpu --dry-run", TABLES),
    "exchange-import": (
        f"exchange import SET/definitions/{_DECODE}.json SET/solutions/{_DECODE}/decode-reference.json "
        "--op decode --name decode-theirs --to mine",
        "80 json",
    ),
    "verify-unknown": ("verify decode-v44 --gpu cpu", "80"),
    "score-itself": ("score decode-v9 --against decode-v9 --gpu cpu", "80"),
}
"""Of runs of later days with what else is stored: profiles, a ledger, targets, a cache."""

WRITTEN = {
    "ledger-add": ("ledger add 'Fewer warps' -k decode-v10 --expect 'vs decode-v9 >= 1.01 at B=1'", "80 json"),
    "ledger-close": ("ledger close 11 --learned 'no change'", "80 json"),
}
"""Beside the same, with the time of day in them."""

COMPILED = {
    "explain": (f"explain decode-v1 --from {NCU['v1']}", f"{WIDTHS} json"),
    "explain-stored": ("explain decode-v4", f"{WIDTHS} json"),
    "explain-triton": ("explain decode-triton", "80"),
    "explain-prefill": ("explain prefill-v4 --shape lengths=8x1024 --shape heads=qk16_v32", "80"),
    "explain-code": ("explain decode-v6", "80 json"),
    "explain-strategies": ("explain decode-v9 --gpu h200 --strategies", "60 80 json"),
    "inspect": ("inspect decode-v1,decode-v4,decode-v6 --arch sm_90", TABLES),
    "inspect-one": ("inspect decode-v4", "60 80 120"),
    "inspect-diff": ("inspect decode-v5 --diff decode-v4 --arch sm_90", TABLES),
    "inspect-schedule": ("inspect decode-floor-empty --arch sm_90 --schedule", "80 json"),
    "inspect-loops": ("inspect decode-v4 --arch sm_90 --loops", "80 json"),
    "inspect-sass": ("inspect decode-floor-empty --arch sm_90 --sass", "80"),
    "inspect-fail-on": ("inspect decode-rowreg-w2 --arch sm_90 --fail-on spills,regs>200", "80"),
    "inspect-unknown": ("inspect decode-v4 --arch sm_75", "80"),
}
"""What a compiler made, of one version."""

MORE = {
    **{
        f"explain-{name}": (f"explain test-{name} --from data/ncu/test-{name}-{at}.csv.gz", "80")
        for name, at in (
            *(("spilling", "B64"), ("scattered", "B64"), ("conflicts", "B64"), ("barriers", "B64")),
            *(("arithmetic", "B64"), ("tail", "B17")),
        )
    },
    "explain-bandwidth": ("explain decode-v4 --from data/ncu/decode-v4-B64.csv.gz", "80"),
    "explain-launch": ("explain decode-floor-empty --from data/ncu/decode-floor-empty-B1.csv.gz", "80"),
    "explain-serialized": ("explain test-warpgroup:TOUCHED=1 -q", "80"),
    "explain-split": ("explain gemm-split -q", "80 json"),
    "explain-split-strategies": ("split: explain gemm-split -q --strategies", "80"),
    "explain-split-profiled": ("split: explain gemm-split -q", "80 json"),
    "explain-split-reversed": ("split-reversed: explain gemm-split -q", "80"),
    "explain-split-lacking": ("split-lacking: explain gemm-split -q", "80"),
    "explain-split-other-code": ("split-other: explain gemm-split -q", "80"),
    "doctor-latency": ("doctor --latency --import data/latency.json", f"{WIDTHS} csv"),
    "ncu-functions": ("ncu --import data/ncu/decode-fla-unfused-B1.csv.gz", "60 80 csv"),
    "ncu-five": (f"ncu --import {' '.join(NCU.values())} data/ncu/test-spilling-B64.csv.gz", "60 200"),
    "ncu-split": ("split-table: ncu --import split.csv", "80 json csv"),
    "ncu-for-model-prefill": (
        "ncu --for-model --import profiles/ncu/prefill-v4/20261123-183824-h200-qk16_v32-lengths8x1024.csv",
        "80",
    ),
    "ncu-for-model-functions": ("ncu --for-model --import data/ncu/decode-fla-unfused-B1.csv.gz", "80"),
    "proton-refused": ("proton --import data/proton/cupti.chrome_trace", "80"),
    "phases-v4": ("proton --import profiles/phases/decode-v4/20261121-212830-h200-B1-qk4_v8.npz", "60 80"),
    "phases-roles": ("roles: proton --import a.npz", "80 json"),
    "phases-warnings": ("warned: proton --import a.npz", "80"),
    "phases-launches": ("stamped: proton --import scan.npz prologue.npz", "80 json"),
    "inspect-hints": ("inspect decode-v5,decode-triton-tma,decode-rowreg-w2 --arch sm_90", "80 json"),
    "inspect-blackwell": ("inspect decode-triton-ws --arch sm_100", "80 json"),
    "inspect-launches": ("inspect gemm-split --op gemm --shape M=64 --arch sm_90", "80 json csv"),
    "inspect-serialized": ("inspect test-warpgroup:TOUCHED=1 --arch sm_90 --fail-on serialized -q", "80 json"),
    "inspect-parallel": ("inspect test-warpgroup --arch sm_90 --fail-on serialized -q", "80"),
    "inspect-broken": ("inspect test-syntax-error,decode-v4 --arch sm_90", "80 json"),
    "inspect-same": ("inspect decode-v4 --diff decode-v4:WARPS=8 --arch sm_90 --sass", "80 json"),
    "inspect-same-code": ("inspect decode-v4 --shape B=8 --diff decode-v5:HINT=none --arch sm_90", "80"),
    "inspect-diff-sass": ("inspect decode-v5 --diff decode-v4 --arch sm_90 --sass", "80"),
    "inspect-torch": ("inspect decode-v4 decode-reference --arch sm_90", "80"),
    "inspect-two": ("inspect prefill-v4 prefill-v1", "80"),
    "inspect-trips": ("inspect decode-v4,decode-v6,decode-triton-ws --arch sm_90 --fail-on trips>1 -q", "80"),
    "inspect-schedule-diff": ("inspect decode-v7 --diff decode-v4 --schedule --arch sm_90", "80 json"),
    "inspect-roles": ("inspect fp8-gemm-pos-v2 --loops --arch sm_90", "80 json"),
}
"""Compiled code of the tests' own kernels, and profiles; `SCENE: COMMAND` is of those that `made.py` makes up."""

SIMULATED = {
    "run": ("run -k decode-v4 --baseline decode-v1 --gpu b200 --shape B=1 --seed 1 --rounds 9", "80 120 json csv md"),
    "sweep": ("sweep decode-v4 --param WARPS=1,2,4,8,16 --gpu b200 --shape B=1 --seed 1 --yes", "80 120 json csv md"),
    "step": ("step decode-v9,decode-v9-layers --path graph,python --gpu b200 --seed 1 --rounds 9", "80 120 json csv"),
    "dry-run-gpu": ("run -k decode-v4,decode-v9 --gpu b200 --dry-run", TABLES),
    "dry-sweep-gpu": ("sweep decode-v4 --gpu b200 --dry-run", TABLES),
    "score": ("score decode-v9 --against decode-v8 --gpu b200 --seed 1", "60 80 120 json"),
    "score-suite": ("score decode-v9 --against decode-v8 --suite contest --gpu b200 --seed 1", "80"),
}
"""On a GPU that is made up."""

CHECKED = {
    "verify": ("verify gemm-torch --gpu cpu --shape M=64 --seed 1", "80 json csv md"),
    "verify-wrong": ("verify test-nan --gpu cpu --shape B=1 --seed 1", "80 json"),
    "ready": ("verify gemm-torch --ready --gpu cpu", "80 json"),
    "exchange-export": ("exchange export gemm-torch --to set", "80 json"),
    "verify-moved": ("verify rows-moved --gpu cpu --seed 1", "80"),
}
"""Kernels of the tests, on the CPU."""

MACHINE = {"doctor": ("doctor", f"{WIDTHS} json"), "doctor-absent": ("doctor --gpu rtx3090", "80")}
"""On a made-up H200 that is healthy."""

MADE = {
    **{f"made-{name}": (f"made {name}", f"{WIDTHS} 200 json csv") for name in ("rows", "sweep-joint")},
    "made-clocks": ("made clocks", f"{WIDTHS} 200 csv"),
    **{
        f"made-{name}": (f"made {name}", "80 120")
        for name in (
            *("partial", "empty-floor", "no-baseline", "effects", "cheats", "builds", "clocks-graph"),
            *("clocks-no-empty", "clocks-missing", "sweep-grid", "sweep-lines", "sweep-wide", "sweep-raced"),
        )
    },
    **{
        f"made-sweep-{name}": (f"made sweep-{name}", "80")
        for name in (
            *("one-value", "one-of-two", "alike", "text", "none", "faster", "far", "heads"),
            *("failed", "apart", "floors"),
        )
    },
    **{
        f"made-dispatch-{name}": (f"made sweep-{name} --emit-dispatch", "120")
        for name in ("joint", "raced", "apart", "text", "floors")
    },
    **{f"made-{name}": (f"made {name}", "80 json csv") for name in ("compared-missing",)},
    **{f"made-{name}": (f"made {name}", TABLES) for name in ("verdicts", "verdicts-invariance")},
    "made-flops": ("made flops", "80 120 json csv"),
    "made-compared": ("made compared", f"{TABLES} md"),
    **{
        f"made-{name}": (f"made {name}", "80 120")
        for name in (
            *("verdicts-some", "verdicts-none", "compared-kernel-times", "compared-one-without", "compared-models"),
            *("compared-conditions", "compared-published", "compared-workloads", "compared-params", "compared-three"),
            *("compared-labels",),
        )
    },
    "made-compared-one-round": ("made compared-one-round", "json"),
}
"""Made up by `made.py`: runs that `show` shows, and what else is printed."""

TOOLS: dict[str, tuple[str, dict[str, object]]] = {
    "list": ("list", {"kernel": "decode-v4,decode-triton"}),
    "list-all": ("list", {"op": "nvfp4-gemv"}),
    "verify": ("verify", {"kernel": "decode-reference", "gpu": "cpu", "shape": "B=1", "seed": 1}),
    "inspect": ("inspect", {"kernel": "decode-v4", "arch": "sm_90"}),
    "inspect-against": ("inspect", {"kernel": "decode-v4", "arch": "sm_90", "against": "decode-v1"}),
    "inspect-code": ("inspect", {"kernel": "decode-v4", "arch": "sm_90", "code": True}),
    "run-plan": ("run", {"kernel": "decode-reference", "gpu": "cpu", "dry_run": True}),
    "sweep-plan": ("sweep", {"kernel": "decode-triton", "param": ["BV=4,8"], "gpu": "cpu", "dry_run": True}),
    "score": ("score", {"kernel": "decode-v9", "against": "decode-v9", "gpu": "cpu"}),
    "ncu": ("ncu", {"reports": [NCU["v1"]]}),
    "ncu-against": ("ncu", {"reports": [NCU["v1"]], "against": NCU["v4"]}),
    "explain": ("explain", {"kernel": "decode-v1"}),
    "compare": ("compare", {"sources": [HOPPER, CARDS[0]], "filter": "B=1 label=decode-auto"}),
    "compare-all": ("compare", {"sources": [MAIN, HOPPER]}),
    "compare-gate": ("compare", {"sources": [HOPPER, CARDS[0]], "filter": "B=1", "fail_on": "slower:1%"}),
    "show": ("show", {"run": HOPPER, "kernel": "decode-auto", "shape": "B=1 HQ=4"}),
    "show-page": ("show", {"run": HOPPER, "offset": 9}),
    "show-suite": ("show", {"run": CONTEST}),
    "show-sweep": ("show", {"run": SWEEP}),
    "show-cards": ("show", {"run": CARDS[0], "join": [CARDS[1]]}),
    "show-step": ("show", {"run": STEP, "shape": "B=1"}),
    "show-launches": ("show", {"run": LAUNCHES}),
    "show-no-axis": ("show", {"run": HOPPER, "shape": "lengths=8"}),
    "try": ("try", {"hypothesis": "Fewer warps", "kernel": "decode-v10", "expect": ["time <= 4us at B=1"]}),
    "ledger": ("ledger", {}),
    "ledger-entry": ("ledger", {"entry": 1}),
    "ready": ("ready", {"kernel": "decode-v44", "gpu": "cpu"}),
    "unknown-kernel": ("verify", {"kernel": "decode-v44"}),
    "unknown-parameter": ("show", {"runs": "main"}),
}
"""Calls of tools, with their arguments."""
