"""`gdnbench score --watch`: a score on every save."""

from __future__ import annotations

import sys
import time

from gdnbench.catalog.catalog import load_catalog
from gdnbench.model.gpu import Gpu
from gdnbench.render.console import data_console
from gdnbench.score.plan import NoVerdict, ScoreRequest, Turn
from gdnbench.score.turns import ScoreHistory, SourceWatcher, stopping, watch_sources
from gdnbench.verbs.progress import watch_here
from gdnbench.verbs.score_lines import print_history, turn_json, turn_line

_POLL_S = 0.2


def score_on_save(request: ScoreRequest, gpu: Gpu | None, most: int, *, warm: bool, json: bool, quiet: bool) -> None:
    """Scores a kernel each time that its sources are saved, until Ctrl-C, or `most` scores; 0 for any number."""
    sources = watch_sources(load_catalog(), request.kernel)
    turns, console = ScoreHistory(request, gpu, sources.folder, warm=warm), data_console()
    try:
        while True:
            turn = _take(turns, sources, quiet=quiet or json or not sys.stderr.isatty())
            if json:
                print(turn_json(turn), flush=True)
            else:
                console.print(turn_line(turn, turns.best))
            if len(turns.done) == most:
                return
            _wait_for_save(sources)
    finally:
        if turns.done and not json:
            print_history(console, turns.done, turns.best)


def _take(turns: ScoreHistory, sources: SourceWatcher, *, quiet: bool) -> Turn:
    """Scores the sources; a save in the middle begins it anew."""
    while True:
        changed = False

        def is_unwanted() -> bool:
            nonlocal changed
            changed = changed or sources.has_changed()
            return changed

        with watch_here(quiet=quiet) as observer:
            try:
                turn = turns.take(stopping(observer, is_unwanted))
            except KeyboardInterrupt:
                turn = None
        if turn and turn.score.verdict is not NoVerdict.STOPPED:
            return turn
        if turn:
            turns.done.remove(turn)
        if not changed:
            raise KeyboardInterrupt


def _wait_for_save(sources: SourceWatcher) -> None:
    changed = is_being_saved = False
    while is_being_saved or not changed:  # editors empty a file before they write it
        time.sleep(_POLL_S)
        is_being_saved = sources.has_changed()
        changed = changed or is_being_saved
