"""The contest's tolerance, element by element, against its rule as its tool has it; and what a run keeps of it."""

import math

import pytest
import torch

from gdnbench.model.status import Status
from gdnbench.store.journal import Examined, decode, encode
from gdnbench.store.measurements import contest_errors
from gdnbench.verify.check import Oracle, contest_error

TOLERANCE = 1e-2


def error(got, expected, dtype=torch.float32):
    written = torch.tensor(got, dtype=dtype)
    return contest_error({"x": written}, Oracle({"x": torch.tensor(expected, dtype=torch.float64)}))


def fails_there(got, expected, dtype):
    """The rule as flashinfer-bench 0.1.2 has it: wrong is what is off by more than both tolerances, in fp32."""
    x, y = got.float(), expected.to(dtype).float()
    off = (x - y).abs()
    return not torch.isfinite(x).all() or bool(((off > TOLERANCE) & (off / (y.abs() + 1e-8) > TOLERANCE)).any())


@pytest.mark.parametrize(
    ("got", "expected", "units"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0], [0.0099], 0.99),  # nothing is right, and the contest lets it pass
        ([0.0], [0.0101], 1.01),
        ([100.9], [100.0], 0.9),  # 90 times the absolute tolerance, and within the relative one
        ([101.1], [100.0], 1.1),
        ([1.0, 1.0, 3.0], [1.0, 1.0, 1.0], 200.0),  # one element of three
        ([-1.0], [1.0], 200.0),
    ],
)
def test_an_error_is_the_smaller_of_the_absolute_and_the_relative(got, expected, units):
    assert error(got, expected) == pytest.approx(units, rel=1e-4)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_fails_whatever_was_expected(wrong):
    assert error([1.0, wrong], [1.0, 1.0]) == math.inf
    assert error([wrong], [wrong]) == math.inf


def test_what_is_expected_is_rounded_to_the_outputs_type_first():
    """The nearest bf16 to 1.0059 is 1.0078: a kernel that writes it is not off by 0.0019."""
    assert error([1.0059], [1.0059], torch.bfloat16) == 0.0
    assert error([1.0059], [1.0059], torch.float32) < 1e-4


def test_the_worst_of_several_outputs_counts_and_an_empty_one_does_not():
    outputs = {"a": torch.zeros(3), "none": torch.zeros(0), "whole": torch.tensor([7], dtype=torch.int32)}
    expected = {"whole": torch.tensor([7], dtype=torch.int32), "none": torch.zeros(0), "a": torch.full((3,), 0.05)}
    assert contest_error(outputs, Oracle(expected)) == pytest.approx(5.0)
    assert contest_error({"none": torch.zeros(0)}, Oracle(expected)) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
def test_what_it_compares_stays_as_it_is(dtype):
    got, expected = torch.arange(4).to(dtype), torch.arange(1, 5).to(dtype)
    assert contest_error({"x": got}, Oracle({"x": expected})) == pytest.approx(100.0)  # 0 for 1
    assert got.tolist() == [0, 1, 2, 3]
    assert expected.tolist() == [1, 2, 3, 4]


def test_no_memory_is_left_behind_that_holds_what_was_expected(monkeypatch):
    """A kernel that allocates its outputs, and leaves some unwritten, would find right numbers there."""
    made = []
    to = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *how, **more: made.append(to(self, *how, **more)) or made[-1])
    got, expected = torch.zeros(4, dtype=torch.bfloat16), torch.full((4,), 7.0, dtype=torch.float64)
    contest_error({"x": got}, Oracle({"x": expected}))
    assert len(made) > 2
    assert all(not each.any() for each in made)


def test_more_than_1_is_where_the_contest_fails_it():
    """On random values of every size, with errors of every size, in three types."""
    random = torch.Generator().manual_seed(0)
    failed = 0
    for trial in range(900):
        dtype = (torch.float32, torch.bfloat16, torch.float16)[trial % 3]
        size, off = 10 ** (6 * torch.rand(2, generator=random) - 4)
        expected = size.double() * torch.randn(40, generator=random, dtype=torch.float64)
        got = (expected + off * torch.randn(40, generator=random, dtype=torch.float64) / 10).to(dtype)
        fails = fails_there(got, expected, dtype)
        assert (contest_error({"x": got}, Oracle({"x": expected})) > 1) == fails
        failed += fails
    assert 200 < failed < 700


@pytest.mark.parametrize("found", [None, 0.0, 0.25, math.inf])
def test_it_comes_from_the_worker_as_it_was(found):
    told = Examined("decode-v4/B1", Status.OK, contest_error=found)
    assert decode(encode(told)) == told


def test_a_journal_of_before_tells_none():
    assert decode(encode(Examined("a", Status.OK)).replace(',"contest_error":null', "")).contest_error is None


LABELS = {"v4/B1": "v4", "v4/B8": "v4", "v9/B1": "v9", "v9/B8": "v9"}


def test_a_run_keeps_each_kernels_worst_and_the_cases_that_fail():
    found = contest_errors({"v4/B1": 0.2, "v4/B8": 3.0, "v9/B1": 0.1, "v9/B8": None, "v4/again": 9.0}, LABELS)
    assert found == {
        "v4": {"tolerance": 0.01, "count": 2, "worst": 3.0, "case": "v4/B8", "failed": ["v4/B8"]},
        "v9": {"tolerance": 0.01, "count": 1, "worst": 0.1, "case": "v9/B1", "failed": []},
    }
    assert contest_errors({}, LABELS) == {}
