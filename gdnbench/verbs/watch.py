"""`gdnbench score --watch`: a score on every save."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from gdnbench.model.gpu import Gpu
    from gdnbench.process.events import Observer
    from gdnbench.score.plan import ScoreRequest
    from gdnbench.score.turns import ScoreHistory, SourceWatcher, Turn


_POLL_S = 0.2
_KEYS = "d diff of the machine code, o open the source, e explain, s score again, h history, q stop"


def score_on_save(asked: ScoreRequest, gpu: Gpu | None, most: int, *, warm: bool, json: bool, quiet: bool) -> None:
    """Scores the kernel each time that its sources are saved, until that is stopped or `most` scores; 0 for any number.

    Raises:
        GdnbenchError: as `ScoreHistory.take`.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.render.console import data_console
    from gdnbench.score.turns import ScoreHistory, watch_sources

    sources = watch_sources(load_catalog(), asked.kernel)
    turns = ScoreHistory(asked, gpu, sources.folder, warm=warm)
    with read_keys() as keys:
        _Loop(turns, sources, keys, data_console(), json=json, quiet=quiet).run(most)


@dataclass
class _Loop:
    """Scores, waits for a save or a key, and so on.

    Attributes:
        turns: those so far.
        sources: what is watched.
        keys: of the terminal.
        console: where lines go.
        json: whether they are documents.
        quiet: no progress.
        stopped: whether `q` was pressed in the middle of a score.
    """

    turns: ScoreHistory
    sources: SourceWatcher
    keys: Keys
    console: Console
    json: bool
    quiet: bool
    stopped: bool = field(default=False)

    def run(self, most: int) -> None:
        """Until `q`, Ctrl-C, or so many turns; 0 for any number."""
        if self.keys.has_terminal and not self.json:
            self.console.print(_KEYS, style="dim")
        while not self.stopped:
            self._score()
            if self.stopped or (most and len(self.turns.done) >= most):
                break
            if not self._wait():
                break
        if self.turns.done and not self.json:
            self._print_history()

    def _score(self) -> None:
        """One turn; a save in the middle of it begins it anew."""
        from gdnbench.score.turns import stopping
        from gdnbench.verbs.progress import watch_here

        while not self.stopped:
            changed = False

            def unwanted() -> bool:
                nonlocal changed
                self.stopped = self.stopped or self.keys.read(0.0) == "q"
                changed = changed or self.sources.has_changed()
                return changed or self.stopped

            with watch_here(quiet=self.quiet or self.json or not self.keys.has_terminal) as observer:
                turn = self._take(stopping(observer, unwanted))
            if turn is None:
                if not changed and not self.stopped:
                    raise KeyboardInterrupt
                continue
            self._print(turn)
            return

    def _take(self, observer: Observer) -> Turn | None:
        """A turn; None if it was stopped."""
        from gdnbench.score.plan import NoVerdict

        try:
            turn = self.turns.take(observer)
        except KeyboardInterrupt:
            return None
        if turn.score.verdict is NoVerdict.STOPPED:
            self.turns.done.remove(turn)
            return None
        return turn

    def _print(self, turn: Turn) -> None:
        from gdnbench.verbs.score_lines import turn_json, turn_line

        if self.json:
            print(turn_json(turn), flush=True)
        else:
            self.console.print(turn_line(turn, self.turns.best))

    def _wait(self) -> bool:
        """Until a save, or a key that asks for another score; False for a key that asks to stop."""
        actions: dict[str, Callable[[], None]] = {
            "d": self._print_difference,
            "o": self._open_source,
            "e": self._explain,
            "h": self._print_history,
        }
        changed = False
        while True:
            being_saved = self.sources.has_changed()
            if changed and not being_saved:  # editors empty a file before they write it
                return True
            changed = changed or being_saved
            key = self.keys.read(_POLL_S)
            if key in {"q", "s"}:
                return key == "s"
            if key in actions:
                actions[key]()

    def _print_difference(self) -> None:
        """Of the machine code of the last two turns that built."""
        from gdnbench.inspect.quantities import BuildPair
        from gdnbench.report.inspect import print_changed

        built = [turn for turn in self.turns.done if turn.is_built]
        if len(built) < 2:
            self.console.print("there is no earlier turn to compare with", style="dim")
            return
        before, after = (turn.builds for turn in built[-2:])
        pairs = [BuildPair(one, other) for one, other in zip(before, after, strict=False)]
        print_changed(pairs, (), sass=True)
        print_changed(pairs, (), sass=False)

    def _open_source(self) -> None:
        """In the user's editor, where the last turn's error or its first late load is."""
        from gdnbench.score.turns import place_of

        found = place_of(self.turns.done[-1], self.sources.folder)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if found is None:
            self.console.print("no line of the source is known", style="dim")
        elif not editor:
            self.console.print(f"{found[0]}:{found[1]}  (set VISUAL or EDITOR to open it)", markup=False)
        else:
            self._run_editor(editor, *found)

    def _run_editor(self, editor: str, file: Path, line: int) -> None:
        """Says so where it cannot be started: the watch goes on."""
        try:
            with self.keys.given_back():
                subprocess.run([*shlex.split(editor), f"+{line}", str(file)], check=False)
        except (OSError, ValueError) as error:  # not there, or quotes that do not end
            message = error.strerror if isinstance(error, OSError) else error
            self.console.print(f"{editor}: {message}; set VISUAL or EDITOR to an editor", markup=False)

    def _explain(self) -> None:
        """The last score in full."""
        from gdnbench.verbs.score_lines import print_score

        print_score(self.turns.done[-1].score, json=False)

    def _print_history(self) -> None:
        from gdnbench.verbs.score_lines import print_history

        print_history(self.console, self.turns.done, self.turns.best)


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
