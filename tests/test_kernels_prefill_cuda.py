"""The prefill's CUDA kernels in the interpreter of PTX: right numbers, and no memory or barrier used wrongly."""

import random
from importlib.util import find_spec

import pytest
import torch
from bundled import CATALOG
from prefill_data import token_after_token

from gdnbench.catalog.select import select_variants
from gdnbench.launch import load_numerics
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.launch.workspace import Workspace

pytestmark = pytest.mark.slow

PREFILL = CATALOG.ops["prefill"]
NUMERICS = load_numerics(PREFILL, CATALOG.op_folders["prefill"])
BF16_ROUNDOFF = 2.0**-8


def interpret(label, lengths, scenario="typical", *, heads=(1, 1), forgetful_chunks=(), spoil=lambda inputs: None):
    """Runs a kernel; gives what was found wrong, and its tensors by name. Nothing outlasts a forgetful chunk."""
    [variant] = select_variants(CATALOG, "prefill", label)
    workload = PREFILL.workloads.workload({"lengths": lengths, "HQ": heads[0], "HV": heads[1]})
    workspace = Workspace.make(PREFILL, NUMERICS, workload, seed=3, device="cpu", scenario=scenario)
    for chunk in forgetful_chunks:
        workspace.inputs["a"][chunk * 64 : (chunk + 1) * 64] = 5.0
    spoil(workspace.inputs)
    watched = InterpretedCuda(CATALOG.entries[variant.kernel], variant, workload, "sm_90").run(workspace)
    return watched.findings, workspace


def check(findings, workspace):
    assert findings == ()
    right = token_after_token(workspace.inputs, workspace.scalars["scale"])
    output, state = right["output"], right["new_state"]
    torch.testing.assert_close(workspace.outputs["output"].double(), output, rtol=BF16_ROUNDOFF, atol=1e-5)
    size = float(state.abs().max())
    torch.testing.assert_close(workspace.outputs["new_state"].double(), state, rtol=1e-5, atol=1e-6 * size)


def check_chunked(findings, workspace):
    """Within half of what the op's gates let products of bf16 be off by."""
    assert findings == ()
    right = token_after_token(workspace.inputs, workspace.scalars["scale"])
    units = NUMERICS.roundoff(workspace.inputs, workspace.scalars)
    for name, expected in right.items():
        error = (workspace.outputs[name].double() - expected).abs()
        assert float((error / (BF16_ROUNDOFF * units[name] + 1e-30)).max()) < 8 / 2, name


CHUNKED = tuple(f"prefill-v{number}" for number in (1, 2, 3, 4, 6, 7, 9))


@pytest.mark.parametrize("kernel", CHUNKED)
def test_chunks_of_sequences_of_different_lengths_and_an_empty_one_with_shared_heads(kernel):
    findings, workspace = interpret(kernel, (65, 0, 1, 70), heads=(2, 4))
    check_chunked(findings, workspace)
    assert torch.equal(workspace.outputs["new_state"][1], workspace.inputs["state"][1])


@pytest.mark.parametrize("kernel", ["prefill-v4", "prefill-v6", "prefill-v7", "prefill-v8", "prefill-v9"])
def test_what_is_no_number_stays_in_its_sequence(kernel):
    """Rows of the next sequence come with the last chunk of the one before."""

    def spoil(inputs):
        for name in ("q", "k", "v", "a", "b"):
            inputs[name][70:] = torch.nan

    findings, workspace = interpret(kernel, (70, 60), spoil=spoil)
    assert findings == ()
    assert workspace.outputs["output"][:70].isfinite().all()
    assert workspace.outputs["new_state"].isfinite().flatten(1).all(dim=1).tolist() == [True, False]


@pytest.mark.parametrize("heads", [(1, 1), (1, 3)])
def test_value_heads_that_cannot_be_prepared_in_pairs(heads):
    check_chunked(*interpret("prefill-v1", (70,), heads=heads))


