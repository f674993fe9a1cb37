"""Comments that silence a rule, and which do nothing."""

import pytest
from lint_data import Bench

SOURCE = """
@triton.jit
def rows(x, y, N: tl.constexpr):
    for first in tl.range(0, N, 32, num_stages=3):
        tl.store(y + first, 1.0)
        at = tl.load(y + first){comment}
"""


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("", False),
        ("  # gdnbench: ignore[T10] it is small", True),
        ("  # gdnbench:ignore[ T10 ]  zeros", True),
        ("  # gdnbench: ignore[T1, T10] zeros", True),
        ("  # noqa: E501  # gdnbench: ignore[T10] zeros", True),
        ("  # gdnbench: ignore[T1] zeros", False),
        ("  # gdnbench: ignore zeros", False),
        ("  # gdnbench: ignore[T10]", False),
        ("  # gdnbench: ignore[T10] --", False),
        ("\n        # gdnbench: ignore[T10] of the line above", False),
    ],
)
def test_a_comment_silences_its_rule_on_its_line(tmp_path, comment, silenced):
    result = Bench(tmp_path).triton(SOURCE.format(comment=comment))
    assert (len(result.findings), result.silenced) == ((0, 1) if silenced else (1, 0))
    assert bool(result.exit_code) != silenced


def test_a_comment_without_a_reason_is_told_what_it_lacks(tmp_path):
    [finding] = Bench(tmp_path).triton(SOURCE.format(comment="  # gdnbench: ignore[T10]")).findings
    assert finding.remedy == "say why behind ignore[T10]: without a reason it does nothing"
