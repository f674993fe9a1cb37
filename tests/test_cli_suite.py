"""`--suite` on the command line: what is measured, stored, shown again, and refused."""

from pathlib import Path

import pytest
from committed import RESULTS

from gdnbench.errors import ExitCode

RUNS = Path(__file__).parent / "data" / "runs"
SERVING = "20261123-211325-h200-prefill-serving"
"""Two rounds at 5 of 76 workloads of a run that was stopped: at the last the baseline failed and the rest was not run;
one library is wrong at another."""

BEFORE_AN_AXIS = "20261124-172753-h200-layer-heads"
"""A run of `layer` of the time when the op had no axis BETA."""


def test_of_several_ops_the_one_that_is_meant_is_told_where_nothing_says_which(command_line, tmp_path):
    words = ("--gpu", "cpu", "--dry-run", "--out", tmp_path)
    _, _, unnamed = command_line("run", *words)
    assert "note: the kernels of decode are meant; --op names another op: decode-pool, " in " ".join(unnamed.split())
    _, _, named = command_line("run", "--op", "decode", *words)
    assert "note:" not in named
    _, _, said = command_line("run", "nvfp4-gemv", *words)
    assert "nvfp4-gemv is an op, not a kernel" in said
    assert "--op nvfp4-gemv" in said
    _, _, other = command_line("run", "decode-v9", "--op", "layer", *words)
    assert "decode-v9 is a kernel of decode, and another op's are named" in " ".join(other.split())


@pytest.mark.parametrize("columns", ["80", "160"])
def test_a_run_that_was_stopped_is_summed_up_over_the_workloads_that_have_times(command_line, columns):
    code, out, err = command_line("show", SERVING, "--out", RUNS, columns=columns)
    assert (code, err) == (ExitCode.OK, "")
    table = out[out.index("suite serving: 4 of 5 workloads") :]
    assert "left out for want of times: qk16_v64 lengths=16384" in " ".join(table.split())
    assert "not at every workload: prefill-flashqla (at 3)" in " ".join(table.split())
    assert [line.split()[0] for line in table.splitlines()[2:5]] == [
        "prefill-auto",
        "prefill-flashinfer",
        "prefill-fla",
    ]


@pytest.mark.parametrize("option", [(), ("--contest",)], ids=["table", "contest"])
def test_a_run_of_before_an_axis_was_added_is_summed_up_by_a_suite_of_now(command_line, option):
    code, out, err = command_line("show", BEFORE_AN_AXIS, *option, "--suite", "default", "--out", RESULTS)
    assert code == 0, err
    assert "2.901x" in out
    assert "worst 1.364x at B=128" in " ".join(out.split())
