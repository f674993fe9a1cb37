"""Sources that are no files, or never end: listed as broken by their name, opened by nothing."""

import os
from pathlib import PurePath

import pytest
from refused_launches import CUDA, NUMERICS, OP, TRITON

from gdnbench.codegen.cache import cache_folder, load_build

KINDS = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "sparse": lambda path: (path.touch(), os.truncate(path, 1 << 30)),
}
VERBS = {"lint": ("lint",), "run": ("run", "--gpu", "cpu", "--dry-run")}
CALLS = "grid=lambda workload, p: (workload.M,)"
CUDA_CALLS = f"{CALLS}, block=lambda workload, p: 128"
FILES = {
    "twice/cuda": {"variant.py": f'CudaKernel(name="twice-cuda", entry="twice", {CUDA_CALLS})', "kernel.cu": CUDA},
    "twice/headed": {
        "variant.py": f'CudaKernel(name="twice-headed", entry="twice", {CUDA_CALLS})',
        "kernel.cu": '#include "below/head.cuh"\n',
        "below/head.cuh": CUDA,
    },
    "twice/triton": {"variant.py": f'TritonKernel(name="twice-triton", entry="twice", {CALLS})', "kernel.py": TRITON},
    "twice/torch": {"variant.py": 'TorchKernel(name="twice-torch")', "kernel.py": ""},
    "twice/picked": {"variant.py": 'DispatchKernel(name="twice-picked", source="table.toml")', "table.toml": ""},
    "numbers": {"op.py": OP.replace("twice", "numbers"), "numerics.py": NUMERICS},
    "heads": {"op.py": OP.replace("twice", "heads"), "numerics.py": NUMERICS, "heads.cuh": CUDA},
}
"""Of each folder of a kernel or an op: its files, of which each in turn is none."""
FAULTS = [(folder, name) for folder, files in FILES.items() for name in files]


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A folder with one kernel, or one op, for each file that is none."""
    root = tmp_path_factory.mktemp(request.param)
    for name, content in (("op.py", OP), ("numerics.py", NUMERICS)):
        (root / "twice").mkdir(exist_ok=True)
        (root / "twice" / name).write_text(content)
    for number, (folder, strange) in enumerate(FAULTS):
        for name, content in FILES[folder].items():
            path = root / f"{folder}{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == strange:
                KINDS[request.param](path)
            elif name == "variant.py":
                path.write_text(f"from gdnbench import *\nkernel = {content}\n".replace('",', f'{number}",', 1))
            else:
                path.write_text(content)
    (root / "twice" / "good").mkdir()
    (root / "twice" / "good" / "variant.py").write_text(
        'from gdnbench import TorchKernel\nkernel = TorchKernel(name="twice-good")\n'
    )
    (root / "twice" / "good" / "kernel.py").write_text("")
    return root


@pytest.fixture
def _kernels(made, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(made))


@pytest.mark.usefixtures("_kernels")
def test_a_source_that_is_no_file_breaks_its_folder_by_its_name(command_line):
    code, out, _ = command_line("list", columns="500")
    assert code == 0
    assert "twice-good" in out
    for number, (folder, name) in enumerate(FAULTS):
        assert f"broken  {folder}{number}: {PurePath(name).name} cannot be read: " in out


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("verb", VERBS)
def test_verbs_pass_over_it_and_tell_who_names_it(command_line, verb):
    code, _, err = command_line(*VERBS[verb], "twice-good")
    assert code == 0, err
    for number, (folder, name) in enumerate(FAULTS):
        if folder.startswith("twice/"):
            code, out, err = command_line(*VERBS[verb], f"twice-{PurePath(folder).name}{number}", columns="500")
            assert (code, out) == (6, "")
            assert f"{PurePath(name).name} cannot be read: " in err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["key.json", "mine.cubin"])
def test_a_kept_build_that_is_no_file_is_none(monkeypatch, tmp_path, kind, file):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    cache_folder().mkdir()
    if file != "key.json":
        (cache_folder() / "key.json").write_text('{"cubin": "mine.cubin", "digest": "0"}')
    KINDS[kind](cache_folder() / file)
    assert load_build("key") is None
