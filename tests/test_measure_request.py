from dataclasses import fields

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.catalog.request import parse_workloads
from gdnbench.errors import ShapeError, UnknownNameError, UsageError
from gdnbench.store.settings import GPU_SAMPLES, QUICK, Settings, choose_settings

DECODE = CATALOG.ops["decode"]


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ("", [decode_at()]),
        ("B=8", [decode_at(B=8)]),
        ("B=1,8,64", [decode_at(B=1), decode_at(B=8), decode_at(B=64)]),
        ("B=8,1,8", [decode_at(B=8), decode_at(B=1)]),
        (" B = 1 , 8", [decode_at(B=1), decode_at(B=8)]),
        ("B=1 B=8", [decode_at(B=1), decode_at(B=8)]),
        ("heads=qk16_v32", [decode_at(HQ=16, HV=32)]),
        ("heads=qk3_v9", [decode_at(HQ=3, HV=9)]),
        ("HQ=3 HV=9", [decode_at(HQ=3, HV=9)]),
        ("K=64", [decode_at(K=64)]),
        (
            "B=1,2 heads=qk4_v8, qk2_v4",
            [decode_at(B=1), decode_at(B=2), decode_at(HQ=2, HV=4), decode_at(B=2, HQ=2, HV=4)],
        ),
    ],
)
def test_every_size_at_every_value_of_an_alias(axes, wanted):
    assert list(parse_workloads(DECODE, axes)) == wanted


def test_sizes_that_are_set_take_the_place_of_a_suites_own():
    assert [each.B for each in parse_workloads(DECODE, "", "verify")] == [1, 3, 7, 13, 64]
    found = parse_workloads(DECODE, "heads=qk16_v32", "verify")
    assert [(each.B, each.series) for each in found] == [(batch, "qk16_v32") for batch in (1, 3, 7, 13, 64)]
    assert parse_workloads(DECODE, "B=2", "verify") == (decode_at(B=2),)


@pytest.mark.parametrize(
    "axes",
    [*("8", "B", "B=", "B=x", "B=1.5", "B=1;8", "B=1,,8", "B=8,", "M=64", "b=8", "B=1,HV=8", "=8", "B==8", "B=0x10")],
)
def test_a_workload_that_cannot_be_read_is_a_usage_error_with_an_example(axes):
    with pytest.raises(UsageError, match="--shape") as caught:
        parse_workloads(DECODE, axes)
    assert "B=1,8,64" in caught.value.message + caught.value.hint


@pytest.mark.parametrize("axes", ["B=0", "B=-1", "heads=qk3_v4", "heads=qk0_v8", "heads=qk4_v0"])
def test_a_workload_that_the_op_does_not_define_is_refused(axes):
    with pytest.raises(ShapeError):
        parse_workloads(DECODE, axes)


@pytest.mark.parametrize("value", ["v8", "qk4", "qk4_8", "4_8", "qkx_v8", "qk-4_v8", "qk²_v4", "QK4_V8"])
def test_an_unknown_value_of_an_alias_is_answered_with_the_known_ones(value):
    with pytest.raises(UnknownNameError, match="no heads") as caught:
        parse_workloads(DECODE, f"heads={value}")
    assert "qk4_v8" in caught.value.hint


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "values"),
    [("rounds", (1, -3)), ("samples", (0,)), ("margin", (-0.1, 1.0, NAN)), ("step_limit_s", (0.0, -1.0, NAN))],
)
def test_settings_that_cannot_be_measured_with_are_usage_errors(name, values):
    for value in values:
        with pytest.raises(UsageError, match="--"):
            Settings(**{name: value})


def chosen(**more):
    # Fixed, or set by another verb.
    elsewhere = ("confidence", "budget_s", "looks", "clocks", "trim", "cold_tlb", "until_clear")
    defaults = {field.name: field.default for field in fields(Settings) if field.name not in elsewhere}
    values = {**defaults, "quick": False, "rounds": None, "samples": None, "processes": None, "seed": None}
    return choose_settings(more.pop("device", "cuda"), **{**values, **more})


def test_what_the_user_sets_beats_the_quick_defaults_and_those_beat_the_others():
    assert (chosen().rounds, chosen().samples) == (Settings().rounds, GPU_SAMPLES)
    assert (chosen(quick=True).rounds, chosen(quick=True).samples) == (QUICK.rounds, QUICK.samples)
    assert (chosen(quick=True, rounds=9).rounds, chosen(quick=True, rounds=9).samples) == (9, QUICK.samples)


def test_the_defaults_are_those_that_the_documentation_names():
    assert (chosen().rounds, chosen().samples, chosen().processes, chosen().plain) == (42, 32, 3, False)
    assert chosen().clocks == ("cupti",)
    assert chosen().until_clear
    assert not chosen(rounds=42).until_clear  # who says how much is measured gets so much of every case
    assert not chosen(processes=3).until_clear
    quick = chosen(quick=True)
    assert (quick.rounds, quick.samples, quick.processes, quick.clocks) == (7, 32, 1, ())
    on_cpu = chosen(device="cpu")
    assert (on_cpu.rounds, on_cpu.samples, on_cpu.processes, on_cpu.clocks) == (42, 64, 1, ())
    assert (chosen().trim, on_cpu.trim) == (0.05, 0.25)


def test_timers_that_are_named_are_read_and_no_others():
    assert chosen(timers="nvbench").clocks == ()
    assert chosen(timers="graph,nvbench").clocks == ("graph",)
    assert chosen(quick=True, timers="nvbench,cupti").clocks == ("cupti",)


def test_a_further_clock_takes_half_of_the_rounds_and_one_in_each_process_at_least():
    assert chosen().clock_rounds == 21
    assert chosen(rounds=4, processes=4).clock_rounds == 4


def test_a_seed_is_fresh_unless_it_is_given():
    assert len({chosen().seed for _ in range(20)}) > 15
    assert {chosen(seed=0).seed for _ in range(5)} == {0}
