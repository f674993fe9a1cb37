"""What a sequence's bits depend on: each fault differs in the kinds that it is of and in no other, and so do claims."""

import pytest
from faults import Gdnbench
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.model.sequences import SequenceLayout
from gdnbench.model.status import INVARIANCES
from gdnbench.verify.pairs import InvariancePairs
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers.task import Phase, Task

pytestmark = pytest.mark.slow

FEW = ("--rounds", "3", "--samples", "2", "--margin", "0.9")

OP = '''"""Running sums of sequences, each from its own state on."""

from gdnbench import Axis, AxisList, Op, RoundoffGate, Sequences, Shape, TensorSpec, WorkloadSpec

op = Op(
    name="{name}",
    title="running sums of sequences",
    workloads=WorkloadSpec(
        axes=(Axis("W", default=8, doc="columns", compile_time=True),),
        lists=(AxisList("lengths", default=(9,), doc="of the sequences"),),
        x="lengths",
        size=("lengths",),
    ),
    derived={{
        "T": lambda workload: sum(workload.lengths),
        "N": lambda workload: len(workload.lengths),
        "ENDS": lambda workload: len(workload.lengths) + 1,
    }},
    inputs=(
        TensorSpec("x", ("T", "W"), "fp32"),
        TensorSpec("gate", ("T", "W"), "fp32"),
        TensorSpec("state", ("N", "W"), "fp32"),
        TensorSpec("offsets", ("ENDS",), "int64"),
    ),
    outputs=(TensorSpec("y", ("T", "W"), "fp32"), TensorSpec("new_state", ("N", "W"), "fp32")),
    gates=(RoundoffGate("y"), RoundoffGate("new_state")),
    ends={{"lengths": "offsets"}},
    {sequences}
    suites={{"verify": (Shape(), Shape(lengths=(5, 0, 11)))}},
)
'''
SEQUENCES = 'sequences=Sequences("N", "prefill", state=("state", "new_state"), gates=("gate",), grid=4),'
NUMERICS = """from itertools import accumulate, pairwise

import torch


def make_inputs(workload, seed, device, scenario):
    random = torch.Generator().manual_seed(seed)
    tokens, sizes = sum(workload.lengths), (len(workload.lengths), workload.W)
    x, gate = (torch.randn((tokens, workload.W), generator=random) for _ in range(2))
    offsets = torch.tensor([0, *accumulate(workload.lengths)], dtype=torch.int64)
    state = torch.randn(sizes, generator=random)
    gate[:, 0], state[:, 0] = 0, 0
    return {"x": x, "gate": gate, "state": state, "offsets": offsets}, {}


def sums(tensors, dtype, magnitude=lambda each: each):
    x, state = magnitude(tensors["x"].to(dtype) * tensors["gate"].to(dtype)), magnitude(tensors["state"].to(dtype))
    y, last = torch.empty_like(x), state.clone()
    for number, (begin, end) in enumerate(pairwise(tensors["offsets"].tolist())):
        y[begin:end] = state[number] + x[begin:end].cumsum(0)
        if end > begin:
            last[number] = y[end - 1]
    return {"y": y, "new_state": last}


def oracle(tensors, scalars):
    return sums(tensors, torch.float64)


def roundoff(tensors, scalars):
    return {name: 4 * each for name, each in sums(tensors, torch.float32, torch.abs).items()}
"""
BODY = """from itertools import pairwise

import torch

CALLS = [0]
NUDGE = 1 + 2.0**-22  # of a factor, which the gate lets pass and the bits show


def bind(t, workload, params):
    def run():
        CALLS[0] += 1
        ends = t.offsets.tolist()
        for number, (begin, end) in enumerate(pairwise(ends)):
            now = t.state[number].clone()
            for at in range(begin, end):
                factor = t.gate[at].clone()
                {fault}
                now += t.x[at] * factor
                t.y[at] = now
            t.new_state[number] = now
        return t.y, t.new_state

    return run
"""
NUDGED = "factor *= NUDGE"
FAULTS = {
    "honest": ("", set()),
    "by-count": (f"if len(ends) > 2: {NUDGED}", {"batch"}),
    "by-others": (f"if float(t.state.sum()) > 1.0: {NUDGED}", {"batch", "chunking"}),
    "by-place": (f"if number == 1: {NUDGED}", {"order"}),
    "peeks": (f"if at + 1 < end and float(t.x[at + 1, 0]) > 0: {NUDGED}", {"append", "chunking"}),
    "peeks-at-gates": (f"if at + 1 < end and float(t.gate[at + 1, 1]) > 0: {NUDGED}", {"append", "chunking"}),
    "by-length": (f"if end - begin > 8 and at == begin: {NUDGED}", {"append", "chunking"}),
    "first-token": (f"if at == begin: {NUDGED}", {"chunking"}),
    "by-param": (f"if params.CUT == 2: {NUDGED}", {"split"}),
    "negative-zero": ("if number == 1: now = torch.where(now == 0, -0.0, now)", {"order"}),
}
"""By name, a statement in the body, and the kinds of which a kernel that has it must be found not to be."""


