"""The pytest fixture `no_regression`: fails a test where one function is measurably slower than another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import pytest

if TYPE_CHECKING:
    from gdnbench.api import ComparedFunctions, Function, Inputs, RunOptions


@pytest.fixture
def no_regression(tmp_path: Path) -> Callable[..., ComparedFunctions]:
    """A function of the new and the old function and their inputs, which measures both and judges the new one.

    The test fails if the new function is wrong, or its whole interval lies on the slower side by more than `margin`. If
    the interval does not tell, the test is skipped with the interval as the reason, or with `undecided="fail"` fails.
    """

    def check(
        new: Function,
        old: Function,
        inputs: Inputs,
        *,
        undecided: Literal["skip", "fail"] = "skip",
        **options: Unpack[RunOptions],
    ) -> ComparedFunctions:
        import gdnbench

        settings: RunOptions = {"margin": 0.02, "out": tmp_path / "results", **options}
        result = gdnbench.compare({"new": new, "old": old}, inputs, against="old", **settings)
        messages: dict[str, str] = {}
        for row in result.rows:
            at, versus = f"{row.case.label} at {row.case.workload}", row.versus
            if row.status != "ok":
                pytest.fail(f"{at} is {row.status}: {row.reason}")
            if versus:
                ratio = f"{versus.speedup:.3f}x as fast as old, between {versus.low:.3f}x and {versus.high:.3f}x"
                messages[versus.verdict] = f"{at} is {ratio}: {versus.verdict}, at a margin of {settings['margin']:.2%}"
        if "slower" in messages:
            pytest.fail(messages["slower"])
        if "unclear" in messages or not messages:
            (pytest.fail if undecided == "fail" else pytest.skip)(messages.get("unclear", "new could not be compared"))
        return result

    return check