@pytest.mark.parametrize("kernel", CHUNKED)
@pytest.mark.parametrize("scenario", ["slow-decay", "saturated-gates", "large-state", "closed-gates"])
def test_chunks_of_all_kinds_of_inputs(kernel, scenario):
    check_chunked(*interpret(kernel, (100,), scenario))


FEWER_PLACES = "v1:WARPS=1:STAGES=2 v1:WARPS=4:STAGES=3 v2:STAGES=2 v2:STAGES=4 v2:GROUPS=2 v4 v7:BLOCKS=1"


@pytest.mark.parametrize("kernel", FEWER_PLACES.split())
def test_more_chunks_than_places_for_them(kernel):
    check_chunked(*interpret(f"prefill-{kernel}", (330,)))


@pytest.mark.parametrize("scenario", ["typical", "slow-decay", "closed-gates"])
@pytest.mark.parametrize("kernel", ["prefill-v3:GROUPS=1", "prefill-v3:GROUPS=2", "prefill-v4", "prefill-v7"])
def test_segments_begin_as_far_back_as_the_head_remembers(kernel, scenario):
    """64 blocks of 64 rows cut 6 chunks of one head into 6 segments; one that never decays goes back to the first."""
    check_chunked(*interpret(f"{kernel}:BLOCKS=64", (330, 0, 64), scenario))


def test_a_head_that_never_forgets_goes_back_further_than_warps_look_at_once():
    check_chunked(*interpret("prefill-v4:BLOCKS=64", (18 * 64 + 1,), "closed-gates"))


@pytest.mark.parametrize("scenario", ["typical", "slow", "never", "closed-gates", "large-state"])
@pytest.mark.parametrize(
    ("kernel", "lengths"),
    [("v6:BLOCKS=64", (330, 0, 64)), ("v6:BLOCKS=4:CUTS=2", (330, 0, 64)), ("v6:BLOCKS=4:CUTS=2", (330, 0, 200)),
     ("v9:BLOCKS=4", (330, 0, 200)), ("v9:BLOCKS=4:FIRST=2", (700,))],
)  # fmt: skip
def test_states_are_composed_from_what_segments_make_of_any(kernel, lengths, scenario):
    """Of 200 tokens there are two segments where transitions have two chunks: v6's second one begins with the first."""
    check_chunked(*interpret(f"prefill-{kernel}", lengths, scenario))


@pytest.mark.parametrize("kernel", ["prefill-v6", "prefill-v9"])
@pytest.mark.parametrize("forgetful", [(0,), (1,), (1, 2), (0, 3), (0, 1, 2, 3, 4)])
def test_composing_goes_back_no_further_than_a_segment_that_forgets(forgetful, kernel):
    """Segments are of a chunk. One that follows a forgetful one and another begins with what the forgetful one adds."""
    check_chunked(*interpret(f"{kernel}:BLOCKS=64", (330,), "never", forgetful_chunks=forgetful))


@pytest.mark.parametrize("kernel", ["v6:SILENT=4", "v6:SILENT=8", "v9:SILENT=4", "v9:SILENT=8:FIRST=6"])
def test_a_state_that_takes_many_chunks_to_forget_is_worked_out_before(kernel):
    """Of v6's second segment of six chunks the last five matter; with SILENT=8 outputs go through these first."""
    check_chunked(*interpret(f"prefill-{kernel}:BLOCKS=4", (23 * 64 + 5,), "never", forgetful_chunks=(7,)))


@pytest.mark.parametrize("kernel", ["prefill-v6:BLOCKS=16", "prefill-v9:BLOCKS=16", "prefill-v9:BLOCKS=4:FIRST=8"])
def test_transitions_of_more_chunks_than_places_of_several_sequences_and_shared_heads(kernel):
    check_chunked(*interpret(kernel, (12 * 64 + 1, 0, 700), "mixed-heads", heads=(1, 2)))


