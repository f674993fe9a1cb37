"""Prompts of Kimi Delta Attention that are cut, in the interpreter of PTX: heads that forget beside others."""

import math

import pytest
from test_kda_prefill import NUMERICS, interpret

pytestmark = pytest.mark.slow

STEP = 32  # tokens
CUT = "kda-prefill-v8:BLOCKS=16:FEWEST=1:BEHIND=1"  # into steps


def lose(t, head, nats, tokens=slice(None)):
    """Every channel of a head loses so much a token."""
    t["g"][tokens, head] = math.log(nats / (5 - nats)) / t["A_log"][head].exp() - t["dt_bias"][head]


def keep(t):
    t["g"][:] = NUMERICS.CLOSED


@pytest.mark.parametrize("scenario", ["large-state", "alike-keys"])
def test_states_come_through_many_segments(scenario):
    """Without decay all of what was before a segment counts, be it erased or not."""
    interpret((9 * STEP + 5,), scenario, keep, CUT, 2)


@pytest.mark.parametrize("first", [16, 24])
def test_heads_that_forget_and_heads_that_remember_are_cut_side_by_side(first):
    def change(t):
        keep(t)
        lose(t, 0, 0.6)

    interpret((2 * STEP + 1, 0, 6 * STEP, 3), "large-state", change, f"{CUT}:FIRST_PARTS={first}", 2)


@pytest.mark.parametrize("nats", [0.135, 0.25, 0.27])
def test_segments_begin_as_early_as_the_slowest_channel_asks_for(nats):
    """Four steps before a segment may be gone through for it; 2^-24 are 16.6 nats."""

    def change(t):
        lose(t, 0, nats)
        slowest = t["g"][:, 0, 77].clone()
        lose(t, 0, 4.5)
        t["g"][:, 0, 77] = slowest

    interpret((7 * STEP + 1,), "large-state", change, CUT)


@pytest.mark.parametrize("forgotten", [slice(3 * STEP, 4 * STEP), slice(0, 3 * STEP)])
def test_a_head_that_is_taken_for_another_kind_is_right(forgotten):
    """Its middle, where four steps are, tells for all of it."""

    def change(t):
        keep(t)
        lose(t, 0, 4.9, forgotten)

    interpret((8 * STEP,), "large-state", change, CUT)
