"""A usual mistake is named where its output is what a kernel wrote, and nothing is where errors are of another kind."""

import json

import pytest
import torch
from bundled import CATALOG
from faults import Gdnbench
from write_kernels import write_changed

from gdnbench.verify.mistakes import FEWEST, LaunchFacts, likely_mistake

AXES = ("B", "HV", "V", "K")
SIZES = {"B": 2, "HV": 4, "V": 16, "K": 32}
RANDOM = torch.Generator().manual_seed(1)
RIGHT = torch.randn(*SIZES.values(), generator=RANDOM, dtype=torch.float64)
STATE = torch.randn(*SIZES.values(), generator=RANDOM)
FACTS = LaunchFacts({"q": RIGHT[0].float(), "state": STATE}, {"scale": 0.25, "eps": 0.0}, SIZES)


def mistake(actual, expected=RIGHT, dtype=torch.float32, facts=FACTS):
    actual = actual.to(dtype)
    failing = ~((actual.double() - expected).abs() <= 2.0**-8 * expected.abs() + 1e-9)
    if dtype is torch.float32:
        failing = actual != expected.float()
    return likely_mistake(failing, actual, expected, AXES, facts)


def in_one_head(wrong):
    return torch.cat([RIGHT[:, :1], wrong[:, 1:2], RIGHT[:, 2:]], dim=1)


MISTAKES = {
    "4 times the right ones: is `scale` (0.25) missing?": 4 * RIGHT,
    "0.25 times the right ones: is `scale` applied twice?": RIGHT / 4,
    "16 times the right ones: is a division by V missing?": 16 * RIGHT,
    "0.1768 times the right ones: is a factor of the root of K missing?": RIGHT / 32**0.5,
    "2 times the right ones: is a factor missing, or applied twice?": 2 * RIGHT,
    "the right ones with the other sign": -RIGHT,
    "the right ones with V and K exchanged: is it transposed?": RIGHT.transpose(2, 3).reshape(RIGHT.shape),
    "the right ones of the previous HV: is an index one off?": RIGHT.roll(1, 1),
    "the right ones of the next K: is an index one off?": RIGHT.roll(-1, 3),
    "those of the input `state`: are they never updated?": STATE.double(),
    "the wrong ones are 0, or nearly": 1e-9 * RIGHT,
    "the wrong ones are NaN": torch.nan * RIGHT,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("where", [lambda wrong: wrong, in_one_head], ids=["everywhere", "in one head"])
@pytest.mark.parametrize("told", MISTAKES)
def test_a_usual_mistake_is_named(told, where, dtype):
    found = mistake(where(MISTAKES[told]), dtype=dtype)
    assert found.startswith("the wrong ones are ")
    assert told in found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrower_type_is_named(dtype):
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    assert f"rounded to {name}: are they kept in {name}" in mistake(RIGHT.to(dtype))


def test_a_few_elements_may_differ():
    spoilt = 4 * RIGHT
    spoilt.view(-1)[::40] = 7.0
    assert "is `scale`" in mistake(spoilt)
    spoilt.view(-1)[::20] = 7.0
    assert mistake(spoilt) == ""


FIRST = torch.arange(RIGHT.numel()).reshape(RIGHT.shape)
ONES, RAMP = torch.ones_like(RIGHT), 1.0 + 1e-9 * FIRST.double()
RANDOM_ERRORS = {
    "others": lambda noise: noise,
    "a little": lambda noise: RIGHT + 0.02 * noise,
    "fp32's own size": lambda noise: RIGHT * (1 + 1e-6 * noise),
    "all too large, by chance": lambda noise: RIGHT * (1 + 0.3 * noise.abs()),
    "in one head": in_one_head,
    "shuffled": lambda noise: RIGHT.reshape(-1)[noise.reshape(-1).argsort()].reshape(RIGHT.shape),
    "heads reversed": lambda noise: RIGHT.flip(1),
    "some left 0": lambda noise: torch.where(noise > 0, noise, 0.0),
    "in fewer than enough": lambda noise: RIGHT * torch.where(FIRST < FEWEST - 1, 4.0, 1.0),
    "truncated": lambda noise: (RIGHT.float().view(torch.int32) & -(1 << 16)).view(torch.float32),
}


@pytest.mark.parametrize("kind", RANDOM_ERRORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_errors_are_not_explained(kind, dtype):
    for seed in range(2, 10):
        noise = torch.randn(RIGHT.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert mistake(RANDOM_ERRORS[kind](noise), dtype=dtype) == ""


@pytest.mark.parametrize(("expected", "actual"), [(ONES, 3 * ONES), (ONES, 1 + 1e-4 * RIGHT), (RAMP, RAMP + 1e-6)])
def test_nothing_is_told_of_outputs_that_are_nearly_one_number(expected, actual):
    """Of a constant, any number is a multiple, and a neighbour's is as good as one's own."""
    assert mistake(actual, expected) == ""


@pytest.mark.parametrize(("dtype", "told"), [(torch.int64, "of the previous V"), (torch.bool, "")])
def test_integers_have_no_factor_for_chance(dtype, told):
    right = torch.arange(RIGHT.numel()).reshape(RIGHT.shape) if dtype is torch.int64 else RIGHT > 0
    wrong = right.roll(1, 2) if dtype is torch.int64 else torch.where(RIGHT.roll(1) > 1, ~right, right)
    assert told in (found := likely_mistake(wrong != right, wrong, right, AXES, FACTS))
    assert bool(found) is bool(told)


PLANTED = {
    "scale": (("output = scale *", "output = scale * scale *"), "is `scale` applied twice?"),
    "sign": (("delta = beta[:, :, None] * (", "delta = -beta[:, :, None] * ("), ""),
    "stale": (
        ("output[:, None].to(v.dtype), new_state", "output[:, None].to(v.dtype), state.clone()"),
        "input `state`",
    ),
    "turned": (("(v.dtype), new_state", "(v.dtype), new_state.transpose(2, 3).contiguous()"), "V and K exchanged"),
    "heads": (("(v.dtype), new_state", "(v.dtype), new_state.roll(1, 1)"), "of the previous HV"),
    "narrow": (("(v.dtype), new_state", "(v.dtype), new_state.bfloat16().float()"), "kept in bf16"),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root, reference = tmp_path_factory.mktemp("planted"), CATALOG.entries["decode-reference"]
    for name, (change, _) in PLANTED.items():
        write_changed(reference, f"decode-{name}", root, change)
    return Gdnbench(tmp_path_factory.mktemp("home"), (root,), in_process=True)


def test_verify_names_what_was_planted_in_a_kernel(bench):
    names = ",".join(f"decode-{name}" for name in PLANTED)
    done = bench("verify", names, "--gpu", "cpu", "--shape", "B=1 heads=qk2_v4", "--json")
    assert done.code == 3
    reasons = {gate["kernel"]: gate["reason"] for gate in json.loads(done.out)["gates"]}
    for name, (_, told) in PLANTED.items():
        assert told in reasons[f"decode-{name}"]
        assert ("the wrong ones are" in reasons[f"decode-{name}"]) is bool(told)


def test_score_names_it_too(bench):
    done = bench("score", "decode-scale", "--gpu", "cpu", "--shape", "B=1 heads=qk2_v4", "--json")
    assert done.code == 3
    assert "is `scale` applied twice?" in json.loads(done.out)["failure"]
