"""Errors against length: honest kernels in every type of state pass, and each planted fault is found."""

import csv
import io
import json
import math
from dataclasses import replace
from itertools import count, product

import pytest
import torch
from bundled import CATALOG
from faults import Gdnbench
from torch.nn.functional import softplus
from write_kernels import write_changed

from gdnbench.errors import UsageError
from gdnbench.launch.bind import load
from gdnbench.launch.numerics import load_sequence_numerics
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace
from gdnbench.model.case import Variant
from gdnbench.model.status import LengthMark
from gdnbench.verify.follow import FollowedBatch, kinds_of
from gdnbench.verify.length import fault_of, parse_marks
from gdnbench.workers.device import CpuDevice

SIZE = 32  # of a key and a value: an error is then remembered for some 45 tokens, so that 512 settle it
TOKENS = (512,)


def numerics_of(name):
    return load_sequence_numerics(CATALOG.ops[name], CATALOG.op_folders[name])


def decode_workspace(state, sequences, size):
    """The decode step's, with states of this type, all zero."""
    op, numerics = CATALOG.ops["decode"], numerics_of("decode")
    workload = op.workload({"B": sequences, "HQ": 1, "HV": 2, "K": size, "V": size})
    inputs, outputs = (
        tuple(replace(spec, dtype=state) if "state" in spec.name else spec for spec in specs)
        for specs in (op.inputs, op.outputs)
    )
    drawn, scalars = numerics.make_inputs(workload, 1, "cpu", "typical")
    drawn["state"] = torch.zeros_like(drawn["state"], dtype=TORCH_DTYPES[state])
    return Workspace.holding(replace(op, inputs=inputs, outputs=outputs), workload, drawn, scalars, device="cpu")


def nearest(exact, dtype, _number):
    return exact.to(dtype)


def truncated(exact, dtype, _number):
    """Cuts fp32 off to bf16, as a shift by 16 bits does."""
    return (exact.view(torch.int32) & -65536).view(torch.float32).to(dtype)


def in_bf16(values):
    return values.bfloat16().float()


def same(values):
    return values


def decode_kernel(workspace, *, store=nearest, beta_of=same, decay_of=same, softplus_of=softplus):
    """The decode step in fp32, which keeps states by `store(exact, dtype, number of the step)`."""
    t, numbers = workspace.inputs, count()

    def run():
        number, state = next(numbers), t["state"].float()
        q, k = (t[name][:, 0].float().repeat_interleave(2, dim=1) for name in ("q", "k"))
        g = decay_of((-t["A_log"].exp() * softplus_of(t["a"][:, 0].float() + t["dt_bias"])).exp())
        beta = beta_of(t["b"][:, 0].float().sigmoid())
        state = g[..., None, None] * state
        delta = beta[..., None] * (t["v"][:, 0].float() - (state * k[..., None, :]).sum(-1))
        state = state + delta[..., None] * k[..., None, :]
        output = workspace.scalars["scale"] * (state * q[..., None, :]).sum(-1)
        return output[:, None].bfloat16(), store(state, t["state"].dtype, number)

    return run


def followed(state, marks=TOKENS, profiles=("mixed-heads", "never"), size=SIZE, **faults):
    """The marks of a decode kernel, and what they say is wrong."""
    kinds = kinds_of(profiles)
    workspace = decode_workspace(state, len(kinds), size)
    run = decode_kernel(workspace, **faults)
    batch = FollowedBatch(run, workspace, numerics_of("decode"), {}, kinds, 1)
    found = [mark for tokens in marks for mark in batch.reach(tokens, CpuDevice())]
    return found, fault_of(found, "fp32")


