"""Single keys of a terminal, read without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    """Keys that were pressed; none where there is no terminal to press them in.

    Args:
        descriptor: the terminal's; None where there is none.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def has_terminal(self) -> bool:
        """Whether there is a terminal to press them in."""
        return self._descriptor is not None

    def read(self, timeout_s: float) -> str:
        """The next key, as a character; empty if none is pressed in time."""
        if self._descriptor is None:
            select.select([], [], [], timeout_s)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        return os.read(self._descriptor, 64).decode(errors="replace")[:1] if ready else ""

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """The terminal as it was before, for a program that is run meanwhile."""
        if self._descriptor is None:
            yield
            return
        mode = termios.tcgetattr(self._descriptor)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, _lines_mode(mode))
        try:
            yield
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)


@contextmanager
def read_keys() -> Iterator[Keys]:
    """Keys of the terminal at stdin, which is put back as it was; Ctrl-C interrupts as ever."""
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _lines_mode(mode: list[int | list[bytes | int]]) -> list[int | list[bytes | int]]:
    local = mode[3]
    assert isinstance(local, int)
    return [*mode[:3], local | termios.ICANON | termios.ECHO, *mode[4:]]
