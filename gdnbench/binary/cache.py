"""The build cache: cubins and what was read from them, under names that tell their content.

`<key>.json` is a build; it names its cubin, `<kernel>-<arch>-<digest>.cubin`, and is written after it. Every file is
written aside and renamed, so that builders may race: whoever comes last leaves the same content under the same name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.model import Build

CACHE_VARIABLE = "GDNBENCH_CACHE"

_USED_AGAIN_S = 3600.0  # a use is noted once an hour: reading a build need not write


def cache_folder() -> Path:
    """Where builds are kept: `$GDNBENCH_CACHE/builds`, else `builds` in the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).resolve() / "builds"
    from platformdirs import user_cache_path

    return user_cache_path("gdnbench") / "builds"


def has_build(key: str) -> bool:
    """Whether a build is stored under a key, be it intact or not."""
    return (cache_folder() / f"{key}.json").is_file()


def load_build(key: str) -> Build | None:
    """The build stored under a key; None where there is none, or it is damaged and so must be built again.

    A build that is found counts as used now, which keeps it from eviction.
    """
    stored = cache_folder() / f"{key}.json"
    try:
        fields = json.loads(stored.read_text())
        digest = fields.pop("digest")
        build = Build(**fields)
        path = cache_folder() / build.cubin
        intact = _digest(path.read_bytes()) == digest
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if not intact:
        return None
    _mark_used(stored)
    return replace(build, cubin=str(path))


def _mark_used(stored: Path) -> None:
    with contextlib.suppress(OSError):  # a cache that cannot be written is as good for reading
        if time.time() - stored.stat().st_mtime > _USED_AGAIN_S:
            os.utime(stored)


def store_cubin(cubin: bytes, kernel: str, arch: str) -> Path:
    """Stores a cubin under a name that a person can read.

    Raises:
        MachineError: if the cache cannot be written.
    """
    safe = re.sub(r"[^\w.-]", "_", kernel)
    return _write(f"{safe}-{arch}-{_digest(cubin)}.cubin", cubin)


def store_build(key: str, build: Build) -> None:
    """Stores a build whose cubin is already stored.

    Raises:
        MachineError: if the cache cannot be written.
    """
    cubin = Path(build.cubin)
    fields = asdict(build) | {"cubin": cubin.name, "digest": _digest(cubin.read_bytes())}
    _write(f"{key}.json", json.dumps(fields, indent=1).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _write(name: str, content: bytes) -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(content)
        return Path(file.name).rename(folder / name)
    except OSError as error:
        hint = f"set {CACHE_VARIABLE} to a folder that can be written"
        raise MachineError(f"cannot write to the build cache {folder}: {error.strerror}", hint) from error