def add(root, op, name, fault, claims="", params="{}"):
    declared = on_torch(f"{op}-{name}", f",\n    params={params},\n{claims}")
    write_kernel(root / op / name, declared, BODY.replace("{fault}", fault or "pass"))


STEP = '''"""One token of `sums`."""

from gdnbench import Axis, Op, RoundoffGate, Sequences, TensorSpec, WorkloadSpec

op = Op(
    name="steps",
    title="one token of running sums",
    workloads=WorkloadSpec(
        axes=(Axis("B", default=1, doc="sequences"), Axis("W", default=8, doc="columns", compile_time=True)),
        size=("B",),
    ),
    inputs=tuple(TensorSpec(name, ("B", "W"), "fp32") for name in ("x", "gate", "state")),
    outputs=(TensorSpec("y", ("B", "W"), "fp32"), TensorSpec("new_state", ("B", "W"), "fp32")),
    gates=(RoundoffGate("y"), RoundoffGate("new_state")),
    sequences=Sequences("B", "decode", state=("state", "new_state")),
)
'''
STEP_NUMERICS = """import torch


def make_inputs(workload, seed, device, scenario):
    random = torch.Generator().manual_seed(seed)
    return {name: torch.randn((workload.B, workload.W), generator=random) for name in ("x", "gate", "state")}, {}


def oracle(t, scalars):
    y = t["state"].double() + t["x"].double() * t["gate"].double()
    return {"y": y, "new_state": y}


def roundoff(t, scalars):
    return dict.fromkeys(("y", "new_state"), 4 * (t["state"].abs() + (t["x"] * t["gate"]).abs()))
"""
STEP_BODY = """def bind(t, workload, params):
    def run():
        t.y.copy_(t.state + t.x * t.gate)
        t.new_state.copy_(t.y)
        return t.y, t.new_state

    return run
"""
CUDA = """extern "C" __global__ void sums(const float* x, const float* gate, const float* state,
                                const long long* offsets, float* y, float* new_state,
                                long long T, long long N, long long ENDS) {
  const int column = threadIdx.x, sequence = blockIdx.x;
  float now = state[sequence * AXIS_W + column];
  for (long long at = offsets[sequence]; at < offsets[sequence + 1]; ++at) {
    now += x[at * AXIS_W + column] * gate[at * AXIS_W + column] * (FACTOR);
    y[at * AXIS_W + column] = now;
  }
  new_state[sequence * AXIS_W + column] = now;
}
"""


def add_cuda(root, name, factor):
    declared = (
        f'from gdnbench import CudaKernel\nkernel = CudaKernel(\n    name="sums-{name}",\n    entry="sums",\n'
        "    grid=lambda shape, p: (len(shape.lengths),),\n    block=lambda shape, p: shape.W,\n"
        '    invariant=("batch", "order", "append", "chunking", "rerun"),\n)\n'
    )
    write_kernel(root / "sums" / name, declared, CUDA.replace("FACTOR", factor))


