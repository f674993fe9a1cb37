"""Each gate at its edge, and whole kernels through all gates of an op."""

import pytest
import torch
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.launch import TORCH_DTYPES, Workspace, bind, load_numerics
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import is_poison, poison
from gdnbench.model.declaration import ExactGate, RmsGate, RoundoffGate, UlpGate
from gdnbench.model.status import Status
from gdnbench.verify import gates
from gdnbench.verify.check import check_copy, compare_launches, consult_oracle, verify_launcher
from gdnbench.verify.gates import copied_gate, describe_wrong, exact_gate, rms_gate, unchanged_gate, written_gate


def ulp_gate(gate, scenario, actual, expected):
    """In ulps of bf16, whatever the tensor: a finer one shows errors between bf16's numbers."""
    return gates.ulp_gate(gate, scenario, actual, expected, dtype=torch.bfloat16)


ONE_ULP = UlpGate("output", ulps=1.0, atol=0.0)
DECODES = UlpGate("output", ulps=1.0, atol=1e-5)
NOT_NUMBERS = [float("nan"), float("inf"), float("-inf")]


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("expected", "ulp"),
    [(1.0, 2**-7), (1.999, 2**-7), (0.999, 2**-8), (-1.5, 2**-7), (2.0, 2**-6), (3e38, 2.0**120), (1e-40, 2.0**-133)],
)
def test_one_ulp_of_bf16_passes_and_anything_more_fails(expected, ulp):
    for sign in (-1, 1):
        exact = ulp_gate(ONE_ULP, "typical", double(expected + sign * ulp), double(expected))
        above = ulp_gate(ONE_ULP, "typical", double(expected + sign * ulp * (1 + 1e-6)), double(expected))
        assert exact.worst == pytest.approx(1.0)
        assert (exact.passed, above.passed) == (exact.worst <= 1.0, False)


def test_rounding_the_oracle_to_bf16_passes_everywhere():
    expected = torch.cat([torch.logspace(-38, 38, 4001, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)])
    gate = ulp_gate(ONE_ULP, "typical", expected.bfloat16(), expected)
    assert gate.worst <= 0.5


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.9e-5, True), (1.1e-5, False), (1e-3, False)])
def test_at_zero_only_the_absolute_tolerance_counts(error, passed):
    assert ulp_gate(DECODES, "typical", double(error), double(0.0)).passed is passed


@pytest.mark.parametrize("value", NOT_NUMBERS)
@pytest.mark.parametrize("expected", [1.0, float("inf"), float("nan")])
def test_what_is_no_number_never_passes(value, expected):
    gate = ulp_gate(DECODES, "typical", double(1.0, value), double(1.0, expected))
    assert gate.status is Status.WRONG_NUMBERS
    assert gate.worst == float("inf")
    assert gate.where == "[1]"


@pytest.mark.parametrize(("error", "passed"), [(0.99e-6, True), (1.01e-6, False)])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e3, 1e20])
def test_the_rms_gate_is_relative(error, passed, size):
    expected = torch.full((8, 8), size, dtype=torch.float64)
    gate = rms_gate(RmsGate("new_state", limit=1e-6), "typical", expected * (1 + error), expected)
    assert gate.passed is passed
    assert gate.worst == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_the_rms_gate_fails_for_one_element_that_is_no_number(value):
    expected = torch.ones(4, 4, dtype=torch.float64)
    actual = expected.clone()
    actual[1, 2] = value
    gate = rms_gate(RmsGate("new_state", limit=1e-6), "typical", actual, expected)
    assert (gate.status, gate.worst, gate.where) == (Status.WRONG_NUMBERS, float("inf"), "[1, 2]")


def test_an_output_without_elements_passes():
    none = torch.zeros(2, 0, 4, dtype=torch.float64)
    assert rms_gate(RmsGate("states", limit=1e-6), "typical", none, none).passed
    assert gates.roundoff_gate(RoundoffGate("states"), "typical", none.float(), none, none).passed
    assert gates.ulp_gate(GATE, "typical", none.bfloat16(), none).passed