@pytest.mark.parametrize(("state", "least", "most"), [("fp32", 1e-8, 1e-6), ("fp16", 1e-4, 3e-3), ("bf16", 1e-3, 3e-2)])
def test_an_honest_kernel_is_as_far_off_as_its_roundings_in_every_type_of_state(state, least, most):
    marks, fault = followed(state, (256, 512), ("forgetful", "mixed-heads", "never"))
    assert fault == ""
    assert [mark.tokens for mark in marks] == [256] * 6 + [512] * 6
    for mark in marks:
        assert least < mark.state_error < most
        if state != "fp32":  # whose own arithmetic is rounded as often as its state
            assert mark.state_error == pytest.approx(mark.emulated_state_error, rel=0.1)
            assert mark.output_error == pytest.approx(mark.emulated_output_error, rel=0.1)
        assert 0.1 < mark.largest_state < 10
        assert mark.gate_share < 0.5


def test_an_fp32_state_may_be_many_of_its_roundings_off_where_softplus_is_a_logarithm_of_1_and_more():
    # log(1 + exp(x)) is off by 2^-24 however small it is, and exp(A_log), up to 16, multiplies that: a decay is up to
    # 1e-6 off, at each of the 45 tokens that the state remembers.
    marks, fault = followed("fp32", profiles=("slow",), softplus_of=lambda x: torch.log(1 + torch.exp(x)))
    assert fault == ""
    assert min(mark.state_error / mark.emulated_state_error for mark in marks) > 10


def test_a_truncation_in_place_of_rounding_is_found():
    # It takes 2^-9 of an element a step on average, always towards zero. Over the 45 tokens that a state of 32 columns
    # remembers these add up to 45 / 512 = 9 %, where roundings to the nearest, of a third of that in square, add up to
    # sqrt(45 / 3) / 512 = 0.8 %.
    marks, fault = followed("bf16", store=truncated)
    never = next(mark for mark in marks if (mark.profile, mark.keys) == ("never", "isotropic"))
    assert never.state_error > 3 * never.emulated_state_error
    assert "mixed-heads, isotropic keys, at 512 tokens: error of the state" in fault


@pytest.mark.parametrize("narrowed", ["beta_of", "decay_of"])
def test_a_beta_or_a_decay_in_bf16_is_found_beside_an_fp32_state(narrowed):
    # A factor that is 2^-10 off or so, at each token, is thousands of times the 2e-7 of an fp32 state. The head that
    # never forgets has a decay of 1, exact in bf16, too: the three quarters of heads that do forget show it.
    marks, fault = followed("fp32", **{narrowed: in_bf16})
    assert max(mark.state_error for mark in marks) > 1e-4
    assert "error of the state" in fault


@pytest.mark.parametrize("narrowed", ["beta_of", "decay_of"])
def test_a_beta_or_a_decay_in_bf16_is_found_by_the_gate_where_the_state_is_bf16(narrowed):
    # Beside the roundings of the state, 2^-9 of every element, the error is no larger, but a call from the kernel's
    # own state is off by more than half an ulp and what fp32 may do.
    marks, fault = followed("bf16", **{narrowed: in_bf16})
    assert all(mark.state_error < 1.5 * mark.emulated_state_error for mark in marks)
    assert "as far off as its gate allows" in fault


def lost(every):
    """A store that leaves out each so-maniest step."""
    kept = []

    def store(exact, dtype, number):
        if number % every or not kept:
            kept[:] = [exact.to(dtype)]
        return kept[0].clone()

    return store


@pytest.mark.parametrize("state", ["fp32", "bf16"])
def test_a_step_whose_state_is_lost_is_found(state):
    # One in 50 of what the state remembers, 45 tokens: about one of its writes is missing at any time.
    marks, fault = followed(state, store=lost(50))
    assert all(mark.gate_share < 1 for mark in marks)  # every call that the gates see is right
    assert "error of the state" in fault


def test_a_slot_that_is_lost_behind_4k_tokens_grows():
    # The second sequence keeps the state that it had after 4,300 tokens: right at the first mark, and a stranger's at
    # the last. The smallest state, so that a token costs what torch's calls do.
    kept = []

    def store(exact, dtype, number):
        if number == 4300:
            kept.append(exact[1].to(dtype))
        states = exact.to(dtype)
        if kept:
            states[1] = kept[0]
        return states

    marks, fault = followed("bf16", (4096, 5120), ("never",), size=8, store=store)
    assert [mark.keys for mark in marks if mark.state_error > 0.1] == ["alike"]
    assert "never, alike keys, at 5,120 tokens: error of the state" in fault
    growth = fault_of([replace(mark, emulated_state_error=9.0, emulated_output_error=9.0) for mark in marks], "fp32")
    assert "never, alike keys, at 5,120 tokens: the error of the state grows: 0.0" in growth


