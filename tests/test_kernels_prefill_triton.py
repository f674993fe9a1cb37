"""The prefill in Triton, in one process of its own: the interpreter is chosen when triton is imported."""

import pytest
from forked_workers import interpreted


@pytest.fixture(scope="module")
def told():
    """What `interpreted_prefill.py` tells, by what it tells it of."""
    return {name: rest for name, *rest in interpreted("interpreted_prefill")}


def test_every_arithmetic_passes_all_gates_on_sequences_of_a_chunk_and_a_token_none_and_a_few_tokens(told):
    verdicts = {name: rest for name, rest in told.items() if name.startswith("prefill-triton:")}
    assert verdicts
    for status, reason, scenarios, worst in verdicts.values():
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