def add_op(root, name, sequences):
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "op.py").write_text(OP.format(name=name, sequences=sequences))
    (folder / "numerics.py").write_text(NUMERICS)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("invariance") / "kernels"
    add_op(root, "sums", SEQUENCES)
    add_op(root, "untold", "")
    for name, (fault, _) in FAULTS.items():
        add(root, "sums", name, fault, params='{"CUT": Param(default=1, choices=(1, 2))}')
    every = '    invariant=("batch", "order", "append", "chunking", "rerun"),\n'
    add(root, "sums", "claims", "", every)
    add(root, "sums", "lies", FAULTS["by-count"][0], every)
    add(root, "sums", "by-call", f"if CALLS[0] % 2: {NUDGED}", '    invariant=("rerun",),\n')
    add_cuda(root, "cuda", "1.0f")
    add_cuda(root, "cuda-lies", "gridDim.x == 2 ? 1.00000024f : 1.0f")
    write_kernel(root / "steps" / "one", on_torch("steps-one"), STEP_BODY)
    (root / "steps" / "op.py").write_text(STEP)
    (root / "steps" / "numerics.py").write_text(STEP_NUMERICS)
    add(root, "untold", "claims", "", '    invariant=("batch",),\n')
    add(root, "untold", "rerun", "", '    invariant=("rerun",),\n')
    return Gdnbench(tmp_path_factory.mktemp("home"), (root,), in_process=True)


def verify(bench, *arguments):
    return bench("verify", *arguments, "--gpu", "cpu", "--seed", "1", "-q")


