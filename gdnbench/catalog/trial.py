"""Has each declaration run first in a process that may end, crash or hang of it: the command's own process may not.

A declaration makes functions, so the command runs it, too; one that ends its process would end the command in silence,
with whichever exit code it likes. What a file holds is therefore tried once, in a child whose end is seen and whose
time is limited (`trial_child`), and what came of it is kept in the cache: `trials.txt` has a line for each, a hash of
the content and why it may not be run. A failure is kept for as long as the file is not written again, `touch` included:
a busy machine may have been the reason.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gdnbench.errors import MachineError
from gdnbench.origin import cache_root
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular

if TYPE_CHECKING:
    from gdnbench.catalog.trial_child import TrialAnswer
    from gdnbench.process.worker import Worker


LIMIT_S = 10.0
"""Seconds that a declaration may take, which takes a millisecond."""

_START_S = 120.0  # of the child: Python and gdnbench from a cold network disk
_END_S = 1.0
_LARGEST_STORE_BYTES = 1 << 20  # 20,000 declarations; then it begins anew
_HINT = "see `gdnbench doctor`"


@dataclass(frozen=True)
class Declaration:
    """A file that declares, as it was read; `written_ns` is its last change, nanoseconds since the epoch."""

    path: Path
    content: bytes
    written_ns: int

    @classmethod
    def read(cls, path: Path) -> Declaration:
        """Reads a file; OSError as `read_regular`."""
        return cls(path, read_regular(path, MOST_SOURCE_BYTES), path.stat().st_mtime_ns)

    @cached_property
    def key(self) -> str:
        """A hash of its content and of what runs it."""
        return blake2b(self.content, digest_size=16, key=sys.version.encode()[:64]).hexdigest()


def problem_of(declaration: Declaration) -> str:
    """Why a declaration may not be run in a process that is to go on; empty if it may. Tries it if need be.

    MachineError is raised if it cannot be tried.
    """
    try_all([declaration])
    return _known(declaration) or ""


def try_all(declarations: Iterable[Declaration]) -> None:
    """Tries those that were not tried yet, in one child, and in one more for each that ends it.

    MachineError is raised if there can be no child.
    """
    waiting = [each for each in {each.key: each for each in declarations}.values() if _known(each) is None]
    while waiting:
        waiting = _try_some(waiting)


def _try_some(waiting: list[Declaration]) -> list[Declaration]:
    """Tries declarations until one ends the child; returns those that are left to be tried."""
    import tempfile

    with tempfile.TemporaryFile() as log, _start_child(log) as child:
        for place, declaration in enumerate(waiting):
            try:
                answer = _ask(child, declaration)
            except TimeoutError:
                reason = f"does not come to its end in {LIMIT_S:g} s; mend it, or `touch` it to have it tried again"
                _store_result(declaration, f"{_place(child, declaration.path)}: {reason}")
                return waiting[place + 1 :]
            if answer is None and place:
                return waiting[place:]  # by itself: what ended the child may be of those that it ran before
            _store_result(declaration, _describe_end(child, declaration.path) if answer is None else answer.problem)
            if answer is None:
                return waiting[1:]
    return []


@contextlib.contextmanager
def _start_child(log: BinaryIO) -> Iterator[Worker[TrialAnswer]]:
    from gdnbench.catalog import trial_child
    from gdnbench.process.worker import Worker

    try:
        child = Worker(trial_child.__name__, [str(LIMIT_S)], trial_child.ANSWERS, log, takes_requests=True)
    except OSError as error:
        raise MachineError(f"declarations cannot be tried: {error.strerror or error}", _HINT) from error
    with child:
        try:
            started = child.receive(time.monotonic() + _START_S)
        except (TimeoutError, ValueError):
            started = None
        if started is None:
            raise MachineError(f"declarations cannot be tried: {'; '.join(child.log_tail(1))}", _HINT)
        yield child


def _ask(child: Worker[TrialAnswer], declaration: Declaration) -> TrialAnswer | None:
    """The child's answer, or None if the declaration ended it or wrote to its channel; TimeoutError without one."""
    from gdnbench.catalog.trial_child import TrialRequest

    child.request(TrialRequest(str(declaration.path), declaration.content, _op_of(declaration)).encoded)
    try:
        return child.receive(time.monotonic() + LIMIT_S)
    except ValueError:
        return None


def _op_of(declaration: Declaration) -> bytes:
    """What the op's file holds, beside which a kernel is declared, if it may be run; empty otherwise."""
    path = declaration.path.parent.parent / "op.py"
    with contextlib.suppress(OSError):
        if declaration.path.name != path.name and _known(op := Declaration.read(path)) == "":
            return op.content
    return b""


def _describe_end(child: Worker[TrialAnswer], path: Path) -> str:
    child.end(_END_S)
    return f"{_place(child, path)}: ends the process that runs it ({child.describe_end()})"


def _place(child: Worker[TrialAnswer], path: Path) -> str:
    """The file, and the line where the child was in it, if it could write that down."""
    log = "\n".join(child.log_tail(100))
    at = re.search(rf'File ".*{re.escape(path.name)}", line (\d+)', log)
    return f"{path.name}:{at[1]}" if at else path.name


_results: dict[Path, dict[str, str]] = {}
"""Why declarations may not be run, by the file that stores it and the key there."""


def _known(declaration: Declaration) -> str | None:
    results = _stored_results()
    passed = results.get(declaration.key)
    return results.get(_key_of_failure(declaration)) if passed is None else passed


def forget_trials() -> None:
    """Has every declaration tried anew."""
    _results.pop(_store(), None)
    with contextlib.suppress(OSError):
        _store().unlink(missing_ok=True)


def _key_of_failure(declaration: Declaration) -> str:
    return f"{declaration.key}@{declaration.written_ns}"


def _store() -> Path:
    return cache_root() / "trials.txt"


def _stored_results() -> dict[str, str]:
    store = _store()
    if store not in _results:
        lines: list[str] = []
        with contextlib.suppress(OSError):
            if store.is_file() and store.stat().st_size < _LARGEST_STORE_BYTES:
                lines = store.read_text(encoding="utf-8", errors="replace").splitlines()
            else:
                store.unlink(missing_ok=True)
        _results[store] = {key: problem for key, _, problem in (line.partition(" ") for line in lines)}
    return _results[store]


def _store_result(declaration: Declaration, problem: str) -> None:
    key = _key_of_failure(declaration) if problem else declaration.key
    problem = "".join(filter(str.isprintable, " ".join(problem.split())))
    _stored_results()[key] = problem
    with contextlib.suppress(OSError):  # then it is tried again by the next command
        store = _store()
        store.parent.mkdir(parents=True, exist_ok=True)
        with store.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{key} {problem}\n")
