import sys
from types import SimpleNamespace

import pytest

from gdnbench.doctor import loading
from gdnbench.doctor.loading import LIBRARIES, LibraryLoaded, LoadResult, TorchGpu, load_libraries
from gdnbench.process.channel import encode

LIBCUDA = encode(LibraryLoaded("libcuda", LoadResult()))
TORCH = LoadResult("", "2.13.0", "13.0", (TorchGpu("NVIDIA H200", "GPU-1", 62914560),), "cannot compute")


def with_loader(monkeypatch, tmp_path, script):
    """Stands in for the worker's module with a script that begins by telling that libcuda has loaded."""
    modules = tmp_path / "modules"
    modules.mkdir()
    begin = """
import os, sys
from gdnbench.doctor.loading import LibraryLoaded
from gdnbench.process.channel import Channel, decode
channel = Channel(int(sys.argv[-1]))
def tell(line): channel.send(decode(line, [LibraryLoaded]))
"""
    (modules / "fake_loader.py").write_text(f"{begin}tell({LIBCUDA!r})\n{script}")
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(loading, "LOADER", "fake_loader")


def test_what_libraries_print_is_no_message(monkeypatch, tmp_path):
    torch = encode(LibraryLoaded("torch", TORCH))
    with_loader(monkeypatch, tmp_path, f"print('a banner')\nprint({torch!r}, file=sys.stderr)\ntell({torch!r})")
    loaded = load_libraries(None)
    assert (loaded["libcuda"], loaded["torch"]) == (LoadResult(), TORCH)
    assert "ended the process (exit code 0)" in loaded["triton"].problem


def test_a_crash_loses_only_what_follows(monkeypatch, tmp_path):
    with_loader(monkeypatch, tmp_path, "os.kill(os.getpid(), 11)")
    loaded = load_libraries(None)
    assert loaded["libcuda"] == LoadResult()
    assert "ended the process (SIGSEGV)" in loaded["torch"].problem
    assert set(loaded) == set(LIBRARIES)


def test_a_hang_is_cut_short(monkeypatch, tmp_path):
    with_loader(monkeypatch, tmp_path, "import time\ntime.sleep(60)")
    loaded = load_libraries(None, limit_s=1)
    assert loaded["libcuda"] == LoadResult()
    assert "did not load in 1 s" in loaded["torch"].problem


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
    loading.use_gpu("GPU-bb")
    assert torch.used == [used]


def test_does_not_try_out_another(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch("aa", "cc"))
    with pytest.raises(RuntimeError, match="not this one"):
        loading.use_gpu("GPU-bb")
