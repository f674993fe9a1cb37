"""The prefill in Triton, in one process of its own: the interpreter is chosen when triton is imported."""

import pytest
from deep import cases_to_run
from forked_workers import interpreted

LABELS = ("prefill-triton:BV=32:PRODUCTS=bf16", "prefill-triton:BV=16")


@pytest.fixture(scope="module")
def told(request):
    """What `interpreted_prefill.py` tells, by what it tells it of."""
    labels = [case["label"] for case in cases_to_run(request, "test_every_arithmetic_passes_all_gates")]
    return {name.partition("/")[0]: rest for name, *rest in interpreted("interpreted_prefill", ",".join(labels))}


@pytest.mark.parametrize("label", LABELS)
def test_every_arithmetic_passes_all_gates(told, label):
    """On sequences of a chunk and a token, none and a few tokens."""
    status, reason, scenarios, worst = told[label]
    assert (status, reason) == ("ok", "")
    assert len(scenarios) == 6
    assert max(worst.values()) < 3


@pytest.mark.parametrize("products", ["bf16", "tf32", "tf32x3"])
def test_an_inverse_of_small_integers_is_exact(told, products):
    """Powers of this A have entries of up to 5e17, which would leave no digit of an inverse that is made of them."""
    assert told[f"equal keys {products}"] == [0.0]


@pytest.mark.parametrize(
    ("products", "least", "most"), [("bf16", 2**-12, 2**-8), ("tf32", 2**-14, 2**-10), ("tf32x3", 0, 2**-20)]
)
def test_an_inverse_is_as_good_as_its_arithmetic_and_no_better(told, products, least, most):
    """Triton's own interpreter multiplies the bits of bf16 as integers, and takes fp32 where tf32 is asked for."""
    (error,) = told[f"random keys {products}"]
    assert least <= error < most
