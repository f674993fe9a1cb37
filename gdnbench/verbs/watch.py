"""`gdnbench score --watch`: a score on every save."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.entry import include_path, label_parts
from gdnbench.catalog.request import slug_of
from gdnbench.catalog.select import find_broken, resolve_op
from gdnbench.errors import SameSourcesError, UnknownNameError, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.process.events import CaseChecked, CommandEvent, Observer
from gdnbench.render.console import data_console
from gdnbench.score.plan import NoVerdict, Score, ScoreRequest, Turn, with_revision
from gdnbench.score.run import check_quickly, score_kernel
from gdnbench.stats.interval import Verdict
from gdnbench.verbs.progress import watch_here


@dataclass
class ScoreHistory:
    """The turns so far, oldest first, of a kernel's folder; `warm` forks workers from a process that stays up."""

    request: ScoreRequest
    gpu: Gpu | None
    folder: Path
    warm: bool = True
    done: list[Turn] = field(default_factory=list)

    @property
    def best(self) -> Turn | None:
        """The turn with the highest ratio among those that are right, or None if there is none."""
        ratios = {turn.number: turn.score.ratio.speedup.estimate for turn in self.done if turn.score.ratio}
        return self.done[max(ratios, key=ratios.__getitem__) - 1] if ratios else None

    def take(self, observer: Observer) -> Turn:
        """Scores the sources; what an earlier turn had and is gone counts as broken: the next save may mend it.

        A kernel that an interpreter finds wrong has its score at once.
        """
        begun, begun_s = datetime.now().astimezone(), time.monotonic()
        catalog = load_catalog()
        try:
            arguments = (*with_revision(catalog, self.request, observer), self.gpu, observer)
            score = check_quickly(*arguments, warm=self.warm) or score_kernel(*arguments, warm=self.warm)
        except SameSourcesError as error:  # the next save may change them
            op = resolve_op(catalog, self.request.op, [self.request.kernel])
            score = Score(self.request.kernel, op, slug_of(self.gpu), self.request.against, Verdict.SAME, error.message)
        except UsageError as error:
            if not self.done:
                raise
            score = self._broken(catalog, error)
        seconds = {**score.seconds, "all": time.monotonic() - begun_s}
        turn = Turn(len(self.done) + 1, begun, replace(score, seconds=seconds))
        self.done.append(turn)
        return turn

    def _broken(self, catalog: Catalog, error: UsageError) -> Score:
        """Returns a score with the reason why the folder does not load, or else the error's message."""
        own = {self.folder, self.folder.parent}
        reason = next((broken.reason for broken in catalog.broken if broken.folder in own), error.message)
        request = self.request
        return Score(request.kernel, self.done[-1].score.op, slug_of(self.gpu), request.against, Status.BROKEN, reason)


def stopping(observer: Observer, is_unwanted: Callable[[], bool]) -> Observer:
    """Returns an observer that raises KeyboardInterrupt once `is_unwanted`, and passes on all but checked cases."""

    def observe(event: CommandEvent) -> None:
        if not isinstance(event, CaseChecked):
            observer(event)
        if is_unwanted():
            raise KeyboardInterrupt

    return observe


class SourceWatcher:
    """The files that a kernel's numbers may depend on: its folder's, those directly in its op's, and shared headers."""

    def __init__(self, folder: Path, op_folder: Path) -> None:
        self.folder, self._op_folder = folder, op_folder
        self._digest = self._read()

    def has_changed(self) -> bool:
        """Whether contents changed since the last call; a touch is no change, the end of a half-written file is one."""
        before, self._digest = self._digest, self._read()
        return self._digest != before

    def _files(self) -> list[Path]:
        above = {self.folder.parent, self._op_folder}
        whole = (each for each in include_path(self.folder, self._op_folder) if each not in above)
        found = (path for folder in whole for path in folder.rglob("*") if "__pycache__" not in path.parts)
        ops_files = (path for folder in above for path in folder.glob("*"))
        return sorted(path for path in (*found, *ops_files) if path.is_file())

    def _read(self) -> str:
        digest = hashlib.sha256()
        for path in self._files():
            with suppress(OSError):
                digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()


def watch_sources(catalog: Catalog, label: str) -> SourceWatcher:
    """Returns the sources of a kernel, even if its declaration does not load; raises UnknownNameError for any other."""
    name, _ = label_parts(label)
    if entry := catalog.owner(name):
        return SourceWatcher(entry.folder, entry.op_folder)
    if broken := find_broken(catalog, name):
        return SourceWatcher(broken.folder, broken.folder.parent)
    raise UnknownNameError(f"there is no kernel {name}", "`gdnbench list` shows every kernel")


_POLL_S = 0.05  # a look at the sources takes a millisecond


def score_on_save(request: ScoreRequest, gpu: Gpu | None, most: int, *, warm: bool, json: bool, quiet: bool) -> None:
    """Scores a kernel each time that its sources are saved, until Ctrl-C, or `most` scores; 0 for any number."""
    from gdnbench.verbs.score import turn_json, turn_line  # which imports this module

    sources = watch_sources(load_catalog(), request.kernel)
    turns, console = ScoreHistory(request, gpu, sources.folder, warm=warm), data_console()
    while True:
        turn = _take(turns, sources, quiet=quiet or json or not sys.stderr.isatty())
        if json:
            print(turn_json(turn), flush=True)
        else:
            console.print(turn_line(turn, turns.best))
        if len(turns.done) == most:
            return
        _wait_for_save(sources)


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
