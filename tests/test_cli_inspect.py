"""`gdnbench inspect` as a user meets it; the builds are real."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from faults import REPOSITORY, python_path

from gdnbench.catalog import catalog as catalogs
from gdnbench.catalog.catalog import default_roots
from gdnbench.errors import ExitCode

pytestmark = pytest.mark.slow

BROKEN = Path(__file__).parent / "data" / "binary" / "kernels"


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench inspect ARGUMENTS` in this process, without a GPU; gives exit code, stdout and stderr."""
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", tuple)
    return partial(command_line, "inspect")


@pytest.fixture
def one(run):
    """The JSON of one kernel for one architecture."""

    def invoke(label, arch="sm_90", *arguments):
        code, out, _ = run(label, "--arch", arch, "--json", *arguments)
        assert code == 0
        [row] = json.loads(out)
        return row

    return invoke


@pytest.fixture(params=["kernels", "."])
def checkout(request, tmp_path, monkeypatch):
    """The bundled kernels in a repository of their own, committed, at its top or below; gives their folder."""
    folder = tmp_path / "clone" / request.param
    shutil.copytree(default_roots()[0], folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(catalogs, "default_roots", lambda: (folder,))
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    _git(tmp_path / "clone", "init", "-q")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "one")
    return folder


def _git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_every_bundled_kernel_for_three_architectures(run):
    code, out, _ = run("--arch", "sm_86,sm_90,sm_100", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["arch"] for row in rows} == {"sm_86", "sm_90", "sm_100"}
    assert {"decode-v1", "decode-v5i", "decode-triton", "decode-triton-ws"} <= {row["label"] for row in rows}
    for row in rows:
        assert row["status"] == "ok"
        assert 0 < row["regs"] <= 255
        assert 0 < row["occupancy"] <= 100
        assert row["warps"] == row["blocks"] * row["threads"] / 32
        assert sum(row["mix"].values()) == row["instructions"]
        assert (row["spills"] > 0) == (row["label"] == "decode-rowreg-w2") == (row["spill_stores"] > 0)


def test_the_numbers_of_one_kernel(one):
    row = one("decode-v4")
    assert (row["threads"], row["grid"], row["waves_on"]) == (256, 128, "h200")
    assert row["waves"] == pytest.approx(128 / (132 * row["blocks"]))
    assert row["load_bits"] == 128
    assert one("decode-v4:WARPS=4", "sm_90", "--shape", "B=8")["grid"] == 8 * 8 * 128 / 4


def test_what_the_kernels_are_made_for_is_seen(one):
    assert {"EF", "EL", "NA"} <= one("decode-v5")["hints"].keys()
    assert one("decode-v6")["mix"]["global-to-shared copy 128"] == 1
    assert one("decode-triton-tma")["mix"]["TMA load"] > 0
    assert one("decode-rowreg-w2")["spill_loads"] > 0


def test_the_block_of_a_kernel_with_specialised_warps_is_the_compilers(one):
    row = one("decode-triton-ws", "sm_100")
    assert row["threads"] > 32 * row["params"]["WARPS"]
    assert row["dynamic_smem"] > 0


def test_after_several_launches_for_two_architectures_the_next_command_is_another_and_tells_more(run):
    _, first, _ = run("prefill-triton")
    assert first.rstrip("\n").endswith("next: gdnbench inspect prefill-triton --arch sm_90")
    _, second, _ = run("prefill-triton", "--arch", "sm_90")
    assert second.rstrip("\n").endswith("next: gdnbench inspect prefill-triton --arch sm_90 --sass")


def test_an_architecture_that_nobody_named_is_left_out_where_a_kernel_is_for_another(run):
    code, out, told = run("prefill-v4", "prefill-v1", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, {row["arch"] for row in rows}) == (0, {"sm_90"})
    note = "note: sm_100 is left out, for the instructions of prefill-v4 are another architecture's"
    assert note in " ".join(told.split())
    code, out, _ = run("prefill-v4", "--arch", "sm_90,sm_100", "--csv")
    assert (code, [row["status"] for row in csv.DictReader(io.StringIO(out))]) == (6, ["ok", "build-failed"])
    code, _, _ = run("prefill-v4", "--arch", "sm_100")
    assert code == 6


def test_torch_kernels_are_named_and_left_out(run):
    code, out, err = run("decode-v4", "decode-reference", "--arch", "sm_90")
    assert code == 0
    assert "decode-reference: reached through Python" in err
    assert "decode-v4" in out
    code, _, err = run("decode-reference")
    assert code == ExitCode.USAGE
    assert "no build" in err


def test_a_kernel_beside_itself_has_not_changed(run):
    code, out, _ = run("decode-v4", "--diff", "decode-v4:WARPS=8", "--json", "--sass")
    assert code == 0
    for pair in json.loads(out):
        assert pair["same"] is True
        assert pair["changes"] == pair["sass_diff"] == []


