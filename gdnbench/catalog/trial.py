"""Has each declaration run first in a process that may end, crash or hang of it: the command's own process may not.

A declaration makes functions, so the command runs it, too; one that ends its process would end the command in silence,
with whichever exit code it likes. What a file holds is therefore tried once, in a fork of a child whose end is seen and
whose time is limited (`trial_child`), and what came of it is kept in the cache: `trials.txt` has a line for each, a
hash of the content and why it may not be run. A failure is kept for as long as the file is not written again, `touch`
included: a busy machine may have been the reason.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.origin import cache_root
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular

LIMIT_S = 10.0
"""Seconds that a declaration may take, which takes a millisecond."""

_START_S = 120.0  # of the child: Python and gdnbench from a cold network disk
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
    """Why a declaration may not be run in a process that goes on, empty if it may; MachineError if untried."""
    known = _known(declaration, _stored_results())
    if known is None:
        try_all([declaration])
        known = _known(declaration, _stored_results())
    return known or ""


def try_all(declarations: Iterable[Declaration]) -> None:
    """Tries those that were not tried yet, in one child; MachineError is raised if there can be none."""
    results = _stored_results()
    waiting = {each.key: each for each in declarations if _known(each, results) is None}
    if not waiting:
        return
    import tempfile

    from gdnbench.process.command import PYTHON, run_tool
    from gdnbench.process.worker import python_path

    limit_s = _START_S + 2 * LIMIT_S * len(waiting)
    try:
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder, "job.json")
            job.write_text(json.dumps([_request(each, waiting) for each in waiting.values()]))
            command = [*PYTHON, "-m", "gdnbench.catalog.trial_child", str(job), str(LIMIT_S)]
            done = run_tool(command, limit_s=limit_s, environment={"PYTHONPATH": python_path()}, merge=True)
            if done.returncode:
                raise MachineError(f"declarations cannot be tried: {done.last_line}", _HINT)
            problems = json.loads(job.with_suffix(".answer").read_text())
    except OSError as error:
        raise MachineError(f"declarations cannot be tried: {error.strerror or error}", _HINT) from error
    _store_results(waiting.values(), problems)


def _request(declaration: Declaration, waiting: Collection[str]) -> list[str]:
    """Returns path, content, and what the op's file beside a kernel's holds, empty if that may not be run."""
    path, op = declaration.path.parent.parent / "op.py", b""
    with contextlib.suppress(OSError):
        if declaration.path.name != path.name:
            declared = Declaration.read(path)
            op = declared.content if declared.key in waiting or _known(declared, _stored_results()) == "" else b""
    return [str(declaration.path), *(base64.b64encode(each).decode() for each in (declaration.content, op))]


_results: dict[Path, dict[str, str]] = {}
"""Why declarations may not be run, by the file that stores it and the key there."""


def _known(declaration: Declaration, results: Mapping[str, str]) -> str | None:
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


def _store_results(declarations: Iterable[Declaration], problems: Iterable[str]) -> None:
    lines = {}
    for declaration, problem in zip(declarations, problems, strict=True):
        key = _key_of_failure(declaration) if problem else declaration.key
        lines[key] = "".join(filter(str.isprintable, " ".join(problem.split())))
    _stored_results().update(lines)
    with contextlib.suppress(OSError):  # then they are tried again by the next command
        store = _store()
        store.parent.mkdir(parents=True, exist_ok=True)
        with store.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{key} {problem}\n" for key, problem in lines.items())