def test_the_rms_gate_of_nothing_but_zeros():
    zeros, gate = torch.zeros(4, dtype=torch.float64), RmsGate("new_state", limit=1e-6)
    assert rms_gate(gate, "typical", zeros, zeros).passed
    assert not rms_gate(gate, "typical", zeros + 1e-30, zeros).passed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_was_never_written_is_told_from_a_computed_nan(dtype):
    tensor = torch.empty(2, 3, dtype=dtype)
    poison((tensor,))
    assert tensor.isnan().all()
    tensor[:] = torch.zeros_like(tensor) / 0
    assert written_gate("output", "typical", tensor).passed
    poison((tensor[1:],))
    gate = written_gate("output", "typical", tensor)
    assert (gate.status, gate.worst, gate.where) == (Status.UNWRITTEN, 3.0, "[1, 0]")


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, float("inf"), float("nan"), 3e38])
def test_every_value_that_can_be_computed_counts_as_written(value):
    for dtype in (torch.bfloat16, torch.float32):
        assert written_gate("output", "typical", torch.full((4,), value, dtype=dtype)).passed


def test_an_output_that_is_a_view_can_be_judged():
    tensor = torch.empty(3, 2)
    poison((tensor,))
    tensor[2, 1] = 1.0
    gate = written_gate("output", "typical", tensor.T)
    assert (gate.worst, gate.where) == (5.0, "[0, 0]")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_an_input_is_unchanged_bit_by_bit(dtype):
    before = torch.tensor([0.0, 1.0, float("nan")], dtype=dtype)
    assert unchanged_gate("state", "typical", before, before.clone()).passed
    after = before.clone()
    after[0] = -0.0
    gate = unchanged_gate("state", "typical", before, after)
    assert (gate.status, gate.worst, gate.where) == (Status.CHANGED_INPUT, 1.0, "[0]")


def test_a_copy_is_exact():
    source = torch.randn(4, 4)
    assert copied_gate("state", "typical", source, source.clone()).passed
    rounded = source.bfloat16().float()
    assert copied_gate("state", "typical", source, rounded).status is Status.WRONG_NUMBERS


def test_a_large_states_honest_rounding_passes_whatever_the_seed():
    """Outputs near zero are what is left of terms of a thousand; a tolerance blind to that fails them by chance."""
    blind = []
    for seed in range(4):
        random = torch.Generator().manual_seed(seed)
        state = 1e3 * torch.randn(512, 128, 128, generator=random)
        query = torch.nn.functional.normalize(torch.randn(512, 1, 128, generator=random), dim=-1)
        running = sum((state * query).unbind(-1))  # fp32, in the order that loses most
        expected = (state.double() * query.double()).sum(-1)
        assert ulp_gate(DECODES, "large-state", running.bfloat16(), expected).passed
        rms = float(expected.square().mean().sqrt())
        blind.append(ulp_gate(UlpGate("output", 1.0, 1e-5 / rms), "large-state", running.bfloat16(), expected).passed)
    assert not all(blind)


@pytest.mark.parametrize(
    ("dtype", "ulp_at_one", "least"),
    [
        (torch.bfloat16, 2**-7, 2**-133),
        (torch.float16, 2**-10, 2**-24),
        (torch.float32, 2**-23, 2**-149),
        (torch.float64, 2**-52, 2**-1074),
        (torch.float8_e4m3fn, 2**-3, 2**-9),
    ],
)
def test_every_floating_point_type_has_its_own_ulp(dtype, ulp_at_one, least):
    assert float(torch.tensor(1 + ulp_at_one, dtype=torch.float64).to(dtype)) > 1
    assert float(torch.tensor(least, dtype=torch.float64).to(dtype)) == least
    for at, ulp in ((1.0, ulp_at_one), (0.0, least)):
        near, far = (torch.tensor([at + steps * ulp], dtype=torch.float64).to(dtype) for steps in (1, 2))
        expected = torch.tensor([at], dtype=torch.float64)
        assert gates.ulp_gate(ONE_ULP, "typical", near, expected).passed
        assert not gates.ulp_gate(ONE_ULP, "typical", far, expected).passed


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.bool, torch.uint8])
def test_integers_are_equal_or_wrong(dtype):
    expected = torch.tensor([0, 1, 1, 0]).to(dtype)
    actual = expected.clone()
    assert exact_gate(ExactGate("y"), "typical", actual, expected).passed
    actual[2] = 0
    found = exact_gate(ExactGate("y"), "typical", actual, expected)
    assert (found.passed, found.wrong.count, found.where) == (False, 1, "[2]")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8])
