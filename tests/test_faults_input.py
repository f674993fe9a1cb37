"""Wrong options: each ends in one message, a hint and its exit code, and never in a traceback."""

from functools import partial

import pytest
from committed import RESULTS


@pytest.fixture
def command(command_line, monkeypatch, tmp_path):
    """Runs a command in an empty folder of a machine without a GPU."""
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    return partial(command_line, columns="500")


RUN = "run --gpu cpu --baseline decode-reference"
TRITON, SCORE = "sweep decode-triton --gpu cpu", "score --gpu cpu"
STORED, CHART = f"--out {RESULTS}", "--chart roofline -o chart.png"
FP8 = "20261126-003619-h100-fp8-gemm-pos-processes"
REFUSED = {
    f"{RUN} --kernel decode-refrence": (2, "there is no kernel decode-refrence", "decode-reference"),
    f"{RUN} --kernel xyzzy": (2, "there is no kernel xyzzy", "gdnbench list"),
    f"{RUN} --kernel ,": (2, "no kernel was named", "--kernel all"),
    f"{RUN} --op prefil": (2, "there is no op prefil", "decode"),
    "run --gpu b100": (5, "No GPU here is 'b100'", "--gpu cpu"),
    "run --gpu 99": (5, "No GPU here is '99'", "--gpu cpu"),
    "run --gpu cpu --baseline decode-refrence": (2, "there is no kernel decode-refrence", "did you mean"),
    "run --gpu cpu --baseline decode-v4": (5, "decode-v4 cannot run here: it needs a GPU", "--baseline"),
    f"{RUN} --shape M=64": (2, "there is no axis M", "B=1,8,64"),
    f"{RUN} --shape heads=big": (2, "there is no heads big", "qk4_v8"),
    f"{RUN} --shape HQ=4 --shape heads=qk4_v8": (2, "HQ is set in two ways", "leave one of them out"),
    f"{RUN} --rounds 1": (2, "--rounds 1: an interval needs at least 2 rounds", "the default is"),
    f"{RUN} --samples 0": (2, "--samples 0: a round needs a sample", "the default is"),
    f"{RUN} --margin nan": (2, "a margin lies between 0 and 1", "0.005"),
    f"{RUN} --step-limit 0": (2, "--step-limit 0: a step takes some time", "30"),
    f"{RUN} --seed -5": (2, "--seed -5: a seed lies between 0 and", "a fresh one"),
    f"{RUN} --rounds 3 --rounds 5": (2, "--rounds is given 2 times", "give --rounds once"),
    "run --resume 20010101-x": (2, "no runs in results", "gdnbench run"),
    f"{TRITON} -p BLOCK": (2, "decode-triton has no param BLOCK", "BV, WARPS"),
    f"{TRITON} -p BV=5": (2, "BV=5 is not a value of BV", "128"),
    f"{TRITON} -p BV=": (2, "a value is missing", "--param BV=4,8,16"),
    "sweep decode-fla --gpu cpu": (2, "decode-fla has no params to sweep", "decode-v4 has"),
    "sweep decode-trition": (2, "there is no kernel decode-trition", "decode-triton"),
    "sweep --gpu cpu -k decode-trition": (2, "there is no kernel decode-trition", "decode-triton"),
    f"{TRITON} --op prefil": (2, "there is no op prefil", "decode"),
    f"{TRITON} --shape 8": (2, "8 sets no axis", "B=1,8,64"),
    f"{TRITON} --budget 0": (2, "--budget 0: a budget is a time", "1m30s"),
    f"{TRITON} --budget 2s": (2, "--budget 2s is too small", "or more, or fewer points or workloads"),
    f"{TRITON} --samples 0": (2, "--samples 0: a round needs a sample", "default"),
    f"{TRITON} --margin 1": (2, "a margin lies between 0 and 1", "0.005"),
    f"{TRITON} --step-limit 0": (2, "--step-limit 0: a step takes some time", "in seconds"),
    f"{TRITON} --baseline decode-x": (2, "there is no kernel decode-x", "decode"),
    TRITON: (5, "nothing requested can be measured here: decode-triton: needs a GPU", "gdnbench inspect decode-triton"),
    f"{TRITON} --baseline decode-reference": (5, "needs a GPU", "gdnbench doctor"),
    "sweep --gpu cpu -p WARPS": (5, "decode-v11: needs a GPU", "gdnbench doctor"),  # and thousands like it
    "verify --gpu b100": (5, "No GPU here is 'b100'", "--gpu cpu"),
    "sweep decode-triton --gpu b100": (5, "No GPU here is 'b100'", "--gpu cpu"),
    "inspect decode-v4 --arch sm_75": (2, "sm_75", "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"),
    "inspect decode-v4 --arch hopper": (2, "not an architecture", ""),
    "inspect decode-v44": (2, "", "did you mean decode-v4"),
    "inspect decode-v4 --fail-on speed>3": (2, "there is no speed", ""),
    "inspect decode-v4 --diff git:": (2, "names no revision", ""),
    "inspect decode-v4 --diff git:no-such": (2, "git has no no-such", ""),
    "inspect decode-v4 --diff decode-reference": (2, "no build of gdnbench's own", ""),
    "inspect decode-v4 --diff decode-v*": (2, "one is needed", "name it in full"),
    "inspect decode-v4 --shape C=1": (2, "C", "B=1,8,64"),
    "inspect decode-v9 --loops --sass": (2, "--loops does not go with --sass", ""),
    "inspect decode-v9 --loops --schedule": (2, "--loops does not go with --schedule", ""),
    "inspect decode-v9 --loops --diff decode-v4": (2, "--loops does not go with --diff", ""),
    "inspect decode-v9 --schedule --sass": (2, "--schedule does not go with --sass", ""),
    "explain decode-v99": (2, "no kernel decode-v99", ""),
    "explain decode-v*": (2, "one is needed", ""),
    "explain decode-v1 --op attention": (2, "no op attention", ""),
    "explain decode-v1 --gpu cpu": (2, "runs on a GPU", "--gpu h200"),
    "explain decode-v1 --shape B=1,2": (2, "2 workloads are given", "--shape B=1"),
    "explain decode-v1 --from /no/such.csv": (7, "no such file", ""),
    "explain decode-fla --shape B=5": (2, "nothing is known of decode-fla", "gdnbench ncu decode-fla"),
    "explain verify-v3": (
        *(2, "verify-v3 cannot do B=1 T=4 last qk4_v8 fp32: tensor cores multiply bf16"),
        "gdnbench explain verify-v3 --shape B=1 --shape keep=last --shape state=bf16",
    ),
    "run --suite contest --shape B=1": (2, "--suite contest has its own workloads", "leave --shape out"),
    "run --suite contest --shape heads=qk4_v8": (2, "--suite contest has its own workloads", "leave --shape out"),
    "run --suite nope": (2, "decode has no suite nope", ""),
    f"show main {STORED} --suite nope": (2, "decode has no suite nope", ""),
    f"show main {STORED} --suite contest": (2, "the run lacks B=4 qk4_v8", ""),
    f"show main {STORED} --over decode-fla": (2, "--over is for a suite", ""),
    f"show 20261122-024054 {STORED} --suite contest --over decode-nope": (2, "the run has no times of decode-nope", ""),
    f"show sweep-bv {STORED} --suite contest": (2, "is not summed up", ""),
    f"{SCORE} decode-reference --against decode-reference": (2, "compared with itself", ""),
    f"{SCORE} decode-reference decode-v4": (2, "one kernel is needed", ""),
    f"{SCORE} decode-reference --shape B=1,8": (2, "a score is of one", ""),
    f"{SCORE} decode-reference --suite contest --shape B=1": (2, "has its own workloads", ""),
    f"{SCORE} decode-reference --budget soon": (2, "a budget is a time", ""),
    f"{SCORE} decode-reference --margin 2": (2, "a margin lies between 0 and 1", ""),
    f"{SCORE} decode-reference --against nothing-such": (2, "there is no kernel", ""),
    f"{SCORE} verify-v3": (2, "verify-v3 cannot do B=1 T=4 last qk4_v8 fp32: tensor cores multiply bf16", ""),
    f"{SCORE} decode-v9 --seed -5": (2, "a seed lies between 0 and", ""),
    f"{SCORE} decode-floor-copy": (2, "decode-floor-copy is a floor, a bound on what is possible: it has no score", ""),
    SCORE: (2, "none was named", ""),
    "proton decode-triton,decode-v4": (2, "several are for CUDA and CuTe kernels", "gdnbench proton decode-triton"),
    "proton --import a.npz b.json": (2, "several are for CUDA and CuTe kernels", ""),
    "proton decode-reference --launch scan": (2, "--launch is for CUDA and CuTe kernels", ""),
    "proton decode-v4 --shape B=1,8": (2, "2 workloads", "--shape B=1"),
    "proton decode-vv": (2, "there is no kernel decode-vv", ""),
    "proton decode-triton --shape B=256": (2, "too many to trace", "smaller B than 256"),
    "proton": (2, "no kernel was named", ""),
    "exchange export decode-v4 --to set --shape B=1 --suite contest": (2, "both name workloads", ""),
    "exchange export decode-v44 --to set": (2, "decode-v44", "decode-v4"),
    "exchange export --op nothing --to set": (2, "no op nothing", ""),
    "exchange export decode-v4 --to set --definition /no/such/file": (2, "cannot be read", ""),
    "exchange export fp8-gemm-pos-v2 --to set --shape M=205": (2, "takes tensor maps, which no Solution makes", ""),
    "doctor --latency --calibrate": (2, "--latency does not go with --calibrate", ""),
    "doctor --csv": (2, "--csv is of --latency", ""),
    "doctor --profiles x": (2, "--profiles is of --latency", ""),
    "doctor --latency --runs 3": (2, "--runs is of --calibrate", ""),
    "doctor --latency": (5, "needs a GPU", "gdnbench doctor"),
    "doctor --latency --import /no/such.json": (2, "/no/such.json is missing", ""),
    "doctor --calibrate": (5, "needs a GPU", "gdnbench doctor"),
    "verify --ready gemm-nope": (2, "there is no kernel gemm-nope", ""),
    "verify --ready decode-v4 --suite nope": (2, "decode has no suite nope", "contest"),
    "verify --ready decode-v4 decode-v9": (2, "one kernel is needed", ""),
    f"show nowhere {STORED} {CHART}": (2, "no run nowhere", ""),
    f"show {FP8} {STORED} {CHART} -k fp8-gemm-pos-tm": (2, "", "did you mean fp8-gemm-pos-tma"),
    f"show {FP8} {STORED} {CHART} -k ,": (2, "", "leave --kernel out"),
    f"show {STORED} {CHART} --json": (2, "--chart does not go with --json", ""),
    f"show a b {STORED} {CHART}": (2, "a chart is of one run", "name one run"),
    f"show published/b200 {STORED} {CHART}": (2, "published/b200 is a table of published figures, not a run", ""),
    f"show {STORED} --chart roofline": (2, "a chart is drawn into a file, and none is named", "add -o roofline.png"),
    f"show {STORED} --chart roofline -o chart.gif": (2, "-o chart.gif: the name ends in .png", ""),
    f"show {STORED} --chart roofline -o nowhere/chart.png": (2, "there is no folder nowhere", ""),
    f"show {STORED} -o chart.png": (2, "--output is of --chart", ""),
}
"""By command: the exit code, and parts of the message and of the hint."""


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: words.replace(str(RESULTS), "RUNS"))
def test_a_wrong_option_is_refused_with_a_hint_and_leaves_nothing_behind(command, tmp_path, words):
    wanted, message, hint = REFUSED[words]
    code, out, err = command(*words.split())
    assert (code, out) == (wanted, "")
    said, is_told, advice = err.partition("hint:")
    assert is_told
    assert message in said
    assert hint in advice
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        *(
            "run --nonsense",
            "list more",
            "show -o chart.png",
            "show h200 --chart pie",
            "score decode-v4 --turns 1",
            "doctor --rounds 9",
        ),
        *("verify decode-v4 --arch sm_90", "verify decode-v4 --ready --sanitize", "verify decode-v4 --ready --quick"),
        *("verify decode-v4 --quick --suite contest", "proton decode-triton --launches 0"),
        "exchange export decode-v4 --to set --binding ctypes",
    ],
)
def test_what_a_verb_does_not_take_is_a_usage_error_and_leaves_nothing(command, tmp_path, words):
    code, out, err = command(*words.split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.strip()
    assert list(tmp_path.iterdir()) == []


def test_results_that_cannot_be_written_are_the_environments_fault(command, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = command("run", "--gpu", "cpu", "--kernel", "decode-reference", "--out", "file")
    assert (code, out) == (5, "")
    assert "cannot write to file" in err
    assert "--out" in err
