"""Commands in a sandbox of Modal's, by a stand-in for its client that runs programs here."""

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest
from faults import ADVERSARIAL, FORKING, REPOSITORY, answer, python_path, wait_for
from remote_data import SHORT, WORKDIR, Laptop, has_measured, is_alone

from gdnbench.remote.host import ModalHost, Requirements
from gdnbench.remote.targets import ModalTarget

pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).with_name("modal_stand_in")
TOYS = {"GDNBENCH_KERNELS": str(REPOSITORY / "tests" / "toys")}


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The folder in which the stand-in keeps its sandboxes."""
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.delitem(sys.modules, "modal", raising=False)
    monkeypatch.setenv("PYTHONPATH", python_path(STAND_IN))
    monkeypatch.setenv("MODAL_STAND_IN", str(tmp_path / "service"))
    (tmp_path / "service").mkdir()
    yield tmp_path / "service"
    sys.modules.pop("modal", None)


@pytest.fixture
def laptop(service, tmp_path):
    (tmp_path / "project").mkdir()
    python_paths = python_path(ADVERSARIAL, *FORKING)
    environment = {name: os.environ[name] for name in ("PYTHONPATH", "MODAL_STAND_IN")}
    laptop = Laptop(tmp_path / "project", tmp_path / WORKDIR, environment)
    laptop.configure(
        f'[targets.cloud]\nkind = "modal"\ngpu = "H100"\nworkdir = "{laptop.workdir}"\ntimeout_s = 600\n'
        f'environment = {{ PYTHONPATH = "{python_paths}" }}\n'
    )
    return laptop


def sandboxes(service):
    """How each sandbox was made, all of them terminated."""
    folders = list(service.glob("sb-*"))
    assert all((folder / "terminated").exists() for folder in folders)
    return [json.loads((folder / "made").read_text()) for folder in folders]


def test_a_run_in_a_sandbox_is_as_one_here_and_the_sandbox_is_terminated(laptop, service):
    done = laptop("run", "gemm-torch", *SHORT[:8], "--on", "cloud", "--json", **TOYS)
    assert done.code == 0, done.err
    assert [run.name for run in laptop.runs] == [done.info["run_id"]]
    info = json.loads((laptop.runs[0] / "run.json").read_text())
    assert info["complete"]
    assert info["machine"]["target"] == "cloud"
    assert "measuring" in done.err
    assert laptop.jobs == []
    [made] = sandboxes(service)
    assert made["app"] == "gdnbench True"
    assert (made["gpu"], made["timeout"], made["idle_timeout"]) == ("H100!", 600, 300)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    (begun, pins, installed) = made["image"]
    assert begun == ["debian_slim", {"python_version": own}]
    assert "torch==" in pins[1]
    assert pins[3] == {"copy": True}
    assert {"torch>=2.8", "nvidia-cuda-nvrtc>=13"} <= set(installed[1])
    assert installed[2] == {"extra_options": f"--constraint {pins[2]}"}


def test_ctrl_c_brings_home_what_is_finished_and_terminates_the_sandbox(laptop, service):
    process = laptop.start_slow("cloud")
    wait_for(has_measured(laptop, 2, process), "the second round")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert stopped.code == 130, stopped.err
    assert not stopped.info["complete"]
    assert len(laptop.runs) == 1
    assert len(sandboxes(service)) == 1
    assert is_alone(laptop)


def test_of_a_sandbox_that_ends_nothing_is_kept_and_the_message_says_so(laptop, service):
    process = laptop.start_slow("cloud")
    wait_for(has_measured(laptop, 2, process), "the second round")
    [sandbox] = service.glob("sb-*")
    os.killpg(int((sandbox / "pids").read_text().split()[-1]), signal.SIGKILL)
    cut = laptop.finish(process)
    assert (cut.code, cut.out) == (5, "")
    assert "the connection to Modal was cut" in cut.err
    assert "run it again: cloud keeps nothing" in cut.err
    assert "--resume" not in cut.err
    assert len(sandboxes(service)) == 1


def test_a_sandbox_that_is_not_given_is_told_with_what_to_try(laptop, service):
    (service / "refuse").touch()
    done = laptop("doctor", "--on", "cloud")
    assert (done.code, done.out) == (5, "")
    assert "Modal gives no sandbox with a GPU H100: no token" in done.err
    assert "second line" not in done.err
    assert "modal setup" in done.err


def test_without_modals_client_one_line_says_what_to_install(laptop, monkeypatch):
    monkeypatch.setattr("gdnbench.remote.host.find_spec", lambda _name: None)
    done = laptop("run", "--kernel", "all", "--on", "cloud")
    assert (done.code, done.out) == (5, "")
    assert "pip install 'gdnbench[modal]'" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("packages", "steps"),
    [
        (Requirements(), [["from_registry", "r.example/a:1", {}]]),
        (
            Requirements(("torch",)),
            [
                ["from_registry", "r.example/a:1", {"add_python": f"3.{sys.version_info.minor}"}],
                ["pip_install", ["torch"], {}],
            ],
        ),
    ],
)
def test_an_image_of_ones_own_has_its_own_interpreter_or_gets_one(service, packages, steps):
    with closing(ModalHost(ModalTarget(gpu="B200", image="r.example/a:1"), packages)) as host:
        assert host.connect(["sh", "-c", "echo here; echo there >&2"]).output == "here\n"
    [made] = sandboxes(service)
    assert made["image"] == steps
    assert made["gpu"] == "B200"


def test_a_sandbox_is_terminated_after_any_error_and_one_that_is_not_is_told(service, capsys):
    target = ModalTarget(gpu="B200")
    with pytest.raises(ZeroDivisionError), closing(ModalHost(target, Requirements())) as host:
        host.connect(["true"])
        raise ZeroDivisionError
    assert len(sandboxes(service)) == 1
    assert capsys.readouterr().err == ""
    with closing(ModalHost(target, Requirements())) as host:
        host.connect(["true"])
        (service / "keep").touch()
    assert "could not be terminated: no network" in capsys.readouterr().err


@pytest.mark.parametrize("gpu", ["A100", "B200+", "H100:2", "b200", "A100-40GB,T4", "any gpu", ""])
def test_a_gpu_that_may_be_one_of_several_is_none(tmp_path, gpu):
    (tmp_path / "gdnbench.toml").write_text(f'[targets.cloud]\nkind = "modal"\ngpu = "{gpu}"\n')
    done = answer("targets", folder=tmp_path)
    assert done.code == 2
    assert "targets.cloud: gpu" in done.err


@pytest.mark.parametrize(("gpu", "model"), [("A100-80GB", "a100"), ("H100!", "h100"), ("L40S", "l40s")])
def test_the_model_follows_from_modals_name(gpu, model):
    assert ModalTarget(gpu=gpu).gpus == [model]


def test_init_writes_a_target_that_list_shows(tmp_path):
    assert answer("targets", "init", "cloud", "--modal", "--gpu", "b200", folder=tmp_path).code == 0
    (row,) = json.loads(answer("targets", "--json", folder=tmp_path).out)
    assert (row["kind"], row["host"], row["gpus"]) == ("modal", "B200", ["b200"])
    for words in ((), ("--gpu", "b200", "--gpu", "h200"), ("--gpu", "b200", "--ssh", "x"), ("--gpu", "a100")):
        assert answer("targets", "init", "other", "--modal", *words, folder=tmp_path).code == 2
