"""The numerics that the delta rule's family shares: one decay a head gives today's numbers, one a channel the rule."""

from itertools import product

import pytest
import torch
from test_decays import CATALOG

from gdnbench import delta_rule
from gdnbench.decays import CHANNEL_PROFILES, channel_gate_of_profile
from gdnbench.launch.numerics import load_numerics

N, TOKENS, HEADS, V, K = 3, 12, 2, 16, 32
ALLOWED = 8  # of a RoundoffGate
FORMS = {"softplus": 0.0, "bounded": -5.0}
PROFILES = [each.name for each in CHANNEL_PROFILES]
OPS = {"decode": ("output", "new_state"), "decode-pool": ("output", "new_pool"), "verify": ("output", "states")}


def of_op(op, scenario):
    """Tokens, states and scalars of an op of Gated Delta Net in float64, and what its own numerics make of them."""
    declared, numerics = CATALOG.ops[op], load_numerics(CATALOG.ops[op], CATALOG.op_folders[op])
    shape = declared.workload({"B": 3, "HQ": 2, "HV": 4} | ({"T": 4} if op == "verify" else {}))
    t, scalars = numerics.make_inputs(shape, 4, "cpu", scenario)
    told = (shape,) if op == "verify" else ()
    own = [function(t, scalars, *told) for function in (numerics.oracle, numerics.roundoff)]
    wide = {name: tensor.double() for name, tensor in t.items()}
    if op == "decode":
        q, k = (wide[name].repeat_interleave(2, dim=2) for name in ("q", "k"))
        a, b, v, state, live = wide["a"], wide["b"], wide["v"], wide["state"], torch.ones(3, dtype=torch.bool)
        scalars = scalars | {"beta_limit": 1.0}
    else:
        live = t["slot"] > 0
        state = wide["pool"][t["slot"][live].long()]
        mixed, a, b = (wide[name][live] for name in ("mixed_qkv", "a", "b"))
        mixed, a, b = (each if op == "verify" else each[:, None] for each in (mixed, a, b))
        q, k, v = delta_rule.unpacked(mixed, (2, 4, 128, 128))
    tokens = delta_rule.Tokens(q, k, v, (a + wide["dt_bias"])[..., None], wide["A_log"], b)
    return tokens, state, scalars, own, live, t


def of_sequences(op, own, live, t):
    """An op's output and states as the family has them: of the sequences alone, with a token axis."""
    output, states = (own[name] for name in OPS[op])
    if op == "decode":
        return output, states[:, None]
    if op == "verify":
        return output[live], states[live]
    return output[live, None], states[t["slot"][live].long(), None]


@pytest.mark.parametrize("scenario", ["typical", "saturated-gates", "large-state", "mixed-heads", "slow", "never"])
@pytest.mark.parametrize("op", OPS)
def test_one_decay_a_head_gives_todays_numbers_to_the_bit(op, scenario):
    tokens, state, scalars, (expected, _), live, t = of_op(op, scenario)
    found = delta_rule.recurrence(tokens, state, **scalars)
    assert all(map(torch.equal, found, of_sequences(op, expected, live, t)))


@pytest.mark.parametrize(
    ("op", "scenario"),
    [("decode", "typical"), ("decode", "slow"), *product(("decode-pool", "verify"), ("padded", "small-keys", "slow"))],
)
def test_one_decay_a_head_has_todays_roundoff(op, scenario):
    """To the bit where the op has the same tensors, and but for the order of products in the others."""
    tokens, state, scalars, (_, expected), live, t = of_op(op, scenario)
    single = tokens._replace(**{name: getattr(tokens, name).float() for name in tokens._fields})
    if op != "decode":  # normalised in fp32, as the op does
        q, k, _ = delta_rule.unpacked(t["mixed_qkv"][live].float().reshape(*tokens.b.shape[:2], -1), (2, 4, 128, 128))
        single = single._replace(q=q, k=k, x=(t["a"][live].float() + t["dt_bias"]).reshape(tokens.x.shape))
    found = delta_rule.roundoff(single, state.float(), **scalars, norms=op != "decode")
    for off, right in zip(found, of_sequences(op, expected, live, t), strict=True):
        torch.testing.assert_close(off, right, rtol=0 if op == "decode-pool" else 2e-6, atol=0)