def test_two_names_of_the_same_code_have_not_changed(run):
    _, out, _ = run("decode-v4", "--shape", "B=8", "--diff", "decode-v5:HINT=none", "--arch", "sm_90")
    assert "the same" in out
    assert out.endswith("next: gdnbench inspect decode-v4\n")
    assert run("decode-v4", "--diff", "decode-v5:HINT=none", "--arch", "sm_90", "--csv")[:2] == (0, "")


def test_beside_a_revision(run, checkout):
    code, out, _ = run("decode-v4b", "--diff", "git:HEAD", "--arch", "sm_90")
    assert code == 0
    assert "the same" in out
    source = checkout / "decode" / "v4" / "kernel.cu"
    shutil.copy(checkout / "decode" / "v1" / "kernel.cu", source)
    # Its bounds are those of other blocks than v4 launches.
    text = re.sub(r"__launch_bounds__\([^)]*\)", "", source.read_text())
    source.write_text(text.replace("gdn_decode_v1", "gdn_decode_v4").replace("BV", "(8)"))
    edited = source.read_text()
    code, out, _ = run("decode-v4b", "--diff", "git:HEAD", "--arch", "sm_90", "--json", "--sass")
    [pair] = json.loads(out)
    assert code == 0
    assert "instructions" in [change["quantity"] for change in pair["changes"]]
    assert pair["sass_diff"]
    assert source.read_text() == edited
    _git(checkout, "commit", "-q", "-a", "-m", "two")
    assert "the same" in run("decode-v4b", "--diff", "git:HEAD", "--arch", "sm_90")[1]
    assert "instructions" in run("decode-v4b", "--diff", "git:HEAD~1", "--arch", "sm_90")[1]


def test_a_revision_that_lacks_the_kernel(run, checkout):
    shutil.rmtree(checkout / "decode" / "v6")
    _git(checkout, "commit", "-q", "-a", "-m", "two")
    _git(checkout, "checkout", "-q", "HEAD~1", "--", ".")
    code, _, err = run("decode-v6", "--diff", "git:HEAD", "--arch", "sm_90")
    assert code == ExitCode.USAGE
    assert "no kernel decode-v6" in err


def test_rules_name_who_breaks_what(run):
    rules = "spills,regs>200,smem>48K"
    code, _, err = run("decode-rowreg*", "--arch", "sm_90", "--fail-on", rules, "-q")
    assert code == ExitCode.REGRESSION
    assert [line.split(":")[:2] for line in err.splitlines()] == [
        ["breaks decode-rowreg-w2 B=1 qk4_v8 sm_90", " spills"],
        ["breaks decode-rowreg-w2 B=1 qk4_v8 sm_90", " regs>200"],
    ]
    _, out, _ = run("decode-rowreg-w2", "--arch", "sm_90", "--fail-on", rules, "-q", "--json")
    assert json.loads(out)[0]["breaks"] == ["spills", "regs>200"]
    assert run("decode-v4", "--arch", "sm_90", "--fail-on", rules)[0] == ExitCode.OK


def test_serialized_products_are_a_row_a_warning_and_a_rule(run, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(BROKEN))
    why = "insufficient register resources for the wgmma pipeline"
    code, out, err = run("test-warpgroup:TOUCHED=1", "--arch", "sm_90", "--fail-on", "serialized", "-q")
    assert code == ExitCode.REGRESSION
    assert re.search(r"^  serialized wgmma +32$", out, re.MULTILINE)
    assert f"test-warpgroup:TOUCHED=1 sm_90: ptxas serializes the wgmma: {why}" in " ".join(out.split())
    assert err == "breaks test-warpgroup:TOUCHED=1 B=1 qk4_v8 sm_90: serialized: serialized wgmma: 32\n"
    _, out, _ = run("test-warpgroup:TOUCHED=1", "decode-v1", "decode-v4", "decode-v6", "--arch", "sm_90", "-q")
    assert out.count("ptxas serializes the wgmma") == 1
    _, out, _ = run("test-warpgroup:TOUCHED=1", "--arch", "sm_90", "-q", "--json")
    assert [(row["serialized"], row["serialized_because"]) for row in json.loads(out)] == [(32, why)]


@pytest.mark.parametrize(
    ("label", "count"), [("test-warpgroup", "0"), ("test-warpgroup:PRODUCTS=1", "0"), ("decode-v4", None)]
)
def test_nothing_is_said_of_products_that_the_compiler_keeps_in_flight_or_of_none(run, monkeypatch, label, count):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(BROKEN))
    code, out, _ = run(label, "--arch", "sm_90", "--fail-on", "serialized", "-q")
    assert code == ExitCode.OK
    assert "ptxas serializes" not in out
    assert re.findall(r"^  serialized wgmma +(\d+)$", out, re.MULTILINE) == [count] * (count is not None)


