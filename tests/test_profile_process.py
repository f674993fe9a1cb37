"""A process under a profiler: how it ends is told, and nothing of it stays."""

import os
import sys
import time

import pytest
from decode_workloads import decode_at

from gdnbench.errors import ProfilerError
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import Gpu
from gdnbench.profile.process import Instrumentation, ProfileTask, run_command, run_worker

GPU = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))
ASSIGNMENT = ProfileTask(
    Instrumentation.LAUNCH,
    ("/kernels",),
    "decode",
    Case(Variant("k", "k:A=1", params=Params({"A": 1})), decode_at(B=8)),
    7,
    3,
)


def _python(code, limit_s=30):
    return run_command([sys.executable, "-c", code], limit_s=limit_s)


def test_what_never_ends_is_taken_down_with_its_children(tmp_path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    with pytest.raises(ProfilerError, match="did not end within 2 s") as caught:
        _python(parent, limit_s=2)
    assert "--limit" in caught.value.hint
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_what_is_not_there():
    with pytest.raises(ProfilerError, match="/nowhere/ncu does not start"):
        run_command(["/nowhere/ncu"], limit_s=5)


def test_a_wrapper_gets_the_workers_command_and_one_gpu(tmp_path):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(
        '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $MORE $1"\nshift\necho "$@"\nfor last; do :; done\ncat $last\n'
    )
    wrapper.chmod(0o755)
    ended = run_worker(ASSIGNMENT, GPU, limit_s=30, wrapper=(str(wrapper), "--flag"), environment={"MORE": "more"})
    head, command, *document = ended.output.splitlines()
    assert head == "GPU-0000 more --flag"
    assert command.startswith(f"{sys.executable} -P -m gdnbench.profile.worker ")
    path = tmp_path / "assignment.json"
    path.write_text("\n".join(document))
    assert ProfileTask.read(path) == ASSIGNMENT
