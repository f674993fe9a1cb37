"""Files in the working folder that have the name of a module: no process of gdnbench's imports one."""

import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass

import pytest
from faults import CPU, REPOSITORY, SHORT, Gdnbench, finish, python_path

from gdnbench.process import worker
from gdnbench.process.child import child_command
from gdnbench.process.command import PYTHON, run_tool
from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker

BUILT_IN = {*sys.builtin_module_names, "__main__"}
STANDARD = sorted(name for name in sys.stdlib_module_names - BUILT_IN if not name.startswith("_"))
INSTALLED = ("cuda", "fla", "numpy", "pandas", "rich", "scipy", "torch", "triton", "typer")
OURS = ("kernel", "numerics", "op", "sitecustomize_not", "variant")
IMPORTED = ("inspect", "json", "random", "selectors", "token", "queue", "numpy", "rich")
"""By a worker of the tests, in which they were not yet."""


@pytest.fixture
def shadowed(tmp_path, monkeypatch):
    """The working folder, with a file for each module, which leaves its name behind if it is imported, and fails."""
    folder = tmp_path / "shadowed"
    folder.mkdir()
    witness = tmp_path / "imported"
    for name in (*STANDARD, *INSTALLED, *OURS):
        text = (
            f"open({str(witness)!r}, 'a').write({name!r} + ' ')\nraise ImportError('of the working folder: {name}')\n"
        )
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", python_path())  # a relative folder in it would be the working folder
    monkeypatch.chdir(folder)
    yield folder
    assert not witness.exists(), witness.read_text()


@dataclass(frozen=True)
class Told:
    text: str


SCRIPT = f"""
import sys
from dataclasses import dataclass
from importlib import import_module
from gdnbench.process.channel import Channel
@dataclass
class Told:
    text: str
channel = Channel(int(sys.argv[-1]))
files = [import_module(name).__file__ for name in {IMPORTED!r}]
channel.send(Told(" ".join(files)))
"""


@pytest.fixture
def warm(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield WarmParent({"PYTHONPATH": f"{worker.python_path()}:{tmp_path}"}, idle_s=0.5)


@pytest.mark.parametrize("kind", ["started", "forked"])
def test_a_worker_imports_none(shadowed, warm, tmp_path, kind):
    (tmp_path / "worker_of_test.py").write_text(textwrap.dedent(SCRIPT))
    environment = {"PYTHONPATH": f"{worker.python_path()}:{tmp_path}"}
    forked = warm if kind == "forked" else None
    with (
        tempfile.TemporaryFile() as log,
        Worker("worker_of_test", [], [Told], log, environment, warm=forked) as started,
    ):
        message = started.receive(time.monotonic() + 60)
        assert message, started.log_tail(9)
        assert str(shadowed) not in message.text


@pytest.fixture
def call(tmp_path, shadowed):
    """Runs a command in the working folder, as the program `gdnbench` or as `python -m gdnbench`."""

    def call(*words, python=PYTHON):
        bench = Gdnbench(tmp_path / "home")
        return finish(
            subprocess.Popen(
                [*python, "-m", "gdnbench", *words],
                env=bench.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    return call


COMMANDS = {
    "version": ("--version",),
    "list": ("list", "decode-v4"),
    "verify": ("verify", "decode-triton-one", "--gpu", "cpu", "--shape", "B=1"),
    "interpreted": ("verify", "decode-v4", "--gpu", "cpu", "--shape", "B=1"),
    "run": ("run", "--kernel", "decode-reference", *CPU, *SHORT, "--shape", "B=1"),
    "inspect": ("inspect", "decode-v4"),
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verb_and_its_workers_import_none(call, tmp_path, verb):
    done = call(*COMMANDS[verb], *(("--out", str(tmp_path / "results")) if verb == "run" else ()))
    assert done.code == 0, done.err
    assert "of the working folder" not in done.out + done.err


@pytest.mark.parametrize("verb", ["list", "verify"])
def test_nor_does_python_dash_m(shadowed, call, verb):
    """What Python itself imports before it comes to gdnbench is beyond it."""
    python = [sys.executable]
    loaded = subprocess.check_output([*PYTHON, "-c", "import runpy, sys; print(*sys.modules)"], text=True)
    for name in {each.partition(".")[0] for each in loaded.split()}:
        (shadowed / f"{name}.py").unlink(missing_ok=True)
    assert {"dataclasses", "inspect", "json", "torch", "typing"} <= {path.stem for path in shadowed.iterdir()}
    done = call(*COMMANDS[verb], python=python)
    assert done.code == 0, done.err


def test_a_command_that_another_starts_imports_none(shadowed):
    done = run_tool(
        child_command(["list", "decode-v4"]), limit_s=60, environment={"PYTHONPATH": python_path(REPOSITORY)}
    )
    assert done.returncode == 0, done.errors


def test_another_program_keeps_its_working_folder(tmp_path):
    """`python -m` of a program that imports gdnbench finds its own modules."""
    (tmp_path / "program.py").write_text("import gdnbench, beside\nprint(gdnbench.CudaKernel.__name__, beside.x)\n")
    (tmp_path / "beside.py").write_text("x = 7\n")
    done = subprocess.run(
        [sys.executable, "-m", "program"],
        cwd=tmp_path,
        env={"PYTHONPATH": python_path(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "CudaKernel 7\n"