def mark(tokens, error, emulated):
    return LengthMark("never", "alike", "bfloat16", tokens, error, emulated, error, emulated, 2.0, 0.1)


@pytest.mark.parametrize(("errors", "is_wrong"), [
    ([(1024, 0.01, 0.01), (4096, 0.02, 0.02), (65536, 0.029, 0.028)], False),
    ([(1024, 0.01, 0.01), (4096, 0.02, 0.03), (65536, 0.04, 0.03)], True),  # within the emulation's, but grows
    ([(1024, 0.01, 0.02), (2048, 0.02, 0.02)], False),  # it has not settled before 4k
    ([(4096, 0.02, 0.02), (65536, 0.04, 0.04)], False),  # as the emulation does
    ([(4096, 0.02, 0.02), (65536, math.nan, 0.02)], True),
    ([(4096, 0.032, 0.02)], True),
])  # fmt: skip
def test_marks_are_judged_against_the_emulation_and_against_the_first_from_4k_on(errors, is_wrong):
    fault = fault_of([mark(*each) for each in errors], "fp32")
    assert bool(fault) == is_wrong
    assert not is_wrong or fault.startswith("never, alike keys, at ")


@pytest.mark.parametrize(("op", "kernel", "sizes", "tokens"), [
    ("decode-pool", "decode-pool-reference", {"B": 2, "STATE": 16}, 128),
    ("verify", "verify-reference", {"B": 2, "T": 4, "KEEP": 0, "STATE": 16}, 128),
    ("prefill", "prefill-reference", {"lengths": (192, 192)}, 384),
])  # fmt: skip
def test_states_are_carried_through_every_op(op, kernel, sizes, tokens):
    entry, numerics = CATALOG.entries[kernel], numerics_of(op)
    workload = entry.op.workload({**sizes, "HQ": 1, "HV": 2, "K": SIZE, "V": SIZE})
    workspace = Workspace.make(entry.op, numerics, workload, seed=1, device="cpu", scenario="typical")
    workspace.pristine[entry.op.sequences.state[0]].zero_()
    workspace.restore()
    run = load(entry, Variant(kernel, kernel), workload)(workspace)
    batch = FollowedBatch(run, workspace, numerics, entry.kernel.in_place, kinds_of(("never",)), 1)
    for found in batch.reach(tokens, CpuDevice()):
        assert found.tokens == tokens
        assert found.output_error == pytest.approx(found.emulated_output_error, rel=0.1)
        assert found.state_error < 1.5 * found.emulated_state_error + 1e-6
        assert found.gate_share < 1


def test_tokens_do_not_depend_on_how_far_one_looks():
    """A sequence is the same up to its first mark, whatever marks follow."""
    (near,), (same_one, _) = (followed("bf16", marks, ("never",), size=8)[0][::2] for marks in ((128,), (128, 256)))
    assert near == same_one


@pytest.mark.parametrize(
    ("text", "marks"), [("1k,4k", (1024, 4096)), ("64, 1M", (64, 1 << 20)), ("16K", (16384,)), ("192", (192,))]
)
def test_marks_are_numbers_of_tokens(text, marks):
    assert parse_marks(text) == marks


@pytest.mark.parametrize("text", ["", "4k,1k", "1k,1k", "100", "0", "-64", "1.5k", "1g", "32M", "k", "64,", "1k 4k"])
def test_other_texts_are_no_marks(text):
    with pytest.raises(UsageError, match="--length"):
        parse_marks(text)


SMALL = ("--shape", "K=16 V=16", "--gpu", "cpu", "-q")


