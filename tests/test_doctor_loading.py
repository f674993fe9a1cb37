import sys
from types import SimpleNamespace

import pytest

from gdnbench.doctor import loader, loading
from gdnbench.doctor.loading import LIBRARIES, Loaded, TorchGpu, load_libraries, parse_loader_output


def with_loader(monkeypatch, tmp_path, script):
    loader = tmp_path / "loader.py"
    loader.write_text(script)
    monkeypatch.setattr(loading, "_LOADER", loader)


def test_reads_lines_among_noise():
    output = (
        "a banner\n"
        '{"library": "libcuda", "problem": ""}\n'
        '{"not": "ours"}\n'
        '{"library": "torch", "problem": "", "version": "2.13.0", "cuda": "13.0", "gpu_problem": "", '
        '"gpus": [{"name": "NVIDIA H200", "uuid": "GPU-1", "l2_bytes": 62914560}]}\n'
    )
    assert parse_loader_output(output) == {
        "libcuda": Loaded(),
        "torch": Loaded(version="2.13.0", cuda="13.0", gpus=(TorchGpu("NVIDIA H200", "GPU-1", 62914560),)),
    }


def test_a_crash_loses_only_what_follows(monkeypatch, tmp_path):
    with_loader(
        monkeypatch,
        tmp_path,
        'import os\nprint(\'{"library": "libcuda", "problem": ""}\', flush=True)\nos.kill(os.getpid(), 11)',
    )
    loaded = load_libraries(None)
    assert loaded["libcuda"] == Loaded()
    assert "ended the process (-11)" in loaded["torch"].problem
    assert set(loaded) == set(LIBRARIES)


def test_a_hang_is_cut_short(monkeypatch, tmp_path):
    with_loader(
        monkeypatch,
        tmp_path,
        'import time\nprint(\'{"library": "libcuda", "problem": ""}\', flush=True)\ntime.sleep(60)',
    )
    loaded = load_libraries(None, limit_s=1)
    assert loaded["libcuda"] == Loaded()
    assert "did not load in 1 s" in loaded["torch"].problem


def test_a_folders_own_modules_do_not_stand_in(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    with_loader(monkeypatch, tmp_path, 'import json\nprint(json.dumps({"library": "torch", "problem": ""}))')
    assert load_libraries(None)["torch"] == Loaded()


def test_loads_for_real():
    loaded = load_libraries(None)
    assert loaded["torch"].problem == ""
    assert loaded["torch"].version
    assert loaded["nvrtc"].problem == ""


class FakeTorch:
    """As much of torch as trying out a GPU takes; remembers where it computed."""

    def __init__(self, *uuids):
        self.uuids, self.used = uuids, []
        self.cuda = self

    def init(self):
        pass

    def device_count(self):
        return len(self.uuids)

    def get_device_properties(self, index):
        return SimpleNamespace(name="NVIDIA H200", uuid=self.uuids[index], L2_cache_size=62914560)

    def ones(self, size, device):
        self.used.append(device)
        return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 32.0))


@pytest.mark.parametrize(
    ("uuids", "used"), [(("aa", "bb"), "cuda:1"), (("GPU-bb",), "cuda:0"), (("a-slice",), "cuda:0")]
)
def test_tries_out_the_gpu_asked_for(monkeypatch, uuids, used):
    torch = FakeTorch(*uuids)
    monkeypatch.setitem(sys.modules, "torch", torch)
    loader.use_gpu("GPU-bb")
    assert torch.used == [used]


def test_does_not_try_out_another(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch("aa", "cc"))
    with pytest.raises(RuntimeError, match="not this one"):
        loader.use_gpu("GPU-bb")
