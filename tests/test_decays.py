"""What is drawn for each profile, as the op's own formulas read it back."""

import math

import pytest
import torch
from bundled import CATALOG
from torch.nn.functional import softplus

from gdnbench.decays import DECODE_PROFILES, PROFILES
from gdnbench.delta_rule import decay
from gdnbench.launch.numerics import load_numerics

SHAPES = {
    "decode": {"B": 64},
    "decode-pool": {"B": 16},
    "verify": {"B": 8, "T": 4},
    "verify-rollback": {"B": 8, "T": 4},
    "decode-split": {"B": 16},
    "verify-tree": {"B": 8, "T": 4},
    "decode-ucache": {"B": 16},
    "layer": {"B": 8},
    "prologue": {"B": 8},
    "prefill": {"lengths": (4096,)},
    "prefill-checkpoints": {"lengths": (1024,)},
}


def inputs_of(op, kind, seed=1, **sizes):
    declared = CATALOG.ops[op]
    numerics = load_numerics(declared, CATALOG.op_folders[op])
    return numerics.make_inputs(declared.workload({**SHAPES.get(op, {}), **sizes}), seed, "cpu", kind)[0]


def lost(op, kind, seed=1, **sizes):
    """Nats that each head loses at each token, [tokens, heads]."""
    found = inputs_of(op, kind, seed, **sizes)
    rate = found["A_log"].double().exp() * softplus(found["a"].double() + found["dt_bias"].double())
    return rate.reshape(-1, rate.shape[-1])


@pytest.mark.parametrize("op", SHAPES)
def test_every_op_draws_each_of_its_profiles_and_changes_nothing_but_the_gate(op):
    usual = inputs_of(op, "typical")
    for profile in CATALOG.ops[op].profiles:
        drawn = inputs_of(op, profile.name)
        same = {name for name, tensor in drawn.items() if torch.equal(tensor, usual[name])}
        places = {"slot", "slots", "accepted", "read_slot", "write_slot", "pool", "state"}
        assert same >= {name for name in drawn if "cache" not in name} - {"a", "hist_len", *places}
        assert torch.isfinite(drawn["a"].float()).all()
        assert ("a" in same) == (profile.name == "forgetful")


@pytest.mark.parametrize(("profile", "slower"), [("fla", 1), ("mixed-heads", 16), ("one-never", 16), ("slow", 1024)])
def test_heads_that_forget_lose_a_softplus_of_normal_numbers(profile, slower):
    means = lost("prefill", profile).mean(0)
    forgetting = means[means > 1e-9] * slower
    assert forgetting == pytest.approx([0.806] * len(forgetting), rel=0.06)  # the mean of softplus(n)


@pytest.mark.parametrize(("heads", "never"), [(1, 1), (2, 1), (3, 1), (8, 2), (32, 8)])
def test_a_quarter_of_the_heads_never_forgets_and_the_seed_says_which(heads, never):
    def remembering(seed):
        means = lost("prefill", "mixed-heads", seed, HQ=1, HV=heads, lengths=(64,)).amax(0)
        return tuple(torch.nonzero(means < 1e-12).flatten().tolist())

    found = {seed: remembering(seed) for seed in range(6)}
    assert all(len(each) == never for each in found.values())
    assert found[3] == remembering(3)
    assert len(set(found.values())) > 1 or never == heads


def test_nothing_is_forgotten_where_nothing_is_to_be():
    assert lost("prefill", "never").max() < 1e-12
    assert (lost("prefill", "one-never").amax(0) < 1e-12).sum() == 1


def test_bursts_come_once_in_512_tokens_and_between_them_nothing_is_lost():
    rates = lost("prefill", "bursty", lengths=(1 << 15,))
    assert set(rates.round(decimals=0).unique().tolist()) == {0.0, 8.0}
    assert ((rates > 1).double().mean(0) * 512 - 1).abs().max() < 0.5
    assert rates[rates < 1].max() < 1e-12


def test_edges_are_a_percent_above_or_below_a_threshold_over_a_window():
    thresholds = [10.0, 23.5 * math.log(2), 24 * math.log(2)]
    for seed in range(4):
        for rate in lost("prefill", "edge", seed).mean(0).tolist():
            nearest = min(
                abs(rate * window / threshold - side)
                for window in (64, 128, 256, 512)
                for threshold in thresholds
                for side in (0.99, 1.01)
            )
            assert nearest < 0.004


def test_the_decode_ops_have_no_profile_that_differs_along_a_sequence():
    assert {each.name for each in PROFILES} - {each.name for each in DECODE_PROFILES} == {"bursty", "edge"}
    assert all(CATALOG.ops[op].profiles == DECODE_PROFILES for op in SHAPES.keys() - {"prefill", "prefill-checkpoints"})


def lost_by_channel(kind, gate, seed=1, **sizes):
    """Nats that each channel loses in a step of Kimi Delta Attention, [B, H, K]."""
    t = {name: each.double() for name, each in inputs_of("kda-decode", kind, seed, GATE=gate, H=4, **sizes).items()}
    return -decay(t["g"] + t["dt_bias"], t["A_log"], (0.0, -5.0)[gate]).log()


@pytest.mark.parametrize("gate", [0, 1])
def test_profiles_by_channel_have_the_decays_that_they_name(gate):
    spread = lost_by_channel("spread", gate, B=64).median(0).values.mean(0)
    ramp = 5 * torch.sigmoid(torch.linspace(-9, 0, 128, dtype=torch.float64))
    torch.testing.assert_close(spread, ramp, rtol=0.3, atol=0)
    assert lost_by_channel("production", gate, B=64).mean() == pytest.approx(2.5, rel=0.03)
    assert lost_by_channel("slow", gate, B=64).mean() * 1024 == pytest.approx(0.806, rel=0.03)
    assert lost_by_channel("never", gate).max() < 1e-12
    saturated = lost_by_channel("saturated", gate, B=8)
    for of_a_third in (saturated > 4.9, saturated < 1e-12):
        assert (of_a_third.all(0).sum(-1) == 128 // 3).all()
    assert not torch.equal(saturated[0] > 4.9, lost_by_channel("saturated", gate, seed=2)[0] > 4.9)
