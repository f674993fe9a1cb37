"""The build cache keeps within its limit, and what was used last stays."""

import os
import time
from pathlib import Path

import pytest

from gdnbench.codegen import cubin
from gdnbench.codegen.cache import cache_limit, cache_use, clean, evict, load_build, store_build, store_cubin
from gdnbench.errors import UsageError
from gdnbench.model.gpu import Build

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
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "120K")
    assert evict() > 0
    left = there(keys)
    assert left == keys[: len(left)]
    assert 0 < len(left) < 6
    assert cache_use().total_bytes <= 120 << 10


def test_within_the_limit_nothing_goes():
    keep("one", 400)
    assert evict() == 0
    assert there(["one"])


def test_a_cubin_that_another_build_names_stays(monkeypatch):
    keep("old", 9, b"same" * 5000)
    keep("new", 1, b"same" * 5000)
    keep("other", 5)
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "30K")
    evict()
    assert there(["old", "new", "other"]) == ["new"]


def test_a_cubin_whose_build_is_still_to_be_written_stays(monkeypatch, folder):
    keep("old", 9)
    fresh = store_cubin(b"fresh" * 9000, "decode-y", "sm_90")
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "1K")
    evict()
    assert fresh.exists()
    assert not there(["old"])


def test_using_a_build_keeps_it(monkeypatch):
    keep("first", 9)
    keep("second", 5)
    assert load_build("first")
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "30K")
    evict()
    assert there(["first", "second"]) == ["first"]


def test_revisions_count_and_go_likewise(monkeypatch, folder):
    revision = folder / "revisions" / "abc"
    revision.mkdir(parents=True)
    (revision / "kernel.cu").write_text("x" * 50_000)
    os.utime(revision, (1, 1))
    keep("one", 1)
    assert (cache_use().revisions, cache_use().builds) == (1, 1)
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "40K")
    evict()
    assert not revision.exists()
    assert there(["one"])


def test_the_sass_of_a_cubin_counts_and_goes_with_it(monkeypatch, folder):
    monkeypatch.setattr(cubin, "run_cuobjdump", lambda *_: "x" * SIZE)
    kept = {}
    for key, days in (("old", 9), ("new", 1)):
        keep(key, days)
        code = load_build(key).cubin
        before = set(folder.rglob("*.sass"))
        cubin.disassemble(Path(code), "k")
        (kept[key],) = set(folder.rglob("*.sass")) - before
        os.utime(kept[key], (time.time() - 86_400,) * 2)
    os.utime(folder / "builds" / "old.json", (time.time() - 86_400 * 9,) * 2)  # using it has noted that
    assert cache_use().build_bytes > 4 * SIZE
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", "64K")
    evict()
    assert [key for key, path in kept.items() if path.exists()] == ["new"]
    clean()
    assert not list(folder.rglob("*.sass"))


def test_cleaning_empties_it_or_takes_what_is_old():
    keep("old", 40)
    keep("new", 1)
    assert clean(30 * 86_400) > SIZE
    assert there(["old", "new"]) == ["new"]
    clean()
    assert cache_use().total_bytes == 0


@pytest.mark.parametrize(
    ("text", "size"), [("500M", 500 << 20), ("2G", 2 << 30), ("1.5k", 1536), ("10", 10), ("2GiB", 2 << 30)]
)
def test_the_limit_is_a_size(monkeypatch, text, size):
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", text)
    assert cache_limit() == size


@pytest.mark.parametrize("text", ["much", "-1G", "nan", "G"])
def test_what_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", text)
    with pytest.raises(UsageError, match="not a size"):
        cache_limit()


def test_the_verb_shows_and_cleans(command_line):
    keep("one", 1)
    code, out, _ = command_line("runs", "cache")
    assert (code, "compiled kernels  1" in out) == (0, True)
    assert command_line("runs", "cache", "clean")[1].startswith("freed ")
    assert not there(["one"])


def test_a_full_cache_of_many_builds_is_evicted_in_one_pass(monkeypatch, folder):
    """What is left after it is the newest, and cubins that several builds name go with the last of them."""
    for number in range(300):
        keep(f"key{number:03}", 300 - number, b"shared" * 100 if number % 2 else None)
    before = cache_use().total_bytes
    monkeypatch.setenv("GDNBENCH_CACHE_LIMIT", f"{before // 2}")
    assert evict() > 0
    left = there([f"key{number:03}" for number in range(300)])
    assert left == [f"key{number:03}" for number in range(300 - len(left), 300)]
    assert cache_use().total_bytes <= before // 2
