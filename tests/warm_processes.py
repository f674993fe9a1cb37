"""Ends the processes that fork workers and stay up, where a test's own folder has their sockets."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_warm_parents(folder: Path) -> int:
    """Kills those whose socket lies under the folder; gives how many there were."""
    ended = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"gdnbench.process.warm_parent" in words and any(str(folder).encode() in word for word in words):
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended
