"""Comments that silence a rule, and which do nothing."""

import pytest
from lint_data import Bench

SOURCE = """
@triton.jit
def rows(x, total, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    elements = tl.load(x + row * N + tl.arange(0, N))
    tl.store(total + row, tl.sum(elements, axis=0)){comment}
"""


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("", False),
        ("  # gdnbench: ignore[T5] elements are zeros and ones", True),
        ("  # gdnbench:ignore[ T5 ]  zeros", True),
        ("  # gdnbench: ignore[T1, T5] zeros", True),
        ("  # noqa: E501  # gdnbench: ignore[T5] zeros", True),
        ("  # gdnbench: ignore[T1] zeros", False),
        ("  # gdnbench: ignore zeros", False),
        ("  # gdnbench: ignore[T5]", False),
        ("  # gdnbench: ignore[T5] --", False),
        ("\n    # gdnbench: ignore[T5] of the line above", False),
    ],
)
def test_a_comment_silences_its_rule_on_its_line(tmp_path, comment, silenced):
    result = Bench(tmp_path).triton(SOURCE.format(comment=comment))
    assert (len(result.findings), result.silenced) == ((0, 1) if silenced else (1, 0))
    assert bool(result.exit_code) != silenced


def test_a_comment_without_a_reason_is_told_what_it_lacks(tmp_path):
    [finding] = Bench(tmp_path).triton(SOURCE.format(comment="  # gdnbench: ignore[T5]")).findings
    assert finding.remedy == "say why behind ignore[T5]: without a reason it does nothing"


def test_a_comment_of_cuda(tmp_path):
    body = "const int row = blockIdx.x; y[row * AXIS_N] = 1.f;"
    source = f"__global__ void rows(float* y) {{{{ {body} }}}}  // gdnbench: ignore[C5] {{why}}\n"
    assert Bench(tmp_path).cuda(source.format(why="one warp")).silenced == 1
    assert Bench(tmp_path / "other").cuda(source.format(why="")).silenced == 0
