"""A target that has a GPU, which is this machine's."""

import json

import pytest
from remote_data import WORKDIR, Laptop

from gdnbench.machine.gpus import list_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


@pytest.fixture
def laptop(tmp_path):
    (tmp_path / "project").mkdir()
    laptop = Laptop(tmp_path / "project", tmp_path / WORKDIR)
    table = '[targets.{}]\nkind = "local"\ngpus = ["{}"]\nworkdir = "{}"\n'
    slug = list_gpus()[0].slug
    laptop.configure(table.format("here", slug, laptop.workdir) + table.format("other", "rtx9999", laptop.workdir))
    return laptop


def test_a_run_on_a_gpu_elsewhere_is_as_one_here(laptop):
    words = ("run", "decode-v4,decode-floor-empty", "--baseline", "decode-v4", "--shape", "B=1", "--quick", "--json")
    done = laptop(*words, "--on", "here")
    assert done.code in {0, 4}, done.err
    [run] = laptop.runs
    info = json.loads((run / "run.json").read_text())
    assert info["complete"]
    assert info["gpu"] == list_gpus()[0].slug
    assert info["machine"]["target"] == "here"
    assert info["machine"]["gpu"]["driver"]
    assert done.rows["decode-v4"]["status"] == "ok"
    assert laptop.jobs == []


def test_a_profile_comes_home(laptop):
    done = laptop("proton", "decode-v4", "--on", "here", "--launches", "20")
    assert done.code == 0, done.err
    assert len(list((laptop.home / "profiles" / "phases").rglob("*.npz"))) == 1


def test_a_gpu_of_another_model_is_refused(laptop):
    done = laptop("run", "decode-v4", "--quick", "--on", "other")
    assert (done.code, done.out) == (5, "")
    assert "other is to have a GPU of model rtx9999" in done.err
    assert laptop.runs == []


def test_a_check_finds_the_gpu(laptop):
    done = laptop("doctor", "--on", "here", "--json")
    levels = [check["level"] for check in json.loads(done.out) if check["name"].startswith("GPU")]
    assert levels
    assert "fail" not in levels, done.out
