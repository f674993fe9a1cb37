"""Workers of a few lines of Python, what a command printed, and whether a process is alive."""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass
from pathlib import Path


def flat(text: str) -> str:
    """The text in one line, however it was wrapped."""
    return " ".join(text.split())


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended, and that nobody has waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until_gone(pid: int, limit_s: float = 20.0) -> bool:
    """Whether it has ended in time."""
    deadline = time.monotonic() + limit_s
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


@dataclass(frozen=True)
class Told:
    """What a worker sends."""

    number: int
    text: str = ""


_BEGIN = """
    import os, signal, subprocess, sys, time
    from dataclasses import dataclass
    from gdnbench.process.channel import Channel
    from gdnbench.process.worker import die_with_parent, take_requests
    @dataclass
    class Told:
        number: int
        text: str = ""
    channel = Channel(int(sys.argv[-1]))
    def tell(*values):
        channel.send(Told(*values))
"""


def write_worker(path: Path, script: str) -> None:
    """Writes a module in which `tell` sends a message."""
    path.write_text(textwrap.dedent(_BEGIN) + textwrap.dedent(script))
