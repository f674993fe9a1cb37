"""The build cache: what is kept, what is refused, what happens when builders race, and what goes first."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.codegen import cubin
from gdnbench.codegen.build import Job, build, build_key
from gdnbench.codegen.cache import cache_folder, evict, load_build, store_build, store_cubin
from gdnbench.errors import MachineError
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import UNREAD, Build

V4 = CATALOG.entries["decode-v4"]
TRITON = CATALOG.entries["decode-triton"]
COPY = CATALOG.entries["decode-floor-copy"]


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("compiled")

    monkeypatch.setattr(import_module("gdnbench.codegen.build"), "compile_cuda", refuse)


def _build(arch="sm_90"):
    return build(Job(COPY, COPY.default, decode_at(), arch))


def test_the_second_build_compiles_nothing(request):
    first = _build()
    request.getfixturevalue("no_compiler")
    assert _build() == first
    assert build(Job(COPY, COPY.default, decode_at(B=64), "sm_90")) == first
    with pytest.raises(AssertionError, match="compiled"):
        _build("sm_100")


def test_a_build_whose_code_was_not_read_is_read_without_a_compiler(request):
    unread = build(Job(COPY, COPY.default, decode_at(), "sm_90", disassembled=False))
    assert unread.load_bits == UNREAD
    assert not list(cache_folder().glob("*.sass"))
    request.getfixturevalue("no_compiler")
    assert build(Job(COPY, COPY.default, decode_at(), "sm_90", disassembled=False)) == unread
    read = _build()
    assert read == replace(unread, load_bits=128)
    assert build(Job(COPY, COPY.default, decode_at(), "sm_90", disassembled=False)) == read


def test_a_read_only_cache_keeps_no_build_from_being_read(monkeypatch):
    unread = build(Job(COPY, COPY.default, decode_at(), "sm_90", disassembled=False))

    def refuse(*_):
        raise MachineError("cannot write to the build cache")

    monkeypatch.setattr("gdnbench.codegen.cache.store_build", refuse)
    assert _build() == replace(unread, load_bits=128)
    with pytest.raises(MachineError):
        _build("sm_100")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"digest": "0", "cubin": ""}', b"\xff"])
def test_a_damaged_record_is_built_again(content):
    first = _build()
    [record] = cache_folder().glob("*.json")
    record.write_bytes(content)
    assert _build() == first
    assert json.loads(record.read_text())["registers"] == first.registers


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"\x7fELF")])
def test_a_damaged_cubin_is_built_again(damage):
    first = _build()
    intact = Path(first.cubin).read_bytes()
    damage(Path(first.cubin))
    assert _build() == first
    assert Path(first.cubin).read_bytes() == intact


def test_racing_writers_of_different_code_leave_a_whole_build():
    # Were a compiler not to repeat itself, each record would still name the cubin that it was read from.
    def store(registers):
        cubin = store_cubin(b"code" * registers, "k", "sm_90")
        store_build("key", Build("sm_90", registers, 0, 0, 0, len(cubin.read_bytes()), str(cubin), "k"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store, range(1, 65)))
    found = load_build("key")
    assert Path(found.cubin).read_bytes() == b"code" * found.registers


def test_what_the_key_depends_on(tmp_path, monkeypatch):
    key = build_key(V4, V4.default.params, decode_at(), "sm_90")
    assert key == build_key(V4, V4.default.params, decode_at(B=64), "sm_90")
    assert key != build_key(V4, V4.default.params, decode_at(), "sm_100")
    assert key != build_key(V4, V4.default.params, decode_at(HQ=16, HV=32), "sm_90")
    assert key != build_key(V4, Params({"WARPS": 4}), decode_at(), "sm_90")
    assert key != build_key(COPY, V4.default.params, decode_at(), "sm_90")
    assert key != build_key(V4, V4.default.params, decode_at(), "sm_90", stamped=True)
    elsewhere = replace(V4, folder=tmp_path / "v4")
    elsewhere.folder.mkdir()
    assert key != build_key(elsewhere, V4.default.params, decode_at(), "sm_90")


@pytest.mark.parametrize("stamped", [False, True])
def test_headers_that_gdnbench_brings_are_in_the_key(tmp_path, monkeypatch, stamped):
    header = tmp_path / "gdnbench" / "phases.cuh"
    header.parent.mkdir()
    header.write_text("// one")
    monkeypatch.setattr("gdnbench.codegen.nvrtc.HEADERS", tmp_path)
    key = build_key(V4, V4.default.params, decode_at(), "sm_90", stamped=stamped)
    assert key == build_key(V4, V4.default.params, decode_at(), "sm_90", stamped=stamped)
    header.write_text("// another")
    assert key != build_key(V4, V4.default.params, decode_at(), "sm_90", stamped=stamped)


def test_tritons_switches_are_in_the_key(monkeypatch):
    key = build_key(TRITON, TRITON.default.params, decode_at(), "sm_90")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert key == build_key(TRITON, TRITON.default.params, decode_at(), "sm_90")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    assert key != build_key(TRITON, TRITON.default.params, decode_at(), "sm_90")


SIZE = 20_000


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def keep(key, days, content=None):
    """A build that was used so many days ago."""
    cubin = store_cubin(content or key.encode() * (SIZE // len(key)), "decode-x", "sm_90")
    build = Build("sm_90", 32, 0, 0, 128, SIZE, str(cubin), "x")
    store_build(key, build)
    for path in (cubin, cubin.with_name(f"{key}.json")):
        os.utime(path, (time.time() - 86_400 * days,) * 2)


def there(keys):
    return [key for key in keys if load_build(key)]


def test_what_was_not_used_for_longest_goes_first(monkeypatch):
    keys = [f"key{number}" for number in range(10)]
    for days, key in enumerate(keys):
        keep(key, days + 1)
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 120 << 10)
    assert evict() > 0
    left = there(keys)
    assert left == keys[: len(left)]
    assert 0 < len(left) < 6
    assert sum(path.stat().st_size for path in cache_folder().iterdir()) <= 120 << 10


def test_a_cubin_that_another_build_names_stays(monkeypatch):
    keep("old", 9, b"same" * 5000)
    keep("new", 1, b"same" * 5000)
    keep("other", 5)
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 30 << 10)
    evict()
    assert there(["old", "new", "other"]) == ["new"]


def test_a_cubin_whose_build_is_still_to_be_written_stays(monkeypatch, folder):
    keep("old", 9)
    fresh = store_cubin(b"fresh" * 9000, "decode-y", "sm_90")
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 60 << 10)
    evict()
    assert fresh.exists()
    assert not there(["old"])


def test_using_a_build_keeps_it(monkeypatch):
    keep("first", 9)
    keep("second", 5)
    assert load_build("first")
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 30 << 10)
    evict()
    assert there(["first", "second"]) == ["first"]


def test_revisions_count_and_go_likewise(monkeypatch, folder):
    revision = folder / "revisions" / "abc"
    revision.mkdir(parents=True)
    (revision / "kernel.cu").write_text("x" * 50_000)
    os.utime(revision, (1, 1))
    keep("one", 1)
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 40 << 10)
    evict()
    assert not revision.exists()
    assert there(["one"])


def test_the_sass_of_a_cubin_counts_and_goes_likewise(monkeypatch, folder):
    monkeypatch.setattr(cubin, "run_cuobjdump", lambda *_: "x" * SIZE)
    for key, days in (("old", 9), ("new", 1)):
        keep(key, days)
        before = set(folder.rglob("*.sass"))
        name = json.loads((folder / "builds" / f"{key}.json").read_text())["cubin"]
        cubin.disassemble(folder / "builds" / name, "k")
        (sass,) = set(folder.rglob("*.sass")) - before
        os.utime(sass, (time.time() - 86_400 * days,) * 2)
    assert sum(path.stat().st_size for path in cache_folder().iterdir()) > 4 * SIZE
    monkeypatch.setattr("gdnbench.codegen.cache.LIMIT_BYTES", 64 << 10)
    evict()
    assert there(["old", "new"]) == ["new"]
    assert len(list(folder.rglob("*.sass"))) == 1
