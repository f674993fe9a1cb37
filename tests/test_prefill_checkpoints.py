"""Prefill with checkpoints: the oracle is the recurrence, gates find what is saved wrongly, and kernels are right."""

from functools import cache
from itertools import pairwise

import pytest
import torch
from bundled import CATALOG
from library_data import failures, load_with
from prefill_data import computed, token_after_token
from test_kernels_prefill_libraries import flashinfer, gates_in_torch
from verified_kernels import verify_together

from gdnbench.errors import ShapeError
from gdnbench.launch import Workspace
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape
from gdnbench.verify.check import check_all, consult_oracle
from gdnbench.verify.gates import roundoff_error

OP = CATALOG.ops["prefill-checkpoints"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
LENGTHS = (65, 0, 200, 128)
MISTAKES = (
    "saved a chunk ahead", "saved a token ahead", "saved a chunk late", "counted from the state before",
    "rounded to bf16", "another sequence's", "in reverse", "the last state instead", "one element a thirtieth off",
)  # fmt: skip
"""What kernels save wrongly; each must fail in some scenario."""


def workload(lengths=LENGTHS, every=64, **sizes):
    return OP.workload(Shape(lengths=lengths, EVERY=every, **{"HQ": 1, "HV": 2, "K": 64, "V": 32, **sizes}))


@cache
def drawn(scenario, **shape):
    found = workload(**shape)
    t, scalars = NUMERICS.make_inputs(found, 1, "cpu", scenario)
    return t, scalars, NUMERICS.oracle(t, scalars, found), NUMERICS.roundoff(t, scalars, found)


def after(t, sequence, tokens, recurrence):
    """A sequence's state after so many of its tokens, by a function of the inputs of `prefill`."""
    begin = int(t["cu_seqlens"][sequence])
    own = {name: t[name][begin : begin + tokens] for name in ("q", "k", "v", "a", "b")}
    ends = torch.tensor([0, tokens])
    return recurrence(t | own | {"cu_seqlens": ends, "state": t["state"][sequence : sequence + 1]})["new_state"][0]


def places(t, every):
    """A sequence, its number of tokens, and a number of tokens after which there is a checkpoint, for each of them."""
    lengths = [end - begin for begin, end in pairwise(t["cu_seqlens"].tolist())]
    return [(n, length, at) for n, length in enumerate(lengths) for at in range(every, length + 1, every)]


def saved(t, scale, mistake="", every=64):
    """What a kernel that multiplies in bf16 leaves, with a mistake in its checkpoints if one is asked for."""
    outputs = computed(t, scale)

    def state(sequence, tokens):
        return after(t, sequence, tokens, lambda own: computed(own, scale)) if tokens else t["state"][sequence]

    ahead = {"saved a chunk ahead": 64, "saved a token ahead": 1, "saved a chunk late": -64}.get(mistake, 0)
    ahead = -every if mistake == "counted from the state before" else ahead
    found = torch.stack([state(n, min(at + ahead, length)) for n, length, at in places(t, every)])
    match mistake:
        case "rounded to bf16":
            found = found.bfloat16().float()
        case "another sequence's":
            found[[0, -1]] = found[[-1, 0]]
        case "in reverse":
            found = found.flip(0)
        case "the last state instead":
            found = torch.stack([outputs["new_state"][n] for n, _, _ in places(t, every)])
        case "one element a thirtieth off":
            found.view(-1)[12345] += 0.03 * found.square().mean().sqrt()
    return outputs | {"checkpoints": found}


def worst(outputs, expected, sizes):
    return {
        gate.tensor: float(
            roundoff_error(gate, outputs[gate.tensor], expected[gate.tensor], sizes[gate.tensor]).max() / gate.limit
        )
        for gate in OP.gates
    }


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("lengths", "every"), [(LENGTHS, 64), ((1, 300, 128), 128)])
def test_the_oracle_is_the_recurrence_at_each_checkpoint(scenario, lengths, every):
    t, _, expected, _ = drawn(scenario, lengths=lengths, every=every)
    assert t["checkpoint_cu_starts"].diff().tolist() == [length // every for length in lengths]
    assert len(expected["checkpoints"]) == t["checkpoint_cu_starts"][-1]
    for (sequence, _, tokens), found in zip(places(t, every), expected["checkpoints"], strict=True):
        right = after(t, sequence, tokens, lambda own: token_after_token(own, 1.0))
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_products_of_bf16_pass(scenario):
    t, scalars, *right = drawn(scenario)
    assert max(worst(saved(t, **scalars), *right).values()) < 0.5


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_checkpoint_that_is_saved_wrongly_fails_in_some_scenario(mistake):
    found = {}
    for scenario in OP.scenarios:
        t, scalars, *right = drawn(scenario)
        found[scenario] = worst(saved(t, **scalars, mistake=mistake), *right)["checkpoints"]
    assert max(found.values()) > 1, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_a_sequences_last_state_is_a_checkpoint_where_it_ends_at_one(scenario):
    _, _, expected, sizes = drawn(scenario)
    for found in (expected, sizes):
        assert torch.equal(found["checkpoints"][-1], found["new_state"][-1])
        assert not torch.equal(found["checkpoints"][3], found["new_state"][2])


@pytest.mark.parametrize(
    ("sizes", "reason"), [({"every": 96}, "no multiple of 64"), ({"lengths": (63, 0)}, "no sequence has EVERY=64")]
)
def test_a_workload_without_checkpoints_is_refused(sizes, reason):
    with pytest.raises(ShapeError, match=reason):
        workload(**sizes)


def test_each_checkpoint_is_written_once():
    few, many = (OP.workload(Shape(lengths=(8192, 1000), EVERY=every)) for every in (1024, 512))
    assert OP.traffic_bytes(many) - OP.traffic_bytes(few) == (16 + 1 - 8) * 4 * 8 * 128 * 128


CASES = {
    "checkpoints at every chunk, and at a sequence's end": ((65, 0, 64), 64, (1, 1), "typical"),
    "heads that never forget, whose states are composed": ((330,), 64, (1, 1), "never"),
    "heads that share a key head, and segments of several chunks": ((5, 400, 130), 128, (1, 2), "mixed-heads"),
    "nothing is written or forgotten": ((256,), 64, (1, 1), "closed-gates"),
}


@pytest.mark.parametrize(("lengths", "every", "heads", "scenario"), CASES.values(), ids=CASES)
def test_v1_is_right_in_the_interpreter(lengths, every, heads, scenario):
    entry = CATALOG.entries["prefill-checkpoints-v1"]
    shape = OP.workload(Shape(lengths=lengths, EVERY=every, HQ=heads[0], HV=heads[1]))
    workspace = Workspace.make(OP, NUMERICS, shape, seed=3, device="cpu", scenario=scenario)
    watched = InterpretedCuda(entry, entry.default, shape, "sm_90").run(workspace)
    assert watched.findings == ()
    gates = check_all(workspace, tuple(workspace.outputs.values()), consult_oracle(workspace, NUMERICS), scenario)
    assert [gate.reason for gate in gates if not gate.passed] == []


def test_the_reference_is_right_on_a_cpu():
    shapes = ("EVERY=64", "lengths=65+0+200", "heads=qk1_v2", "K=64", "V=32")
    assert verify_together(("prefill-checkpoints-reference",), *shapes) == {"prefill-checkpoints-reference": {"ok"}}


def test_v1_says_what_it_cannot_do():
    check = CATALOG.entries["prefill-checkpoints-v1"].kernel.check
    assert not check(OP.default)
    assert "128 elements" in check(workload())
    assert "1025 checkpoints" in check(OP.workload(Shape(lengths=(1025 * 64,), EVERY=64)))


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_flashinfer_is_called_so_that_it_computes_the_op(monkeypatch, scenario):
    def stand_in(*tensors, state_checkpoints, checkpoint_cu_starts, checkpoint_every_n_tokens, **others):
        """As its documentation has it: seq_len // every of each sequence, from `checkpoint_cu_starts` on."""
        ends = others["cu_seqlens"]
        spans = list(pairwise(ends.tolist()))
        for n, (begin, end) in enumerate(spans):
            for j in range((end - begin) // checkpoint_every_n_tokens):
                part = slice(begin, begin + (j + 1) * checkpoint_every_n_tokens)
                own = {name: others[name][part] for name in ("g", "beta")}
                own |= {"cu_seqlens": torch.tensor([0, part.stop - begin]), "max_seqlen": part.stop - begin}
                state = others["initial_state"][n : n + 1]
                place = state_checkpoints[checkpoint_cu_starts[n] + j][None]
                output = torch.empty_like(tensors[2][part])
                more = {"initial_state": state, "output_state": place, "output": output}
                flashinfer(*(each[part] for each in tensors), **{**others, **own, **more})
        return flashinfer(*tensors, **others)

    entry = CATALOG.entries["prefill-checkpoints-flashinfer"]
    library = {"flashinfer.gdn_prefill": {"chunk_gated_delta_rule": stand_in}}
    module = load_with(monkeypatch, entry.source, library)
    monkeypatch.setattr(module.gates, "bind_gates", gates_in_torch)
    shape = workload((65, 3, 128))
    workspace = Workspace.make(OP, NUMERICS, shape, seed=2, device="cpu", scenario=scenario)
    run = module.bind(workspace.namespace, shape, None)
    assert failures(run, workspace, consult_oracle(workspace, NUMERICS), scenario, {}) == []
    empty = Workspace.make(OP, NUMERICS, workload(), seed=2, device="cpu", scenario=scenario)
    with pytest.raises(ValueError, match="empty sequence"):
        module.bind(empty.namespace, workload(), None)
