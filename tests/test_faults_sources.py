"""Builds in the cache that are no files, or never end, are none."""

import os

import pytest

from gdnbench.codegen.cache import cache_folder, load_build

KINDS = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "sparse": lambda path: (path.touch(), os.truncate(path, 1 << 30)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["key.json", "mine.cubin"])
def test_a_kept_build_that_is_no_file_is_none(monkeypatch, tmp_path, kind, file):
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path))
    cache_folder().mkdir()
    if file != "key.json":
        (cache_folder() / "key.json").write_text('{"cubin": "mine.cubin", "digest": "0"}')
    KINDS[kind](cache_folder() / file)
    assert load_build("key") is None
