"""Two ops that gdnbench does not bring, a folder each: every verb that needs no GPU takes them as it takes its own."""

import json
import shutil
from functools import cache

import pytest
from faults import REPOSITORY, Gdnbench

from gdnbench.catalog.catalog import load_catalog
from gdnbench.store.info import read_info
from gdnbench.store.measurements import read_measurements
from gdnbench.store.tables import read_builds

pytestmark = pytest.mark.slow

TOYS = REPOSITORY / "tests" / "toys"
SHORT = ("--gpu", "cpu", "--rounds", "3", "--samples", "3", "--margin", "0.9", "-q")
AXES = {"gemm": ["M", "N", "Kd"], "ragged": ["H", "W", "lengths"]}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("toys"), (TOYS,), in_process=True)


@pytest.fixture(scope="module")
def run_of(bench):
    """Measures every kernel of an op, once."""

    @cache
    def run(op):
        done = bench.run("all", "--op", op, *SHORT)
        assert done.code == 0, done.err
        return done

    return run


@pytest.mark.parametrize("op", AXES)
def test_their_numbers_are_verified_at_their_own_workloads(bench, op):
    done = bench("verify", "all", "--op", op, "--gpu", "cpu", "--json")
    assert done.code == 0, done.err
    cases = json.loads(done.out)["gates"]
    wanted = {"gemm": {1, 65}, "ragged": {"6+0+13", "1", "3x5"}}[op]
    x = {"gemm": "M", "ragged": "lengths"}[op]
    assert {case[x] for case in cases if case["label"] == f"{op}-torch"} == wanted
    assert {case["status"] for case in cases if case["label"] in {f"{op}-torch", f"{op}-triton"}} == {"ok"}
    cuda = [case for case in cases if case["label"] in {f"{op}-cuda", f"{op}-split"}]
    assert {(case["status"], case["interpreted"]) for case in cuda} == {("ok", True)}
    assert any(case["gate"] == "memory and barriers" for case in cuda)


@pytest.mark.parametrize("op", AXES)
def test_a_run_measures_and_stores_them(bench, run_of, op):
    run_of(op)
    (folder,) = [path for path in bench.results.iterdir() if path.name.endswith(f"cpu-{op}")]
    info = read_info(folder)
    assert (info.schema, info.op, list(info.workloads.names)) == (2, op, AXES[op])
    assert info.op_hash
    measured = read_measurements(folder)
    torch = [row for row in measured if row.case.label == f"{op}-torch"]
    assert all(row.timing for row in torch)
    workloads = [str(row.case.workload) for row in torch]
    assert workloads == {"gemm": ["M=64 N=48 Kd=32", "M=128 N=48 Kd=32"], "ragged": ["h2w4 lengths=6+0+13"]}[op]
    assert all(row.timing.tflops > 0 for row in torch)
    built = {(row.label, row.launch) for row in read_builds(folder)}
    assert (f"{op}-cuda", "") in built
    assert op != "gemm" or {("gemm-split", "partial_sums"), ("gemm-split", "add_sums")} <= built
    interpreted = {row.interpreter for row in read_builds(folder) if row.label.startswith(f"{op}-triton")}
    assert "passed" in interpreted


def test_a_suite_from_a_file_is_summed_up(bench):
    done = bench.run("gemm-torch", "--op", "gemm", "--suite", "grid", *SHORT)
    assert done.code == 0, done.err
    suite = done.info["suite"]
    assert [(each["shape"]["M"], each["weight"]) for each in suite["workloads"]] == [(16, 3.0), (128, 1.0)]
    assert "suite" in done.document
    assert [each["name"] for each in suite["workloads"]] == ["small", "large"]
    assert [each["name"] for each in done.document["suite"]["workloads"]] == ["small", "large"]
    assert {case["workload"] for case in done.info["cases"]} == {"small", "large"}
    shown = bench("show", done.info["run_id"], "--legend", "--out", str(bench.results)).out
    assert "\nsmall: M=16 N=48 Kd=32  (" in shown


def without_gpu(done):
    """It got as far as the GPU that it needs, and `--gpu cpu` is none."""
    assert done.code == 5, done.err
    assert "needs a GPU" in done.err


@pytest.mark.parametrize(
    ("verb", "kernel"), [("ncu", "cuda"), ("ncu", "torch"), ("proton", "cuda"), ("proton", "triton")]
)
@pytest.mark.parametrize("op", AXES)
def test_a_profile_is_of_the_ops_default_workload_where_none_is_named(bench, op, verb, kernel):
    """Their default suites hold several workloads, or a list instead of axes."""
    without_gpu(bench(*verb.split(), f"{op}-{kernel}", "--gpu", "cpu"))


