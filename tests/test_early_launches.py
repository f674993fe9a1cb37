"""Kernels whose second launch may begin before the first has ended: declared, interpreted, and on a GPU."""

import pytest
import torch
from cuda.bindings import driver
from faults import Gdnbench

from gdnbench.catalog.catalog import load_catalog
from gdnbench.codegen.nvrtc import compile_cuda
from gdnbench.errors import BuildError, ExitCode
from gdnbench.launch import Workspace, load_numerics
from gdnbench.launch.bind import early_config, load
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.model.case import Case
from gdnbench.step.plan import L2, StepSettings, Way, make_cases
from gdnbench.workers.device import CudaDevice, capture

OP = """from gdnbench import Axis, ExactGate, Op, Shape, TensorSpec, WorkloadSpec
op = Op(name="sums", title="sums", workloads=WorkloadSpec(axes=(Axis("N", default=4096, doc="numbers"),)),
    inputs=(TensorSpec("x", ("N",), "fp32"),), outputs=(TensorSpec("y", ("N",), "fp32"),),
    gates=(ExactGate("y"),), suites={"verify": (Shape(N=4096),)})
"""
NUMERICS = """import torch


def make_inputs(workload, seed, device, scenario):
    x = torch.randint(0, 100, (workload.N,), generator=torch.Generator().manual_seed(seed)).float()
    return {"x": x.to(device)}, {}


def oracle(tensors, scalars):
    x = tensors["x"]
    return {"y": 3 * x + 2 * x.roll(1)}
"""
# y_i = 3 x_i + 2 x_{i-1}: of `twice`, that is 2 x, a thread takes what another block's wrote.
SOURCE = """extern "C" __global__ void first(const float* x, float* twice, int N) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float sum = 0; __nanosleep(2000);  // the second launch is there by then
  for (int n = 0; n < 2; ++n) sum += x[i];
  twice[i] = sum;
}
extern "C" __global__ void second(const float* x, float* twice, float* y, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float own = i < N ? x[i] : 0;
  SECOND
  if (i < N) y[i] = own + twice[i] + twice[(i + N - 1) % N];
}
"""
WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
EARLY = """CudaLaunch(entry="second", grid=lambda w, p: (-(-w.N // 128),), block=lambda w, p: 128, begins_early=True,
    arguments=("x", "twice", "y", "N"))"""
FIRST = """CudaLaunch(entry="first", grid=lambda w, p: (-(-w.N // 128),), block=lambda w, p: 128,
    arguments=("x", "twice", "N"))"""


@pytest.fixture
def sums(tmp_path):
    def made(second=WAIT, *, launches=(FIRST, EARLY), since="sm_90", source=SOURCE):
        op = tmp_path / "sums"
        (op / "mine").mkdir(parents=True)
        text = f"""from gdnbench import *
kernel = CudaKernel(name="sums-mine", since={since!r}, scratch=(TensorSpec("twice", ("N",), "fp32"),),
    launches=({", ".join(launches)},))
"""
        files = {"op.py": OP, "numerics.py": NUMERICS, "mine/variant.py": text}
        files["mine/kernel.cu"] = source.replace("SECOND", second)
        for path, content in files.items():
            (op / path).write_text(content)
        return load_catalog([tmp_path])

    return made


def workspace_of(entry, device="cpu", seed=1):
    workload = entry.op.workload({"N": 4096})
    numerics = load_numerics(entry.op, entry.folder.parent)
    made = Workspace.make(entry.op, numerics, workload, seed=seed, device=device, scenario="typical")
    return made, numerics.oracle(made.inputs, {})["y"]


def interpret(catalog):
    assert not catalog.broken, catalog.broken[0].reason
    entry = catalog.entries["sums-mine"]
    workspace, right = workspace_of(entry)
    run = InterpretedCuda(entry, entry.default, workspace.workload, "sm_90").run(workspace)
    assert torch.equal(workspace.outputs["y"], right)  # launches take turns in the interpreter, waited for or not
    return [(each.fault.name, each.at.line, each.text, each.count) for each in run.findings]


FUNCTION = f"__device__ __noinline__ void wait_for_first() {{ {WAIT} }}\n"
ONE_WAITS = f"if (threadIdx.x == 40) {{ {WAIT} }} __syncthreads();"
UNORDERED = f"if (threadIdx.x == 40) {{ {WAIT} }}"


@pytest.mark.parametrize("wait", [WAIT, ONE_WAITS])
def test_what_an_earlier_launch_writes_is_read_after_a_wait(sums, wait):
    assert interpret(sums(wait)) == []


def test_a_read_that_no_wait_is_in_front_of_is_a_race(sums):
    found = interpret(sums(f"const float before = twice[i]; if (before < -1) return; {WAIT}"))
    text = "thread 0 of block 0 reads `twice` where an earlier launch writes, with no `griddepcontrol.wait` before"
    assert found == [("RACE", 12, text, 4096)]


