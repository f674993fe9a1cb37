"""`gdnbench inspect` as a user meets it; the builds are real."""

import json
import os
import re
import shutil
import subprocess
from functools import partial

import pytest

from gdnbench.catalog import catalog as catalogs
from gdnbench.catalog.catalog import default_roots

pytestmark = pytest.mark.slow


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench inspect ARGUMENTS` in this process, without a GPU; gives exit code, stdout and stderr."""
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", tuple)
    return partial(command_line, "inspect")


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
