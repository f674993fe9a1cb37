"""`gdnbench proton` where there is no GPU: what it shows of stored files, and what it refuses."""

import pytest

from gdnbench.errors import ExitCode
from gdnbench.machine.gpus import list_gpus

without_gpu = pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU here")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--import", "none.json"), ExitCode.PROFILER, "none.json"),
        (("decode-triton", "--shape", "B=1,8"), ExitCode.USAGE, "2 workloads"),
        (("decode-triton", "--shape", "B=256"), ExitCode.USAGE, "smaller B than 256"),
        (("decode-none",), ExitCode.USAGE, "no kernel decode-none"),
        (("decode-triton", "--launches", "0"), ExitCode.USAGE, "launches"),
    ],
)
def test_what_cannot_be_shown_says_why(command_line, arguments, code, said):
    found, out, err = command_line("proton", *arguments)
    assert found == code
    assert said in " ".join(err.split())
    assert not out


@without_gpu
def test_without_a_gpu_it_says_what_works(command_line):
    code, out, err = command_line("proton", "decode-triton")
    assert code == ExitCode.ENVIRONMENT
    assert "gdnbench proton --import" in err
    assert not out