@pytest.fixture(scope="module")
def tested(bench):
    done = verify(bench, *(f"sums-{name}" for name in FAULTS), "--invariance", "--json")
    assert done.code == 0, done.out + done.err  # every fault passes the gates
    return done.document["invariance"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_of_the_kinds_that_it_breaks(tested, name):
    rows = [row for row in tested if row["label"] == f"sums-{name}"]
    assert {row["kind"] for row in rows} == set(INVARIANCES)
    wanted = FAULTS[name][1]
    assert {row["kind"] for row in rows if row["differing"]} == wanted
    for row in rows:
        assert not row["differing"] or (0 <= row["in_gates"] < 2 and row["first"] and "|" in row["pair"])
        assert row["differing"] <= row["of"]


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_all_that_pairs_launch_is_known_ahead_to_be_compiled(drafts):
    task = Task(Phase.EXAMINE, "cpu", tuple(map(str, default_roots()[:1])), "verify", (), seed=1, step_limit_s=1.0)
    workspaces = Workspaces(task)
    workload = workspaces.op.workload({"B": 2, "T": drafts, "HQ": 1, "HV": 1, "K": 16, "V": 16})
    ahead = {workload, *SequenceLayout.of(workspaces.op).compared_sizes(workload)}
    pairs = InvariancePairs(workspaces, "cpu")
    every = [pair for kind in ("batch", "order", "append", "chunking") for pair in pairs.of(workload, kind)]
    launched = {each.workspace.workload for pair in every for each in (pair.one, pair.other, pair.second) if each}
    assert launched <= ahead
    assert {each.T for each in launched} == ({1} if drafts == 1 else {drafts, drafts // 2, drafts - drafts // 2})


def test_what_the_kernel_does_otherwise_is_told(tested):
    (row,) = [each for each in tested if each["label"] == "sums-by-param" and each["differing"]][:1]
    assert (row["pair"], row["between"]) == ("CUT=1 | 2", "CUT=1 | 2")


def test_claims_that_hold_are_gates_that_pass(bench):
    done = verify(bench, "sums-claims", "--json")
    assert done.code == 0, done.out
    gates = {row["gate"]: row["passed"] for row in done.document["gates"]}
    claimed = ("batch", "order", "append", "chunking", "rerun")
    assert [gates[f"{kind} invariance"] for kind in claimed] == [True] * len(claimed)
    assert "invariance" not in done.document
    found = bench("verify", "sums-claims", "--ready", "--gpu", "cpu", "--json", "-q").document
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["numbers"]["what"].endswith("; claims hold: batch, order, append, chunking, rerun")


def test_a_false_claim_fails_and_names_the_pair_and_the_first_element(bench):
    done = verify(bench, "sums-lies")
    assert done.code == 3
    told = "claims batch invariance, and lengths=9 | lengths=9+5 differ in the bits of"
    assert told in done.out
    assert "elements, the first y[" in done.out


def test_a_kernel_whose_launches_alternate(bench):
    done = verify(bench, "sums-by-call")
    assert done.code == 3
    assert "claims rerun invariance, and launch 1 | launch " in done.out


def test_claims_are_tested_in_the_interpreter(bench):
    done = verify(bench, "sums-cuda", "sums-cuda-lies")
    assert ": 1 passed in the interpreter of PTX, 1 failed" in done.out
    assert "claims batch invariance, and lengths=9 | lengths=9+5 differ" in done.out
    assert "grid of sums 1 | 2" in done.out


@pytest.mark.parametrize(("words", "told"), [
    (("untold-claims",), "it claims batch, and untold does not say how its inputs are batched"),
    (("untold-rerun", "--invariance"), "untold does not say how its inputs are batched"),
    (("decode-split-reference", "--invariance"), "sequences of decode-split have several slots"),
    (("verify-rollback-reference", "--invariance"), "sequences of verify-rollback have several slots"),
])  # fmt: skip
def test_an_op_that_does_not_say_where_its_sequences_lie(bench, words, told):
    done = verify(bench, *words)
    assert done.code in {2, 6}
    assert told in done.err
    assert "sequences=Sequences(" in done.err
    assert verify(bench, "untold-rerun").code == 0


@pytest.mark.parametrize(("kernel", "is_equal"), [("sums-honest", True), ("sums-peeks", False)])
def test_a_path_is_compared_token_by_token_and_state_by_state(bench, kernel, is_equal):
    words = ("--shape", "lengths=9", "--quick", "--invariance", "--path", "steps-one", "--json")
    done = verify(bench, kernel, *words)
    (path,) = [row for row in done.document["invariance"] if row["kind"] == "path"]
    assert path["skipped"] == ""
    assert path["of"] == 9 * 8 + 8  # each token's output, and the last state
    assert (path["differing"] == 0) is is_equal
    assert path["pair"] == "W=8 lengths=9 | 9 calls of steps-one"


@pytest.mark.parametrize(("words", "told"), [
    (("sums-honest", "--path", "steps-one"), "--path is of --invariance"),
    (("steps-one", "--invariance", "--path", "sums-honest"), "sums is not a single step of steps"),
])  # fmt: skip
def test_a_path_that_makes_no_sense_is_refused(bench, words, told):
    done = verify(bench, *words)
    assert done.code == 2
    assert told in done.err


def test_a_run_stores_whether_claims_held(bench):
    done = bench.run("sums-claims,sums-lies", "--gpu", "cpu", "--baseline", "sums-claims", *FEW)
    claims = done.info["claims"]
    assert claims["sums-claims"] == dict.fromkeys(("batch", "order", "append", "chunking", "rerun"), True)
    assert claims["sums-lies"] == {**claims["sums-claims"], "batch": False}
    assert done.rows["sums-lies"]["status"] == "wrong-numbers"
    assert "claims batch invariance" in done.rows["sums-lies"]["reason"]


def test_a_score_warns_of_what_the_kernel_does_not_claim(bench):
    words = ("--against", "sums-claims", "--gpu", "cpu", "--budget", "1s", "--fresh", "--json")
    done = bench("score", "sums-honest", *words)
    told = "sums-honest does not claim batch, order, append, chunking, rerun invariance, which sums-claims claims"
    assert told in done.document["warnings"]


def test_claims_are_no_part_of_the_source(bench):
    catalog = load_catalog(bench.roots)
    honest, claims = (catalog.entries[f"sums-{name}"] for name in ("claims", "lies"))
    hashes = []
    for entry in (honest, claims):
        before, file = entry.source_hash(), entry.folder / "variant.py"
        text = file.read_text()
        for changed in (
            text.replace('    invariant=("batch", "order", "append", "chunking", "rerun"),\n', ""),
            f"{text}#",
        ):
            file.write_text(changed)
            hashes.append(entry.source_hash() == before)
        file.write_text(text)
    assert hashes == [True, False] * 2
