import os
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from gdnbench.errors import MachineError
from gdnbench.machine.gpus import gpu_lock
from gdnbench.model.gpu import Gpu

H200 = Gpu(0, "NVIDIA H200", "GPU-8ffb366f-1", (9, 0))
OTHER_H200 = Gpu(1, "NVIDIA H200", "GPU-8ffb366f-2", (9, 0))
HOLD = """
import sys
from gdnbench.machine.gpus import gpu_lock
from gdnbench.model.gpu import Gpu
with gpu_lock(Gpu(0, "NVIDIA H200", "GPU-8ffb366f-1", (9, 0)), lambda: print("waiting", flush=True)):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def never():
    raise AssertionError("had to wait")


def test_free_again_after_use_and_after_an_error():
    with pytest.raises(ZeroDivisionError), gpu_lock(H200, never):
        raise ZeroDivisionError
    with gpu_lock(H200, never):
        pass


def test_another_gpu_and_the_cpu_are_free(holder):
    assert holder.stdout.readline() == "held\n"
    with gpu_lock(OTHER_H200, never), gpu_lock(None, never):
        pass


def test_waits_once_for_another_process(holder):
    assert holder.stdout.readline() == "held\n"
    waits = []

    def let_go():
        waits.append(1)
        holder.stdin.close()

    with gpu_lock(H200, let_go):
        assert holder.wait(10) == 0
    assert waits == [1]


def test_released_when_the_holder_is_killed(holder):
    assert holder.stdout.readline() == "held\n"
    with gpu_lock(H200, lambda: os.kill(holder.pid, signal.SIGKILL)):
        pass


def test_every_user_can_open_the_file(own_folder):
    before = os.umask(0o077)
    try:
        with gpu_lock(H200, never):
            pass
    finally:
        os.umask(before)
    (file,) = own_folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o666


def test_follows_no_link(own_folder):
    target = own_folder / "target"
    (own_folder / "gdnbench-cpu.lock").symlink_to(target)
    with pytest.raises(MachineError, match="cannot be opened"), gpu_lock(None, never):
        pass
    assert not target.exists()
