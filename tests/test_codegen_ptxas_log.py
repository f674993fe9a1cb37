"""What is read from ptxas's log, worded as its releases word it."""

import pytest

from gdnbench.codegen.build import serialized_because

HEAD = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
OTHERS = (
    "ptxas info    : (C7519) warpgroup.arrive is injected in around line 74 by compiler to allow use of registers in "
    "GMMA in function 'k'\n"
    "ptxas info    : (C7517) warpgroup.wait is injected in around line 114 by compiler to allow use of registers "
    "defined by GMMA in function 'k'\n"
)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "insufficient register resources for the wgmma pipeline in the function 'k'",
            "insufficient register resources for the wgmma pipeline",
        ),
        ("insufficient register resources for the function 'k'", "insufficient register resources"),
        (
            "wgmma pipeline crossing function boundary at a function call in the function 'k'",
            "wgmma pipeline crossing function boundary at a function call",
        ),
        (
            "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline "
            "stage in the function 'k'",
            "non wgmma instructions reading accumulator registers of a wgmma between start and end of the pipeline "
            "stage",
        ),
        ("ill formed pipeline stage in the function 'k'", "ill formed pipeline stage"),
    ],
)
def test_a_reason_is_in_ptxass_words(said, why):
    assert serialized_because(f"{OTHERS}{HEAD}{said}\n\0\0", "k") == why


def test_each_reason_is_told_once():
    lines = [f"{HEAD}{why} in the function 'k'" for why in ("calls", "ill formed pipeline stage", "calls")]
    assert serialized_because("\n".join(lines), "k") == "calls, ill formed pipeline stage"


@pytest.mark.parametrize(
    "log", ["", "\0\0", OTHERS, f"{HEAD}calls in the function 'k2'", f"{HEAD}calls in the function"]
)
def test_other_lines_and_other_functions_tell_nothing(log):
    assert serialized_because(log, "k") == ""
