"""`gdnbench ncu` as a user meets it; ncu is a script that answers with a recorded report."""

import json
import os
from functools import partial

import pytest
from launches_data import TOYS, split_profiles
from ncu_data import DATA, TRITON, V1, V4, fake_ncu, unpack_report, with_value

from gdnbench.errors import ExitCode
from gdnbench.model.gpu import Gpu
from gdnbench.profile.ncu.store import read_profiles, write_profiles

H200 = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench ncu ARGUMENTS` in this process, without a GPU; gives exit code, stdout and stderr."""
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(TOYS))
    return partial(command_line, "ncu")


@pytest.fixture
def profile(run, monkeypatch, tmp_path):
    """The same with an H200 and an ncu that runs `body`, and leaves the report of decode-v1 unless told otherwise."""
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: (H200,))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    recorded = unpack_report(tmp_path)

    def call(*arguments, body=f'cp "{recorded}" "$report"'):
        return run(*arguments, "--ncu", fake_ncu(tmp_path, body), "--profiles", tmp_path / "profiles")

    return call


def _value(out, title):
    [line] = [line for line in out.splitlines() if line.strip().startswith(title)]
    return line.strip().removeprefix(title).lstrip(", %µs").split()


def test_the_next_line_runs(run):
    _, out, _ = run("--import", V1, V4)
    [command] = [line.removeprefix("next: gdnbench ncu ") for line in out.splitlines() if line.startswith("next:")]
    code, out, _ = run(*command.split())
    assert code == 0
    assert out.startswith("decode-v1 B=1 qk4_v8 on NVIDIA H200  ->  decode-v4 B=1 qk4_v8")


def test_a_diff_of_several_launches_names_the_launch_of_each_pair(run, tmp_path):
    both = {"before.csv": ["decode-v1-B1", "decode-v4-B1"], "after.csv": ["decode-v4-B1", "decode-v4-B1"]}
    for name, of in both.items():
        functions = dict(zip(("partial_sums", "add_sums"), of, strict=True))
        write_profiles(tmp_path / name, split_profiles(functions=functions))
    code, out, _ = run("--import", tmp_path / "before.csv", "--diff", tmp_path / "after.csv")
    assert code == 0
    first, second = out.split("add_sums: gemm-split M=64")
    assert first.startswith("partial_sums: gemm-split M=64")
    assert "block, threads" in first
    assert "nothing moved" in second


def test_a_diff_is_of_two(run):
    code, _, err = run("--import", V1, V4, "--diff", TRITON)
    assert code == ExitCode.USAGE
    assert "one with one" in err
    code, _, err = run("decode-v*", "--diff", V4)
    assert code == ExitCode.USAGE


def test_nan_is_shown_and_fails(run, tmp_path):
    [profile] = read_profiles(DATA / "decode-v4-B64.csv.gz")
    write_profiles(tmp_path / "p.csv", [with_value(profile, "dram__bytes_read.sum", float("nan"))])
    code, out, err = run("--import", tmp_path / "p.csv")
    assert code == ExitCode.PROFILER
    assert _value(out, "DRAM read") == ["nan"]
    assert "could not read DRAM read of decode-v4" in err
    code, out, _ = run("--import", tmp_path / "p.csv", "--json")
    assert code == ExitCode.PROFILER
    assert json.loads(out)[0]["quantities"]["dram_read_bytes"] is None


def test_no_gpu(run):
    code, _, err = run("decode-v4", columns="300")
    assert code == ExitCode.ENVIRONMENT
    assert "gdnbench ncu --import FILE.ncu-rep" in err


def test_no_ncu(run, monkeypatch):
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: (H200,))
    monkeypatch.setattr("gdnbench.profile.ncu.report.find_ncu", lambda: None)
    code, _, err = run("decode-v4", columns="300")
    assert code == ExitCode.ENVIRONMENT
    assert "gdnbench ncu --import FILE.ncu-rep" in err
    code, _, err = run("decode-v4", "--ncu", "/nowhere/ncu")
    assert code == ExitCode.ENVIRONMENT
    assert "/nowhere/ncu" in err


def test_profiling_keeps_the_report_and_its_metrics(profile, tmp_path):
    code, out, err = profile("decode-v1", "--repeat", "3")
    assert code == 0, err
    [report] = (tmp_path / "profiles" / "ncu" / "decode-v1").glob("*-h200-B1-qk4_v8.ncu-rep")
    stored = read_profiles(report.with_suffix(".csv"))
    assert [one.launch for one in stored] == [0, 1, 2]
    assert str(report) in out
    arguments = (tmp_path / "arguments").read_text()
    for part in (
        "--set full --import-source yes --clock-control none --cache-control all",
        "--nvtx --nvtx-include gdnbench@profiled",
        f"--export {report}",
        "-m gdnbench.profile.worker",
    ):
        assert part in arguments


def test_a_kernel_against_itself_is_profiled_twice(profile, tmp_path):
    code, out, _ = profile("decode-v1", "--diff", "decode-v1")
    assert code == 0
    assert "nothing moved" in out
    assert len(list((tmp_path / "profiles").rglob("*.ncu-rep"))) == 2
    assert len(list((tmp_path / "profiles").rglob("*.csv"))) == 2


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("echo '==WARNING== No kernels were profiled.'", ExitCode.PROFILER, "no launch"),
        ("echo boom; echo '==ERROR== The application returned an error code (1).'; exit 1", ExitCode.PROFILER, "boom"),
        ('echo nonsense > "$report"', ExitCode.PROFILER, "no profiled launch"),
        ("sleep 60", ExitCode.PROFILER, "--limit"),
    ],
)
def test_failures(profile, tmp_path, body, code, said):
    found, out, err = profile("decode-v1", "--limit", "2", body=body)
    assert (found, out) == (code, "")
    assert said in err
    assert list((tmp_path / "profiles").rglob("*.csv")) == []


def test_a_kernel_whose_library_is_missing(profile, monkeypatch):
    monkeypatch.setattr("gdnbench.catalog.entry.CatalogEntry.missing", lambda self: self.kernel.requires[0])
    code, _, err = profile("decode-fla")
    assert code == ExitCode.ENVIRONMENT
    assert "pip install 'gdnbench[fla]'" in err


@pytest.mark.gpu
def test_a_real_profile(command_line, tmp_path):
    code, out, err = command_line("ncu", "decode-v4", "decode-v1", "--profiles", tmp_path, "--json")
    assert code == 0, err
    first, second = json.loads(out)
    assert (first["kernel"], second["kernel"]) == ("decode-v4", "decode-v1")
    assert first["function"] == "gdn_decode_v4"
    assert first["quantities"]["grid_blocks"] == 128
    assert 1 < first["quantities"]["duration_us"] < 100
    assert os.path.exists(first["report"])  # noqa: PTH110


@pytest.mark.gpu
def test_a_kernel_barely_differs_from_itself(command_line, tmp_path):
    code, out, err = command_line("ncu", "decode-v4", "--diff", "decode-v4", "--profiles", tmp_path, "--json")
    assert code == 0, err
    [document] = json.loads(out)
    assert document["has_spread"]
    moved = {move["quantity"] for move in document["moves"]}
    assert len(moved) <= document["compared"] / 8
    assert not moved & {"instructions", "registers", "grid_blocks", "global_sectors", "occupancy_limit_pct"}
