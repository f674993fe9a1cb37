"""What every test may rely on: no kernels but the bundled ones, no colours, and no GPU tests without a GPU."""

import os
import signal
import sys

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every command that a test starts would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Images of containers often set it, and each process that a test starts would compile all of gdnbench anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GPU_PATIENCE_S = 900  # tests that run side by side take turns on the GPU, as gdnbench itself sees to


def pytest_collection_modifyitems(items):
    # The files that take longest first: one that begins last would keep the other workers waiting.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    has_gpu = bool(marked) and bool(_gpus())
    for item in marked:
        item.add_marker(pytest.mark.timeout(GPU_PATIENCE_S))
        if not has_gpu:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here"))


def _gpus():
    from gdnbench.machine.gpus import list_gpus

    return list_gpus()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch, tmp_path_factory):
    """The developer's settings and calibrations change nothing; the build cache stays shared: compiling is slow."""
    for name in ("GDNBENCH_KERNELS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def command_line(monkeypatch, capsys):
    """Runs `gdnbench ARGUMENTS` in this process; gives exit code, stdout and stderr."""
    from gdnbench.cli.app import main

    def call(*arguments, columns="80"):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr(sys, "argv", ["gdnbench", *map(str, arguments)])
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return int(code), out, err

    return call
