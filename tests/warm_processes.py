"""Ends the processes that fork workers and stay up, where a test's own folder has their sockets."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def warm_parents(folder: Path) -> list[int]:
    """The processes whose socket lies under the folder."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            forks = any(word.endswith((b".warm_parent", b"/suite_parent.py")) for word in words)
            if forks and any(str(folder).encode() in word for word in words):
                found.append(int(process.name))
    return found


def end_warm_parents(folder: Path) -> int:
    """Kills those whose socket lies under the folder, and waits for this process's own; gives how many there were."""
    found = warm_parents(folder)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
    return len(found)
