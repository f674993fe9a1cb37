import json
import sys

import pytest

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import MachineError, ProfilerError
from gdnbench.model.gpu import Gpu
from gdnbench.profile.ncu.command import find_nsys, record_timeline
from gdnbench.profile.process import Instrumentation, choose_case, make_assignment

H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-8ffb366f", capability=(9, 0))

# What nsys does that matters here: it writes the report it is asked for, with the worker's command line in it.
FAKE = """#!{python}
import json, sys
from pathlib import Path
output = next(word.partition("=")[2] for word in sys.argv if word.startswith("--output="))
if {writes}:
    Path(output).write_text(json.dumps(sys.argv[1:]))
print("The target application exited")
sys.exit({code})
"""


@pytest.fixture
def assignment():
    catalog = load_catalog()
    case = choose_case(catalog, "decode", "decode-triton:BV=16", axes="B=8")
    return make_assignment(catalog, case, Instrumentation.LAUNCH, seed=1, launches=100)


def fake_nsys(folder, *, writes=True, code=0):
    path = folder / "nsys"
    path.write_text(FAKE.format(python=sys.executable, writes=writes, code=code))
    path.chmod(0o755)
    return path


def test_the_report_lies_under_the_kernels_name(tmp_path, assignment):
    report = record_timeline(assignment, H200, fake_nsys(tmp_path), tmp_path / "profiles", limit_s=30)
    assert report.parent == tmp_path / "profiles" / "nsys" / "decode-triton_BV=16"
    assert report.name.endswith("-h200-B8-qk4_v8.nsys-rep")
    words = json.loads(report.read_text())
    assert words[0] == "profile"
    assert "--trace=cuda,nvtx" in words
    assert words[-5:-1] == [sys.executable, "-P", "-m", "gdnbench.profile.worker"]  # Python itself, and no launcher


@pytest.mark.parametrize(("writes", "code"), [(True, 1), (False, 0)])
def test_a_failure_is_said_in_nsyss_own_words(tmp_path, assignment, writes, code):
    with pytest.raises(ProfilerError, match="The target application exited"):
        record_timeline(
            assignment, H200, fake_nsys(tmp_path, writes=writes, code=code), tmp_path / "profiles", limit_s=30
        )


def test_an_absent_nsys_is_the_machines_lack(tmp_path, assignment):
    with pytest.raises(MachineError, match="not installed") as caught:
        record_timeline(assignment, H200, None, tmp_path, limit_s=30)
    assert "gdnbench ncu" in caught.value.hint


def test_what_hangs_is_taken_down(tmp_path, assignment):
    path = tmp_path / "nsys"
    path.write_text("#!/bin/sh\nsleep 60\n")
    path.chmod(0o755)
    with pytest.raises(ProfilerError, match="did not end within 1 s"):
        record_timeline(assignment, H200, path, tmp_path / "profiles", limit_s=1)


def test_the_newest_nsys_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert find_nsys(tmp_path) is None
    for version in ("2025.3.1", "2025.10.1", "2024.6.2"):
        folder = tmp_path / "opt" / "nvidia" / "nsight-systems" / version / "bin"
        folder.mkdir(parents=True)
        (folder / "nsys").touch()
    assert find_nsys(tmp_path).parent.parent.name == "2025.10.1"


def test_a_machine_without_a_gpu_says_so(command_line, monkeypatch):
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", tuple)
    code, out, err = command_line("ncu", "decode-v4", "--timeline")
    assert code == 5
    assert out == ""
    assert "needs a GPU" in err