@pytest.mark.parametrize("first", [2, 4, 5, 8])
def test_scratch_has_places_for_all_cuts(first):
    [variant] = select_variants(CATALOG, "prefill", f"prefill-v9:FIRST={first}")
    grid, drawn = CATALOG.entries["prefill-v9"].kernel.launches[0].grid, random.Random(first)
    for heads in (2, 8, 32, 64, 256) * 100:
        lengths = [drawn.choice((0, 64, 3000, 30_000)) + drawn.randrange(400) for _ in range(drawn.randrange(9))] + [1]
        workload = PREFILL.workloads.workload({"lengths": tuple(lengths), "HQ": 1, "HV": heads})
        cuts = (grid(workload, variant.params)[1] - len(lengths)) // 2
        assert cuts * heads <= 2 * variant.params.BLOCKS


@pytest.mark.parametrize("kernel", ["prefill-v7:SMS=2", "prefill-v8:SMS=2", "prefill-v8:SMS=2:SCHEDULED=4"])
@pytest.mark.parametrize(
    ("lengths", "heads"), [((65, 0, 130, 400), (1, 1)), ((70, 70, 70), (1, 2)), ((1, 64, 0, 63, 200), (1, 1))]
)
def test_blocks_go_on_to_sequences_with_chunks_of_the_last_one_under_way(kernel, lengths, heads):
    """Two blocks have turns of odd and even numbers of chunks, of none and of more than there are places for."""
    check_chunked(*interpret(kernel, lengths, "slow-decay", heads=heads))


def test_teams_of_blocks_share_sequences_longest_first():
    """Four teams of 16 blocks have nine sequences, two of which are equally long, and one empty."""
    check_chunked(*interpret("prefill-v8:SMS=64", (5, 0, 130, 70, 64, 200, 1, 64, 9), "typical", heads=(2, 8)))


def test_more_sequences_than_lanes_look_at_at_once():
    check_chunked(*interpret("prefill-v3", (1, 2, 0, 3) * 9 + (66,)))


WITHOUT_DSL = pytest.mark.skipif(not find_spec("cutlass"), reason="no CuTe DSL here: pip install 'gdnbench[cute]'")
of_steps = pytest.mark.parametrize("kernel", ["prefill-recurrent", pytest.param("prefill-cute", marks=WITHOUT_DSL)])


@of_steps
def test_sequences_of_different_lengths_and_an_empty_one_with_shared_heads(kernel):
    findings, workspace = interpret(f"{kernel}:ROWS=2", (5, 0, 2), heads=(1, 2))
    check(findings, workspace)
    assert torch.equal(workspace.outputs["new_state"][1], workspace.inputs["state"][1])


PARAMS = "1:PRODUCERS=2:LANES=8 1:PRODUCERS=1 2:ROWS=2:WARPS=2:PRODUCERS=2"  # the first has more steps than slots
PARAMS += " 4:LANES=8:ROWS=2:PRODUCERS=1 8:LANES=16:PRODUCERS=2"


@of_steps
@pytest.mark.parametrize("params", PARAMS.split())
def test_params(params, kernel):
    check(*interpret(f"{kernel}:TOKENS={params}", (11,)))


@of_steps
@pytest.mark.parametrize("scenario", ["slow-decay", "saturated-gates", "large-state", "closed-gates"])
def test_kinds_of_inputs(scenario, kernel):
    check(*interpret(kernel, (6,), scenario))


def test_an_empty_kernel_takes_the_arguments_and_writes_nothing():
    findings, workspace = interpret("prefill-floor-empty", (3,))
    assert findings == ()
    untouched = Workspace.make(PREFILL, NUMERICS, workspace.workload, seed=3, device="cpu", scenario="typical").outputs
    for name, tensor in workspace.outputs.items():
        assert torch.equal(tensor.view(torch.int16), untouched[name].view(torch.int16))
