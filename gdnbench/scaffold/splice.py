"""Replaces parts of a Python source by their places in its syntax tree; all else stays byte for byte."""

from __future__ import annotations

import ast
import io
from itertools import accumulate


class Splice:
    """A source and the edits to it.

    Places are counted in bytes of UTF-8, as `ast` counts columns.

    Args:
        source: a Python file's text.
    """

    def __init__(self, source: str) -> None:
        # An empty newline keeps every ending as it is, and breaks lines where Python does: not at a form feed.
        lines = [line.encode() for line in io.StringIO(source, newline="")]
        self._source = source.encode()
        self._line_starts = [0, *accumulate(map(len, lines))]
        self._edits: list[tuple[int, int, str]] = []

    def start(self, node: ast.expr) -> int:
        """Where a node begins."""
        return self._line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        """Where it ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def replace(self, node: ast.expr, text: str) -> None:
        """Puts `text` in the place of a node."""
        self._edits.append((self.start(node), self.end(node), text))

    def cut(self, start: int, end: int) -> None:
        """Takes out what lies between."""
        self._edits.append((start, end, ""))

    def insert(self, text: str) -> None:
        """Puts `text` before all else."""
        self._edits.append((0, 0, text))

    def text(self, node: ast.expr) -> str:
        """How a node is written."""
        return self._source[self.start(node) : self.end(node)].decode()

    def result(self) -> str:
        """The source with every edit made."""
        source = self._source
        for start, end, text in sorted(self._edits, reverse=True):
            source = source[:start] + text.encode() + source[end:]
        return source.decode()