def test_explain_says_of_the_code_that_its_products_are_serialized(command_line, monkeypatch):
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", tuple)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(BROKEN))
    told = "ptxas serializes the wgmma: insufficient register resources"
    _, out, _ = command_line("explain", "test-warpgroup:TOUCHED=1", "-q")
    assert told in " ".join(out.split())
    _, out, _ = command_line("explain", "test-warpgroup", "-q")
    assert "code    sm_90" in out
    assert told not in " ".join(out.split())


def test_trips_to_memory_can_be_a_rule_and_one_that_is_not_known_breaks_none(run):
    code, _, err = run("decode-v4,decode-v6,decode-triton-ws", "--arch", "sm_90", "--fail-on", "trips>1", "-q")
    assert code == ExitCode.REGRESSION
    assert err == "breaks decode-v4 B=1 qk4_v8 sm_90: trips>1: trips to memory in a row: 2\n"
    _, out, _ = run("decode-v4,decode-v6,decode-triton-ws", "--arch", "sm_90", "-q", "--json")
    assert [row["trips"] for row in json.loads(out)] == [2, 1, None]


def test_a_kernel_that_does_not_build_is_a_row_and_exit_code_6(run, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(BROKEN))
    code, out, _ = run("test-syntax-error", "decode-v4", "--arch", "sm_90", "--fail-on", "regs>1")
    assert code == ExitCode.BUILD
    assert "failed" in out
    assert "kernel.cu:5: error" in out.replace("\n", "")
    _, out, _ = run("test-syntax-error", "--arch", "sm_90", "--json")
    assert json.loads(out)[0]["status"] == "build-failed"


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("1 // 0 + ", "`block` in variant.py of decode-v99 failed: ZeroDivisionError"),
        ("None and ", "decode-v99: `block` in variant.py gives None, which is no whole number"),
    ],
)
def test_a_declaration_that_fails_at_the_workload_fails_alone(run, monkeypatch, tmp_path, declared, told):
    folder = tmp_path / "mine" / "decode" / "v99"
    shutil.copytree(default_roots()[0] / "decode" / "v4", folder)
    declaration = (folder / "variant.py").read_text().replace("decode-v4", "decode-v99")
    (folder / "variant.py").write_text(
        declaration.replace("block=lambda shape, p: ", f"block=lambda shape, p: {declared}")
    )
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path / "mine"))
    code, out, _ = run("decode-v99", "decode-v4", "--arch", "sm_90")
    assert code == ExitCode.BUILD
    assert told in " ".join(out.split())
    assert "next: gdnbench inspect decode-v4" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("decode-v4", "--arch", "sm_75"), "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"),
        (("decode-v4", "--arch", "hopper"), "not an architecture"),
        (("decode-v44",), "did you mean decode-v4"),
        (("decode-v4", "--fail-on", "speed>3"), "there is no speed"),
        (("decode-v4", "--diff", "git:"), "names no revision"),
        (("decode-v4", "--diff", "decode-reference"), "no build of gdnbench's own"),
        (("decode-v4", "--diff", "decode-v*"), "one is needed"),
        (("decode-v4", "--shape", "C=1"), "B=1,8,64"),
    ],
)
def test_bad_input_is_told_what_is_understood(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err.replace("\n", " ")


def test_a_revision_that_does_not_exist(run, checkout):
    code, _, err = run("decode-v4", "--diff", "git:no-such")
    assert code == ExitCode.USAGE
    assert "git has no no-such" in err


def test_the_parent_loads_no_compiler():
    code = (
        "import sys; from gdnbench.verbs import app; sys.argv = ['gdnbench', 'inspect', 'decode-v4', '-q'];\n"
        "try: app.main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'triton', 'cuda.core', 'cuda.bench') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": python_path(REPOSITORY)},
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_each_launch_of_a_kernel_has_its_own_numbers(run, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(Path(__file__).parent / "toys"))
    code, out, _ = run("gemm-split", "--op", "gemm", "--shape", "M=64", "--arch", "sm_90", "--json")
    assert code == 0
    rows = json.loads(out)
    assert [(row["kernel"], row["label"], row["symbol"]) for row in rows] == [
        ("gemm-split", f"gemm-split/{entry}", entry) for entry in ("partial_sums", "add_sums")
    ]
    assert [row["grid"] for row in rows] == [96, 48]
    _, out, _ = run("gemm-split", "--op", "gemm", "--shape", "M=64", "--arch", "sm_90")
    assert "gemm-split/partial_sums" in out
    assert "gemm-split/add_sums" in out
    assert out.splitlines()[-1].startswith("next: gdnbench inspect gemm-split --arch sm_90 --sass")
