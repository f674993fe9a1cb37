"""`gdnbench explain` as a user meets it."""

from functools import partial

import pytest
from diagnose_data import SPECIMENS, copy_run, recording

from gdnbench.errors import ExitCode


@pytest.fixture
def run(command_line, monkeypatch, tmp_path):
    """Runs `gdnbench explain ARGUMENTS` in this process, without a GPU; no profiles are stored."""
    monkeypatch.setattr("gdnbench.diagnose.gather.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(SPECIMENS))
    copy_run(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return partial(command_line, "explain")


def test_a_workload_that_a_kernel_cannot_do_is_refused_with_one_that_it_can(run):
    code, _, err = run("verify-v3", columns="200")
    assert code == ExitCode.USAGE
    assert "verify-v3 cannot do B=1 T=4 last qk4_v8 fp32: tensor cores multiply bf16" in err
    assert "gdnbench explain verify-v3 --shape B=1 --shape keep=last --shape state=bf16" in err


@pytest.mark.parametrize("arguments", [[], ["--from", recording("decode-v1-B1")]])
def test_what_is_next_goes_on_with_the_same_folders(run, tmp_path, arguments):
    folders = ["--out", tmp_path / "elsewhere", "--profiles", tmp_path / "counters"]
    _, out, _ = run("decode-v1", *folders, *arguments)
    places = {"run": f"--out {tmp_path / 'elsewhere'}", "ncu": f"--profiles {tmp_path / 'counters'}"}
    lines = [line for line in out.splitlines() if line.lstrip().startswith(("next: ", "try: "))]
    for line in lines:
        verb = line.split()[2]
        assert places.get(verb, "") in line
    assert any(place in out for place in places.values())


@pytest.mark.parametrize(
    ("arguments", "expected", "said"),
    [
        (("decode-v99",), ExitCode.USAGE, "no kernel decode-v99"),
        (("decode-v*",), ExitCode.USAGE, "one is needed"),
        (("decode-v1", "--op", "attention"), ExitCode.USAGE, "no op attention"),
        (("decode-v1", "--gpu", "cpu"), ExitCode.USAGE, "runs on a GPU"),
        (("decode-v1", "--shape", "B=1,2"), ExitCode.USAGE, "2 workloads are given"),
        (("decode-v1", "--from", "/no/such.csv"), ExitCode.PROFILER, "no such file"),
        (("decode-fla", "--shape", "B=5"), ExitCode.USAGE, "nothing is known of decode-fla"),
    ],
)
def test_failures_say_what_to_do(run, arguments, expected, said):
    code, out, err = run(*arguments)
    assert (code, out) == (expected, "")
    assert said in err
    assert "hint:" in err
