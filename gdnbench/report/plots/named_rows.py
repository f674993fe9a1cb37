"""Rows of a chart in the terminal, each with the name of the kernel that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_GAP = 2


@dataclass(frozen=True)
class NamedRows:
    """Rows behind their names, or below them where the console is too narrow for both.

    Attributes:
        console: where to.
        indent: columns before each row.
        beside: whether the names stand in these.
    """

    console: Console
    indent: int
    beside: bool

    @classmethod
    def of(cls, console: Console, names: Sequence[str], least: int) -> NamedRows:
        """Rows of these names that have at least so many columns each, if the console has them at all."""
        indent = max(map(len, names)) + _GAP
        beside = indent + least <= console.width
        return cls(console, indent if beside else _GAP, beside)

    @property
    def room(self) -> int:
        """Columns that a row has."""
        return max(1, self.console.width - self.indent)

    def print(self, row: Text, name: str = "") -> None:
        """Prints a row; without a name it belongs to all, as an axis does."""
        if name and not self.beside:
            self.console.print(Text(name), no_wrap=True, crop=True)
        lead = Text(f"{name if self.beside else '':{self.indent}}")
        self.console.print(lead.append(row), no_wrap=True, crop=True)
