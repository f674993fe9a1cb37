"""Room and permission to write results."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gdnbench.doctor.check import Check, Level

LOW_BYTES = 2 * 10**9
NONE_LEFT_BYTES = 200 * 10**6


def check_results(results: Path) -> Check:
    """Whether runs can be written to the folder, or the folder made; tried out, and nothing is left behind."""
    remedy = "choose another folder with --out"
    place = _nearest(results)
    if not place.is_dir():
        return Check("results", Level.FAIL, f"{place} is a file, not a folder", remedy, needed_to_measure=True)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        finding = f"cannot write to {place}: {error.strerror}"
        return Check("results", Level.FAIL, finding, remedy, needed_to_measure=True)
    finding = f"{results} can be {'written to' if place == results else 'made'}"
    return Check("results", Level.OK, finding, needed_to_measure=True)


def check_disk(free_bytes: int) -> Check:
    """Whether the disk has room; a run with all its samples takes some megabytes, a profile some hundred."""
    finding = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes < NONE_LEFT_BYTES:
        return Check("disk", Level.FAIL, finding, "free some, or choose another disk with --out", True)
    if free_bytes < LOW_BYTES:
        return Check("disk", Level.WARN, finding, "profiles are large: free some")
    return Check("disk", Level.OK, finding, needed_to_measure=True)


def free_bytes(results: Path) -> int:
    """Bytes left where the results go."""
    return shutil.disk_usage(_nearest(results)).free


def _nearest(path: Path) -> Path:
    """The path itself, or the nearest of its parents that exists."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())
