"""Comments that silence a rule, and which do nothing."""

import pytest
from lint_data import Bench

SOURCE = """
@triton.jit
def rows(x, total, N: tl.constexpr):
    at = tl.program_id(0) * N{comment}
    tl.store(total, tl.sum(tl.load(x + at)))
"""


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("", False),
        ("  # gdnbench: ignore[T4] it is small", True),
        ("  # gdnbench:ignore[ T4 ]  zeros", True),
        ("  # gdnbench: ignore[T1, T4] zeros", True),
        ("  # noqa: E501  # gdnbench: ignore[T4] zeros", True),
        ("  # gdnbench: ignore[T1] zeros", False),
        ("  # gdnbench: ignore zeros", False),
        ("  # gdnbench: ignore[T4]", False),
        ("  # gdnbench: ignore[T4] --", False),
        ("\n    # gdnbench: ignore[T4] of the line above", False),
    ],
)
def test_a_comment_silences_its_rule_on_its_line(tmp_path, comment, silenced):
    result = Bench(tmp_path).triton(SOURCE.format(comment=comment))
    assert (len(result.findings), result.silenced) == ((0, 1) if silenced else (1, 0))
    assert bool(result.exit_code) != silenced


def test_a_comment_without_a_reason_is_told_what_it_lacks(tmp_path):
    [finding] = Bench(tmp_path).triton(SOURCE.format(comment="  # gdnbench: ignore[T4]")).findings
    assert finding.remedy == "say why behind ignore[T4]: without a reason it does nothing"