@pytest.mark.parametrize("verb", ["ncu", "proton", "explain"])
def test_a_profile_of_several_named_workloads_is_refused(bench, verb):
    gpu = () if verb == "explain" else ("--gpu", "cpu")
    done = bench(*verb.split(), "gemm-cuda", "--shape", "M=64,128", *gpu)
    assert done.code == 2
    assert "2 workloads are given" in done.err
    assert "as in --shape M=64" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "ragged-torch", "--gpu", "cpu"),
        ("inspect", "ragged-cuda", "--diff", "ragged-triton", "--arch", "sm_90"),
        ("run", "-k", "ragged-*", "--gpu", "cpu", "--dry-run"),
        ("run", "--baseline", "ragged-torch", "--gpu", "cpu", "--dry-run"),
        ("sweep", "gemm-tuned", "--gpu", "cpu", "--dry-run"),
    ],
)
def test_the_op_is_that_of_the_kernels_named(bench, words):
    done = bench(*words)
    assert done.code == 0, done.err
    assert "decode" not in done.out


@pytest.mark.parametrize("verb", ["run", "verify", "inspect", "sweep", "ncu", "proton"])
def test_kernels_of_two_ops_are_refused_with_the_ops(bench, verb):
    gpu = () if verb == "inspect" else ("--gpu", "cpu")
    done = bench(verb, "gemm-cuda", "-k", "ragged-cuda", *gpu)
    assert done.code == 2
    assert "gemm-cuda is of gemm; ragged-cuda is of ragged" in done.err
    assert "--op: gemm or ragged" in done.err


def test_a_baseline_beside_nothing_is_not_measured(bench):
    done = bench("run", "gemm-cuda", "--gpu", "cpu", "--out", str(bench.home / "nothing"))
    without_gpu(done)
    assert "nothing requested can be measured here: gemm-cuda: needs a GPU" in done.err
    assert "`gdnbench inspect gemm-cuda` needs no GPU" in done.err
    assert (done.out, (bench.home / "nothing").exists()) == ("", False)


def op_with_grid(folder, grid):
    """The catalog of a copy of `gemm` with another CSV suite."""
    shutil.copytree(TOYS / "gemm", folder / "gemm")
    (folder / "gemm" / "grid.csv").write_text(grid)
    return load_catalog([folder])


def test_a_workload_is_called_by_the_name_that_its_suite_gives_it(tmp_path):
    found = op_with_grid(tmp_path, "name,M,weight\nfirst,16,1\n,32,1\nLlama 3: µ,64,2\n").ops["gemm"].suite("grid")
    assert [each.name for each in found.workloads] == ["first", "", "Llama 3: µ"]
    assert [each.titled for each in found.workloads][:2] == ["first: M=16 N=48 Kd=32", "M=32 N=48 Kd=32"]


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ("name,M\na,16\nb,16\n", "grid.csv line 3: duplicate workload"),  # a name makes no other of it
        (f"name,M\n{81 * 'x'},16\n", "grid.csv line 2: the workload's name"),
        ("name,M\na\x1b[1m,16\n", "grid.csv line 2: the workload's name"),
    ],
)
def test_a_suite_with_a_name_that_makes_no_sense_is_broken_with_its_line(tmp_path, grid, told):
    catalog = op_with_grid(tmp_path, grid)
    assert not catalog.ops
    assert told in catalog.broken[0].reason


HINTS = """hints=(
        Hint("tiles of 16 columns suit it", causes=("narrow_loads", "latency")),
        Hint("K is short"),
    ),
    baselines="""


def gemm_with_hints(folder, hints):
    """A copy of `gemm` with hints; the text of its `op.py`."""
    shutil.copytree(TOYS / "gemm", folder / "gemm")
    path = folder / "gemm" / "op.py"
    text = path.read_text().replace("import Axis, Op,", "import Axis, Hint, Op,").replace("baselines=", hints, 1)
    path.write_text(text)
    return text


def test_what_an_ops_author_knows_stands_below_the_findings_that_it_is_about(tmp_path):
    gemm_with_hints(tmp_path / "kernels", HINTS)
    bench = Gdnbench(tmp_path, (tmp_path / "kernels",), in_process=True)
    words = ("explain", "gemm-cuda", "--gpu", "h200", "--out", str(tmp_path), "--profiles", str(tmp_path), "-q")
    done = bench(*words)
    assert done.code == 0, done.err
    findings = {part.partition("  (")[0]: part for part in done.out.split("\n\n") if part[:1].isdigit()}
    assert {"1. too few warps in flight", "2. narrow loads"} == findings.keys()
    assert all(part.count("for this op: K is short") == 1 for part in findings.values())
    assert ["for this op: tiles of 16" in part for part in findings.values()] == [False, True]
    documents = {each["rule"]: each["hints"] for each in bench(*words, "--json").document["findings"]}
    assert documents["narrow_loads"] == ["tiles of 16 columns suit it", "K is short"]


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ('Hint("x", causes=("latencies",))', "explain has no rule latencies: too_few_warps, "),
        ('Hint("")', "the hint '' is not a line"),
        ('Hint("two\\nlines")', "is not a line"),
    ],
)
def test_a_hint_that_makes_no_sense_breaks_its_op_with_file_and_line(tmp_path, hint, told):
    text = gemm_with_hints(tmp_path, f"hints=({hint},),\n    baselines=")
    line = next(number for number, each in enumerate(text.splitlines(), start=1) if "hints=(" in each)
    catalog = load_catalog([tmp_path])
    assert not catalog.ops
    assert catalog.broken[0].reason.startswith(f"op.py:{line}: ")
    assert told in catalog.broken[0].reason