@pytest.fixture(scope="module")
def bench(tmp_path_factory, same_root):
    """With a kernel that keeps a thousandth less than it should."""
    kept = "v.dtype), new_state"
    write_changed(CATALOG.entries["decode-reference"], "test-forgets", same_root, (kept, f"{kept} * 0.999"))
    return Gdnbench(tmp_path_factory.mktemp("length"), (same_root,), in_process=True)


@pytest.mark.slow
def test_errors_at_marks_are_printed_and_drawn_in_every_form(bench):
    picture = bench.home / "lengths.svg"
    usual = ("verify", "decode-reference", "test-forgets", "--length", "64,128", *SMALL)
    done = bench(*usual, "--chart", str(picture), "--seed", "3")
    assert done.code == 3
    assert "decode-reference at B=6 qk2_v4 K=16 V=16" in done.out
    assert "passes: its errors are those of its roundings" in done.out
    assert "wrong-numbers: forgetful, isotropic keys, at 64 tokens: error of the state" in done.out
    assert "test-forgets" in picture.read_text()
    found = json.loads(bench(*usual, "--json", "--seed", "3").out)
    assert {"device": "cpu", "seed": 3}.items() <= found.items()
    places = [(row["label"], row["profile"], row["keys"], row["tokens"]) for row in found["marks"]]
    profiles = ("forgetful", "mixed-heads", "never")
    assert places == list(product(("decode-reference", "test-forgets"), profiles, ("isotropic", "alike"), (64, 128)))
    assert all(row["state_type"] == "float32" and 0 < row["state_error"] < 1 for row in found["marks"])
    rows = list(csv.DictReader(io.StringIO(bench(*usual, "--csv", "--seed", "3").out)))
    assert [float(row["state_error"]) for row in rows] == pytest.approx(
        [row["state_error"] for row in found["marks"]], 1e-5
    )
    assert {row["status"] for row in rows if row["label"] == "test-forgets"} == {"wrong-numbers"}


@pytest.mark.slow
def test_every_type_of_state_is_followed_and_one_where_it_is_named(bench):
    both, one = (
        json.loads(bench("verify", "decode-pool-reference", "--length", "64", "--json", *SMALL, *more).out)["marks"]
        for more in ((), ("--shape", "state=bf16", "--profile", "slow"))
    )
    assert [*dict.fromkeys(row["state_type"] for row in both)] == ["float32", "bfloat16"]
    assert [(row["state_type"], row["profile"], row["B"]) for row in one] == [("bfloat16", "slow", 2)] * 2


@pytest.mark.slow
def test_calls_of_many_tokens_come_to_each_mark_with_their_last(bench):
    done = bench("verify", "prefill-reference", "--length", "128,384", "--profile", "never", *SMALL)
    assert done.code == 0
    assert "prefill-reference at qk2_v4 K=16 V=16 lengths=2x128\n" in done.out


@pytest.mark.slow
def test_a_cuda_kernel_is_followed_in_the_interpreter(bench):
    found = json.loads(bench("verify", "decode-v9", "--length", "64", "--gpu", "cpu", "-q", "--json").out)["marks"]
    assert [(row["status"], row["tokens"], row["HV"]) for row in found] == [("ok", 64, 1)] * 2


@pytest.mark.parametrize(("arguments", "said"), [
    (("decode-reference", "--length", "100"), "a multiple of 64 tokens"),
    (("decode-reference", "--length", "1k", "--shape", "B=3"), "profiles and keys decide the batch"),
    (("decode-reference", "--length", "1k", "--quick"), "does not go with"),
    (("decode-reference", "--chart", "a.png"), "is of --length"),
    (("decode-reference", "--length", "1k", "--chart", "a.pdf"), ".png or .svg"),
    (("--length", "1k"), "follows kernels by name"),
    (("decode-floor-copy", "--length", "1k"), "compute no state"),
    (("decode-split-reference", "--length", "1k"), "sequences of decode-split have several slots each"),
    (("layer-reference", "--length", "1k"), "give its `sequences` a `call` and `state`"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_with_what_to_do(bench, arguments, said):
    done = bench("verify", *arguments, "--gpu", "cpu", "-q")
    assert done.code == 2
    assert said in done.err
