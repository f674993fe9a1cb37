"""The child that tries declarations: `python -P -m gdnbench.catalog.trial_child LIMIT_S FD`, a worker.

It is sent them one by one, a line of JSON each, and says of each what is wrong with it. Where one does not come to its
end within the limit, or crashes, its log has the line.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import resource
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from gdnbench.catalog.declaration import place_of, run_declaration
from gdnbench.process.channel import Channel
from gdnbench.process.worker import die_with_parent, take_requests

_TOLD_AT = 0.9
"""Of the limit, when the child writes down where it is."""

_MEMORY_BYTES = 4 << 30
"""A declaration imports nothing heavy; what fills the memory would take the machine with it."""


@dataclass(frozen=True)
class Answer:
    """The child is ready for the next declaration.

    Attributes:
        problem: why the last may not be run in a process that is to go on; empty where it may, though it raises an
            error, and before the first.
    """

    problem: str = ""


ANSWERS = (Answer,)


@dataclass(frozen=True)
class Request:
    """A declaration to try."""

    path: str
    content: bytes

    @property
    def encoded(self) -> str:
        """As a line of JSON."""
        return json.dumps([self.path, base64.b64encode(self.content).decode()])

    @classmethod
    def decoded(cls, line: str) -> Request:
        """The inverse."""
        path, content = json.loads(line)
        return cls(path, base64.b64decode(content))


def main(arguments: list[str]) -> None:
    """Tries what it is sent, until there is no more."""
    die_with_parent()
    limit_s, descriptor = arguments
    requests, channel = take_requests(), Channel[Answer](int(descriptor))
    log = _take_log()
    faulthandler.enable(log)
    _limit(resource.RLIMIT_DATA, _MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    forks = Forks()
    channel.send(Answer())
    for line in requests:
        faulthandler.dump_traceback_later(_TOLD_AT * float(limit_s), file=log)
        request = Request.decoded(line)
        problem = find_problem(Path(request.path), request.content, forks)
        faulthandler.cancel_dump_traceback_later()
        channel.send(Answer(problem))


def _limit(what: int, most: int) -> None:
    allowed = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if allowed == resource.RLIM_INFINITY else min(most, allowed), allowed))


def _take_log() -> TextIO:
    """Standard error, moved to where nothing but a fault is told; what declarations print goes nowhere."""
    log = os.fdopen(os.dup(2), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return log


class Forks:
    """Counts the forks of this process by Python code, and ends those that go on with its work."""

    def __init__(self) -> None:
        self.count = 0
        self._own = os.getpid()
        os.register_at_fork(after_in_parent=self._add)

    def _add(self) -> None:
        self.count += 1

    def end_copy(self) -> None:
        """Ends this process if it is a fork."""
        if os.getpid() != self._own:
            os._exit(0)


def find_problem(path: Path, content: bytes, forks: Forks) -> str:
    """Runs a declaration, and says what is wrong with it for a process that is to go on; an error is not.

    Args:
        path: the file.
        content: what it holds.
        forks: of this process.
    """
    threads, before = threading.active_count(), forks.count
    try:
        run_declaration(path, content)
    except MemoryError:
        return f"{path.name}: takes more than {_MEMORY_BYTES >> 30} GiB of memory"
    except (Exception, SystemExit):  # who runs it tells it
        pass
    except BaseException as error:
        return f"{place_of(error, path)}: {type(error).__name__}: {error}".strip(": ")
    finally:
        forks.end_copy()
    if forks.count > before:
        return f"{path.name}: forks the process that runs it"
    if threading.active_count() > threads:
        return f"{path.name}: leaves a thread running"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