def test_a_number_that_happens_to_be_the_poison_is_no_unwritten_element(dtype):
    tensor = torch.zeros(3, dtype=dtype)
    poison([tensor])
    assert written_gate("y", "typical", tensor, (), tensor.clone()).passed
    assert written_gate("y", "typical", tensor, (), torch.zeros(3, dtype=dtype)).wrong.count == 3


@pytest.mark.parametrize("dtype", sorted(TORCH_DTYPES))
def test_every_element_type_can_be_poisoned(dtype):
    tensor = torch.zeros(5, dtype=TORCH_DTYPES[dtype])
    assert not is_poison(tensor).any()
    poison([tensor])
    assert is_poison(tensor).all()


AXES = ("B", "axis 1", "HV", "V")
GATE = UlpGate("output", ulps=1.0, atol=1e-5)


def spread(*places, size=(2, 1, 8, 128)):
    failing = torch.zeros(size, dtype=torch.bool)
    for place in places:
        failing[place] = True
    return describe_wrong(failing, tuple(failing.nonzero()[0].tolist()), None, None, AXES).spread


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([(slice(None),)], "every B, HV, V"),
        ([(1, 0, 3, 17)], "B 1 of 2; HV 3 of 8; V 17 of 128"),
        ([(slice(None), 0, slice(4, 8))], "HV 4-7 of 8; every B, V"),
        ([(0, 0, 1), (0, 0, 3), (0, 0, 4)], "B 0 of 2; HV 1,3-4 of 8; every V"),
        ([(slice(None), 0, slice(None), slice(0, None, 2))], "V 0,2,…,126 of 128; every B, HV"),
        ([(0, 0, 0, n * n) for n in range(11)], "B 0 of 2; HV 0 of 8; V at 11 places from 0 to 100 of 128"),
    ],
)
def test_a_pattern_is_told_axis_by_axis(places, told):
    assert spread(*places) == told


def test_a_tensor_of_one_element():
    assert describe_wrong(torch.ones(1, 1, dtype=torch.bool), (0, 0), None, None).spread == "its one element"


def test_the_accuracy_gate_tells_the_worst_value_and_how_many_are_wrong():
    expected = torch.ones(2, 1, 8, 128, dtype=torch.float64)
    actual = expected.bfloat16()
    actual[:, :, 3, ::2] = 1.5
    actual[1, 0, 3, 4] = -7
    gate = gates.ulp_gate(GATE, "typical", actual, expected, AXES)
    assert (gate.wrong.count, gate.wrong.of) == (2 * 64, 2 * 8 * 128)
    assert (gate.wrong.got, gate.wrong.expected, gate.where) == (-7.0, 1.0, "[1, 0, 3, 4]")
    assert "got -7, expected 1; 128 of 2,048 wrong; HV 3 of 8; V 0,2,…,126 of 128; every B" in gate.reason


def test_a_gate_that_is_passed_tells_of_nothing_wrong():
    expected = torch.rand(64, dtype=torch.float64)
    assert gates.ulp_gate(GATE, "typical", expected.bfloat16(), expected).wrong is None
    assert rms_gate(RmsGate("new_state", 1e-2), "typical", expected.bfloat16(), expected).wrong is None


def test_the_state_gate_tells_the_elements_that_are_further_off_than_all_may_be():
    expected = torch.rand(4, 8, dtype=torch.float64) + 1
    actual = expected.clone()
    actual[2] += 1e-3
    gate = rms_gate(RmsGate("new_state", 1e-6), "typical", actual, expected, ("HV", "V"))
    assert (gate.wrong.count, gate.wrong.spread) == (8, "HV 2 of 4; every V")


def test_what_was_never_written_has_no_value():
    tensor = torch.zeros(4, 4)
    poison([tensor[1]])
    gate = written_gate("output", "typical", tensor, ("HV", "V"))
    assert gate.reason == (
        "output written: fails for 4 elements, first at [1, 0]: 4 of 16 wrong; HV 1 of 4; every V (typical inputs)"
    )


def test_an_input_that_changed_shows_both_values():
    before = torch.ones(4)
    after = before.clone()
    after[3] = 5
    gate = unchanged_gate("state", "typical", before, after, ("V",))
    assert "got 5, expected 1; 1 of 4 wrong; V 3 of 4" in gate.reason