def test_a_wait_of_one_thread_holds_for_those_alone_that_a_barrier_orders_after_it(sums):
    [(fault, line, text, count)] = interpret(sums(UNORDERED))
    assert (fault, line, "thread 0 of block 0 reads `twice`" in text) == ("RACE", 13, True)
    assert count == 2 * (4096 - 32)  # two loads of a thread; those of thread 40, whose block has 128


def test_a_write_over_what_an_earlier_launch_writes_is_a_race_too(sums):
    source = SOURCE.replace("twice[i] + twice[(i + N - 1) % N]", "twice[i] + 2 * x[(i + N - 1) % N]")
    [(fault, line, text, count)] = interpret(sums(f"if (i < N) twice[i] = 2 * own; {WAIT}", source=source))
    assert (fault, line, count) == ("RACE", 12, 4096)
    assert "writes `twice` where an earlier launch writes" in text


def test_bytes_that_no_earlier_launch_writes_need_no_wait(sums):
    """The output is the second launch's own: it may be written before the wait."""
    assert interpret(sums(f"if (i < N) y[i] = own; {WAIT}")) == []


def test_a_launch_of_which_no_thread_waits_at_run_time_is_a_race(sums):
    source = SOURCE.replace("y[i] = own + twice[i] + twice[(i + N - 1) % N]", "y[i] = 3 * own + 2 * x[(i + N - 1) % N]")
    [(fault, _, text, _)] = interpret(sums(f"if (N < 0) {{ {WAIT} }}", source=source))
    assert (fault, "ends without a `griddepcontrol.wait`" in text) == ("RACE", True)


def test_a_launch_that_begins_in_its_turn_needs_no_wait(sums):
    assert interpret(sums("", launches=(FIRST, EARLY.replace("begins_early=True,", "")))) == []


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_a_source_that_never_waits_does_not_build(sums, arch):
    entry = sums("").entries["sums-mine"]
    workload = entry.op.workload({})
    with pytest.raises(BuildError, match=r"second begins early and never waits .* no griddepcontrol.wait in it"):
        compile_cuda(entry, entry.default.params, workload, arch)
    with pytest.raises(BuildError, match="second begins early and never waits"):
        InterpretedCuda(entry, entry.default, workload, arch)


def test_a_wait_in_a_function_that_is_not_inlined_counts(sums):
    assert interpret(sums("wait_for_first();", source=FUNCTION + SOURCE)) == []


def test_a_wait_of_another_launch_does_not_count(sums):
    entry = sums("", source=SOURCE.replace("if (i >= N) return;", WAIT)).entries["sums-mine"]
    with pytest.raises(BuildError, match="never waits"):
        compile_cuda(entry, entry.default.params, entry.op.workload({}), "sm_90")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"launches": (EARLY, FIRST)}, "second: the first launch cannot begin early"),
        ({"since": ""}, "second: launches begin early from sm_90 on"),
        ({"since": "sm_80"}, "since='sm_90'"),
    ],
)
def test_what_cannot_begin_early_is_broken_where_it_is_declared(sums, declared, said):
    [broken] = sums(**declared).broken
    assert said in broken.reason


def test_the_driver_is_told_that_a_launch_may_begin_early():
    config = early_config((2, 3, 4, 128, 1, 1, 5000), driver.CUstream(7))
    (attribute,) = config.attrs
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (2, 3, 4)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ, config.sharedMemBytes) == (128, 1, 1, 5000)
    assert (int(config.hStream), config.numAttrs) == (7, 1)
    assert attribute.id == driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert attribute.value.programmaticStreamSerializationAllowed == 1


def test_a_solution_is_refused_that_would_launch_in_turn(sums, tmp_path):
    sums()
    done = Gdnbench(tmp_path, (tmp_path,), in_process=True)("exchange", "export", "sums-mine", "--to", str(tmp_path))
    assert done.code == ExitCode.USAGE
    assert "second begins early, and launches of a Solution do not" in done.err


def test_layers_of_a_step_do_not_begin_early_where_a_first_launch_waits_for_nothing(sums):
    entry = sums().entries["sums-mine"]
    case = Case(entry.default, entry.op.workload({}))
    made = make_cases([case], {"sums-mine": entry}, [Way.GRAPH, Way.GRAPH_PDL], [L2.RESIDENT], StepSettings())
    refused = {each.path: each.refusal for each in made if not each.is_again}
    assert refused[Way.GRAPH] == ""
    assert "begin early within a call" in refused[Way.GRAPH_PDL]


@pytest.mark.gpu
def test_the_second_launch_has_the_first_ones_result_a_hundred_times(sums):
    """As launched, and as captured in a graph."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("launches begin early from Hopper on")
    entry = sums().entries["sums-mine"]
    workspace, _ = workspace_of(entry, "cuda")
    with CudaDevice().current():
        call = load(entry, entry.default, workspace.workload)(workspace)
        captured = capture(call, strict=True)
        assert captured.kernels == 2
        for number in range(100):
            for launch in (call, captured.graph.replay):
                workspace.inputs["x"].random_(0, 100)
                workspace.reset_all({})
                launch()
                x = workspace.inputs["x"]
                assert torch.equal(workspace.outputs["y"], 3 * x + 2 * x.roll(1)), number