def drawn(profile, bound, seed=1, alike=False):
    """Tokens [N, TOKENS, ...] of a profile's decays by channel in float64, inputs bf16's, and the first state."""
    random = torch.Generator().manual_seed(seed)
    A_log = torch.empty(HEADS).uniform_(0.5, 1.5, generator=random).log()
    dt_bias = torch.randn(HEADS, K, generator=random)
    n = torch.randn(N, TOKENS, HEADS, K, generator=random).bfloat16()
    g = channel_gate_of_profile(profile, n, A_log, dt_bias, bound < 0, random)
    keys = torch.randn(N, TOKENS, HEADS, 2 * K + V, generator=random)
    if alike:
        keys = keys + 3 * torch.randn(N, 1, HEADS, 2 * K + V, generator=random)
    q, k, v = keys.bfloat16().double().split((K, K, V), dim=-1)
    q, k = delta_rule.normalised(q), delta_rule.normalised(k)
    b = torch.randn(N, TOKENS, HEADS, generator=random).bfloat16().double()
    state = delta_rule.written_states((N, HEADS, V, K), random, "cpu").double()
    return delta_rule.Tokens(q, k, v, g.double() + dt_bias.double(), A_log.double(), b), state


def step_by_step(t, state, bound, decay=lambda g: g, beta=lambda each: each):
    """The rule as it is written, a head and a token after the other, in the state's dtype; q is scaled by K^-0.5."""
    states, outputs = torch.empty(N, TOKENS, HEADS, V, K, dtype=state.dtype), torch.empty_like(t.v)
    for n, h in ((n, h) for n in range(N) for h in range(HEADS)):
        S, rate = state[n, h], t.A_log[h].exp()
        for i in range(TOKENS):
            x, k = t.x[n, i, h], t.k[n, i, h]
            log = bound * torch.sigmoid(rate * x) if bound else -rate * torch.nn.functional.softplus(x)
            S = S * decay(log.exp())
            S = S + beta(torch.sigmoid(t.b[n, i, h])) * torch.outer(t.v[n, i, h] - S @ k, k)
            states[n, i, h], outputs[n, i, h] = S, K**-0.5 * (S @ t.q[n, i, h])
    return outputs, states


def in_fp32(t, state, bound, **more):
    return step_by_step(delta_rule.Tokens(*(each.float() for each in t)), state.float(), bound, **more)


def worst(found, t, state, bound):
    """The largest error of outputs and states, as a share of what the gates allow."""
    single = delta_rule.Tokens(*(each.float() for each in t))
    right = delta_rule.recurrence(t, state, K**-0.5, 1.0, bound)
    off = delta_rule.roundoff(single, state.float(), K**-0.5, 1.0, bound)
    ratios = [(a - b).abs() / (ALLOWED * 2.0**-24 * c) for a, b, c in zip(found, right, off, strict=True)]
    return max(float(each.max()) for each in ratios)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("form", FORMS)
def test_a_decay_a_channel_is_the_rule_and_fp32_stays_within_its_roundoff(form, profile):
    bound = FORMS[form]
    for alike in (False, True):
        t, state = drawn(profile, bound, alike=alike)
        for found, right in zip(
            delta_rule.recurrence(t, state, K**-0.5, 1.0, bound), step_by_step(t, state, bound), strict=True
        ):
            torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-12)
        assert worst(in_fp32(t, state, bound), t, state, bound) < 0.3


@pytest.mark.parametrize("narrow", ["decay", "beta"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_narrowed_to_bf16_leaves_the_roundoff(form, narrow):
    t, state = drawn("spread", FORMS[form])
    found = in_fp32(t, state, FORMS[form], **{narrow: lambda each: each.bfloat16().float()})
    assert worst(found, t, state, FORMS[form]) > 1


@pytest.mark.parametrize("form", FORMS)
def test_channels_that_decay_alike_are_one_decay_a_head(form):
    t, state = drawn("production", FORMS[form])
    one = t._replace(x=t.x[..., :1])
    spread = t._replace(x=t.x[..., :1].expand_as(t.x))
    for of_heads, of_channels in zip(
        *(delta_rule.recurrence(each, state, 1.0, 2.0, FORMS[form]) for each in (one, spread)), strict=True
    ):
        torch.testing.assert_close(of_heads, of_channels, rtol=1e-12, atol=1e-14)