DECODE = CATALOG.ops["decode"]
NUMERICS = load_numerics(DECODE, CATALOG.op_folders["decode"])
REFERENCE = CATALOG.entries["decode-reference"]
SMALL = decode_at(B=2, HQ=2, HV=4, K=32, V=16)


def workspace_of(workload=SMALL, scenario="typical", seed=11):
    workspace = Workspace.make(DECODE, NUMERICS, workload, seed=seed, device="cpu", scenario=scenario)
    return workspace, consult_oracle(workspace, NUMERICS)


def judge(make_run, scenario="typical"):
    """Gate results by what they are about, of a kernel given as a function of the workspace."""
    workspace, expected = workspace_of(scenario=scenario)
    gates = verify_launcher(make_run(workspace), workspace, expected, scenario, lambda: None)
    return {status: [gate.gate for gate in gates if gate.status is status] for status in {g.status for g in gates}}


def reference(workspace, **changed):
    inputs = {**workspace.inputs, **workspace.scalars, **changed}
    return load_file(REFERENCE.source).gdn_decode(**inputs)


@pytest.mark.parametrize("batch", [1, 3, 7, 13])
def test_the_reference_passes_every_scenario(batch):
    for scenario in DECODE.scenarios:
        workspace, expected = workspace_of(decode_at(B=batch), scenario)
        run = bind(REFERENCE, REFERENCE.default, workspace)
        gates = verify_launcher(run, workspace, expected, scenario, lambda: None)
        assert [gate for gate in gates if not gate.passed] == []
        assert {gate.scenario for gate in gates} == {scenario}


def test_a_kernel_that_leaves_rows_unwritten_in_memory_of_its_own_is_found():
    """torch.empty may hand back what an earlier, complete call wrote."""

    def make(workspace):
        def run():
            output, state = reference(workspace)
            own = torch.empty_like(state)
            own[:, :-1] = state[:, :-1]
            return output, own

        run()
        return run

    assert list(judge(make)) != [Status.OK]


@pytest.mark.parametrize("name", [spec.name for spec in DECODE.inputs])
def test_a_kernel_that_changes_an_input_is_found(name):
    def make(workspace):
        def run():
            outputs = reference(workspace)
            workspace.inputs[name].view(-1)[-1] += 1.0
            return outputs

        return run

    assert judge(make)[Status.CHANGED_INPUT] == [f"{name} unchanged"]


def test_restoring_gives_every_input_its_values_in_its_place():
    """Kernels are bound to addresses, so the tensors must stay where they are."""
    workspace, _ = workspace_of()
    drawn = {name: tensor.clone() for name, tensor in workspace.inputs.items()}
    places = {name: tensor.data_ptr() for name, tensor in workspace.inputs.items()}
    for tensor in workspace.inputs.values():
        tensor.fill_(7.0)
    workspace.restore()
    assert all(torch.equal(workspace.inputs[name], tensor) for name, tensor in drawn.items())
    assert {name: tensor.data_ptr() for name, tensor in workspace.inputs.items()} == places


def test_a_kernel_in_place_starts_again_before_its_launches_are_compared():
    workspace, _ = workspace_of()

    def run():
        output, state = reference(workspace, state=workspace.outputs["new_state"])
        workspace.outputs["new_state"].copy_(state)
        return output, workspace.outputs["new_state"]

    assert compare_launches(run, workspace, lambda: None, {"new_state": "state"}) == ""


VERIFY = CATALOG.ops["verify"]
DRAFTS = VERIFY.workload({"B": 4, "T": 3, "KEEP": 0, "HQ": 1, "HV": 2, "K": 32, "V": 16})


def drafts(scenario="padded"):
    numerics = load_numerics(VERIFY, CATALOG.op_folders["verify"])
    return Workspace.make(VERIFY, numerics, DRAFTS, seed=3, device="cpu", scenario=scenario), numerics


def test_a_copy_of_parts_is_held_against_what_the_op_says_of_it():
    workspace, _ = drafts()
    outputs = workspace.output_tensors
    live = workspace.inputs["slot"] > 0
    outputs[1].zero_()[live, 0] = workspace.inputs["pool"][workspace.inputs["slot"][live].long()]
    (right,) = check_copy(outputs, workspace, "padded")
    assert right.passed
    outputs[1][live.nonzero()[0], 0, 1, 2, 3] += 1
    (wrong,) = check_copy(outputs, workspace, "padded")
    assert (wrong.gate, wrong.worst) == ("states copied", 1.0)
