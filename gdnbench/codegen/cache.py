"""The build cache: cubins and what was read from them, named after a hash of their content, within a size limit.

`<key>.json` is a build; it names its cubin, `<kernel>-<arch>-<digest>.cubin`, and is written after it. Every file is
written aside and renamed, so that builders may race: the last one leaves the same content under the same name. A
cubin's SASS, once used, lies beside it as `<kernel>-<arch>-<digest>.<digest of the symbol>.sass`.

The least recently used files are evicted first: a build whose cubin is gone is built anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gdnbench.model.gpu import Build
from gdnbench.origin import cache_root, writing_cache

_USED_AGAIN_S = 3600.0  # a use is recorded once an hour, so that most reads write nothing
LIMIT_BYTES = 1 << 30
"""A gibibyte: 50,000 builds of 20 KB."""

_LEFT_AFTER_EVICTION = 0.8  # of the limit, so that not every build evicts


def cache_folder() -> Path:
    """Returns the folder of builds: `$GDNBENCH_CACHE/builds`, else `builds` in the user's cache folder."""
    return cache_root() / "builds"


def byte_code_folder() -> Path:
    """Returns where workers keep Python's byte code if it may not lie beside the sources; outside the size limit."""
    return cache_root() / "bytecode"


def has_build(key: str) -> bool:
    """Returns whether a build, intact or not, is stored under a key."""
    return (cache_folder() / f"{key}.json").is_file()


def load_build(key: str) -> Build | None:
    """Returns the build of a key, which then counts as used now, or None if it is absent or damaged."""
    stored = cache_folder() / f"{key}.json"
    try:
        fields = json.loads(stored.read_bytes())
        digest = fields.pop("digest")
        build = Build(**fields)
        path = cache_folder() / build.cubin
        intact = _digest(path.read_bytes()) == digest
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if not intact:
        return None
    with contextlib.suppress(OSError):  # a read-only cache can still be read
        if time.time() - stored.stat().st_mtime > _USED_AGAIN_S:
            os.utime(stored)
            os.utime(path)
    return replace(build, cubin=str(path))


def store_cubin(cubin: bytes, kernel: str, arch: str) -> Path:
    """Stores a cubin under a readable name; raises MachineError if the cache cannot be written."""
    safe = re.sub(r"[^\w.-]", "_", kernel)
    return _write(f"{safe}-{arch}-{_digest(cubin)}.cubin", cubin)


def store_build(key: str, build: Build) -> None:
    """Stores a build whose cubin is already stored; raises MachineError if the cache cannot be written."""
    cubin = Path(build.cubin)
    fields = asdict(build) | {"cubin": cubin.name, "digest": _digest(cubin.read_bytes())}
    _write(f"{key}.json", json.dumps(fields, indent=1).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _write(name: str, content: bytes) -> Path:
    folder = cache_folder()
    with writing_cache(f"to the build cache {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(content)
        return Path(file.name).rename(folder / name)


@dataclass(frozen=True)
class _Item:
    path: Path
    used_s: float
    size_bytes: int


def evict() -> int:
    """Brings the cache within its limit, what was not used for longest first; returns the bytes freed."""
    items = [*_items(cache_folder()), *_items(cache_folder().parent / "revisions")]
    total = left = sum(item.size_bytes for item in items)
    if total > LIMIT_BYTES:
        for item in sorted(items, key=lambda item: item.used_s):
            if left <= _LEFT_AFTER_EVICTION * LIMIT_BYTES:
                break
            _remove(item.path)
            left -= item.size_bytes
    return total - left


def _items(folder: Path) -> list[_Item]:
    """Returns what another process may be removing meanwhile; a folder has the bytes of all files in it."""
    found = []
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            files = path.rglob("*") if path.is_dir() else [path]
            found.append(_Item(path, path.stat().st_mtime, sum(each.lstat().st_size for each in files)))
    return found


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
