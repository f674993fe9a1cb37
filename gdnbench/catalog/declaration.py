"""Runs the Python files of ops and kernels, from their source.

Python's compiled copies beside them are not used: one that was cut off would keep the file broken, and one of before an
edit within the same second that left the size alone would stand in for the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from gdnbench.errors import raised_at
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular


class SourceLoader(SourceFileLoader):
    """Loads a module from its source alone, for `spec_from_file_location`."""

    def get_code(self, fullname: str) -> CodeType:
        """Compiles the source."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(read_regular(Path(path), MOST_SOURCE_BYTES), path)
        return code


def run_declaration(path: Path, content: bytes) -> ModuleType:
    """The module that a declaration makes, `op.py` or `variant.py`, of the bytes that were read of it.

    What it prints goes to standard error, for standard output is for our own data; what it reads of standard input is
    empty, for it would wait for a person who knows nothing of that.

    Args:
        path: the file, for messages and for `__file__`.
        content: what it holds.

    Raises:
        BaseException: whatever it raises.
    """
    name = f"gdnbench_catalog_{path.parent.parent.name}_{path.parent.name}_{path.stem}".replace("-", "_")
    module = ModuleType(name)
    module.__file__ = str(path)
    with redirect_stdout(sys.stderr), _empty_stdin():
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def place_of(error: BaseException, path: Path) -> str:
    """File and line of the failure in the declaration itself, not in what it called."""
    at = raised_at(error, path)
    return f"{path.name}:{at[1]}" if at else path.name


@contextmanager
def _empty_stdin() -> Iterator[None]:
    before = sys.stdin
    with Path(os.devnull).open(encoding="utf-8") as empty:
        sys.stdin = empty
        try:
            yield
        finally:
            sys.stdin = before
