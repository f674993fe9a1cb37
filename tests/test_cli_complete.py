"""What TAB offers, asked for as each shell asks."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from unittest import mock

import pytest
from committed import HOME
from faults import REPOSITORY

from gdnbench.verbs.app import app


def asked(shell, *words):
    """The completions of the last word."""
    environment = {"_GDNBENCH_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        environment |= {"COMP_WORDS": "\n".join(("gdnbench", *words)), "COMP_CWORD": str(len(words))}
    else:
        environment["_TYPER_COMPLETE_ARGS"] = " ".join(("gdnbench", *words))
        environment["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment),
        contextlib.chdir(HOME),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit),
    ):
        app(prog_name="gdnbench")
    assert err.getvalue() == ""
    return out.getvalue().replace("\\\\:", ":").replace('"', " ").split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "offered", "absent"),
    [
        (["ver"], {"verify"}, {"run"}),
        (["verify", "decode-v4"], {"decode-v4", "decode-v4b"}, {"decode-v5"}),
        (["run", "-k", "decode-v4,decode-fl"], {"decode-v4,decode-fla", "decode-v4,decode-floor-copy"}, {"decode-v4"}),
        (
            ["show", "20261122-0243"],
            {"20261122-024300-h200-decode-hopper-qk16"},
            {"20261122-024054-h200-decode-hopper"},
        ),
        (["show", "hop"], {"hopper", "hopper-qk16"}, {"main"}),
        (["compare", "main", "published/b"], {"published/b200"}, {"published/contest"}),
        (["show", "main", "--chart", "r"], {"roofline"}, set()),
        (["exchange", "ex"], {"export"}, {"import"}),
        (["sweep", "--baseline", "decode-tri"], {"decode-triton"}, {"decode-v4"}),
    ],
)
def test_every_shell_is_offered_what_fits(shell, words, offered, absent):
    found = set(asked(shell, *words))
    assert offered <= found
    assert not absent & found


@pytest.fixture
def toys(monkeypatch):
    """Two more ops in the catalog."""
    monkeypatch.setenv("GDNBENCH_KERNELS", str(REPOSITORY / "tests" / "toys"))


@pytest.mark.parametrize(
    ("words", "offered", "absent"),
    [
        (["run", ""], {"decode-v4", "gemm-torch", "ragged-torch"}, set()),
        (["run", "gemm-cuda", ""], {"gemm-torch"}, {"decode-v4", "ragged-torch"}),
        (["run", "-k", "gemm-cuda", "-k", ""], {"gemm-torch"}, {"decode-v4", "ragged-torch"}),
        (["run", "gemm-cuda,"], {"gemm-cuda,gemm-torch"}, {"gemm-cuda,decode-v4"}),
        (["run", "--op", "ragged", ""], {"ragged-torch"}, {"gemm-torch"}),
        (["run", "no-such-kernel", "gemm-to"], {"gemm-torch"}, set()),
        (["run", "--op", ""], {"decode", "gemm", "ragged"}, {"gemm-torch"}),
    ],
)
def test_kernels_of_the_op_that_is_meant_so_far_are_offered(toys, words, offered, absent):
    found = set(asked("fish", *words))
    assert offered <= found
    assert not absent & found


def test_runs_that_were_stopped_are_offered_to_be_resumed(tmp_path):
    from run_data import info

    from gdnbench.store.files import RunFolder
    from gdnbench.store.info import write_info

    write_info(RunFolder.create(tmp_path, "20260102-030405-h200-decode").path, info(complete=False))
    found = asked("fish", "run", "--out", str(tmp_path), "--resume", "2026")
    assert found == ["20260102-030405-h200-decode"]


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_the_script_that_is_installed_works_in_bash(tmp_path):
    program = tmp_path / "gdnbench"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom gdnbench.verbs.app import main\nsys.exit(main())\n")
    program.chmod(0o755)
    script = """
    eval "$(_GDNBENCH_COMPLETE=source_bash gdnbench)"
    COMP_WORDS=(gdnbench verify decode-v4) COMP_CWORD=2
    _gdnbench_completion gdnbench
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=HOME, capture_output=True, text=True, check=False
    )
    assert {"decode-v4", "decode-v4b"} <= set(done.stdout.split()), done.stderr
