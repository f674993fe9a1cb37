"""Turn after turn of one kernel: the score of each version of its sources, and what the compiler made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.arch import DEFAULT_ARCHS
from gdnbench.errors import GdnbenchError, UsageError
from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel, build_subjects
from gdnbench.inspection.subject import gpu_size_of, launches_of
from gdnbench.measuring.observer import Observer, PassingObserver
from gdnbench.measuring.protocol import Examined
from gdnbench.measuring.request import slug_of
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.status import Status
from gdnbench.score.place import Place, place_in_code, place_in_text
from gdnbench.score.plan import Asked
from gdnbench.score.run import score_kernel
from gdnbench.score.score import Score


@dataclass(frozen=True)
class Turn:
    """One version of a kernel.

    Attributes:
        number: from 1.
        time: when its score began, local time.
        score: what it got.
        builds: what the compiler made of each launch, for the GPU at hand; none of a torch kernel.
    """

    number: int
    time: datetime
    score: Score
    builds: tuple[BuildOutcome, ...] = field(default=(), repr=False)

    @property
    def is_built(self) -> bool:
        """Whether there is machine code of each launch."""
        return bool(self.builds) and all(isinstance(build, CompiledKernel) for build in self.builds)


@dataclass
class Turns:
    """The turns so far.

    Attributes:
        asked: what is scored, each time anew from the sources.
        gpu: where; None for the CPU.
        folder: the kernel's.
        warm: whether workers are forked from a process that stays up.
        done: oldest first.
    """

    asked: Asked
    gpu: Gpu | None
    folder: Path
    warm: bool = True
    done: list[Turn] = field(default_factory=list)

    @property
    def best(self) -> Turn | None:
        """The one with the highest ratio of those that are right; None while there is none."""
        ratios = {turn.number: turn.score.ratio.speedup.estimate for turn in self.done if turn.score.ratio}
        return self.done[max(ratios, key=ratios.__getitem__) - 1] if ratios else None

    def take(self, observer: Observer) -> Turn:
        """Scores the sources as they are now.

        A declaration in which nothing is found that was there at an earlier turn, as a name that was changed or a
        preset that was left out, is broken: the next save may mend it.

        Raises:
            GdnbenchError: as `score_kernel`, at the first turn for what was asked, and for what no edit mends.
        """
        begun = datetime.now().astimezone()
        catalog = load_catalog()
        try:
            score = score_kernel(catalog, self.asked, self.gpu, observer, warm=self.warm)
        except UsageError as error:
            if not self.done:
                raise
            score = self._broken(catalog, error)
        turn = Turn(len(self.done) + 1, begun, score, self._builds(catalog, score))
        self.done.append(turn)
        return turn

    def _broken(self, catalog: Catalog, error: UsageError) -> Score:
        """What kept a score from its beginning; why a folder does not load tells more than that a name is absent."""
        own = {self.folder, self.folder.parent}
        reason = next((broken.reason for broken in catalog.broken if broken.folder in own), error.message)
        asked = self.asked
        return Score(asked.kernel, self.done[-1].score.op, slug_of(self.gpu), asked.against, Status.BROKEN, reason)

    def _builds(self, catalog: Catalog, score: Score) -> tuple[BuildOutcome, ...]:
        """At the first workload that was scored, from the cache; none where there is nothing to read."""
        if not score.workloads:
            return ()
        workload = score.workloads[0].workload
        try:
            _, variant = find_variant(catalog, score.op, self.asked.kernel)
            entry, variant = catalog.at(variant, workload, self.gpu.slug if self.gpu else "")
            if isinstance(entry.kernel, TorchKernel):
                return ()
            gpus = (self.gpu,) if self.gpu else ()
            archs = (self.gpu.arch,) if self.gpu else DEFAULT_ARCHS[:1]
            subjects = launches_of(variant.label, entry, variant, workload)
            return build_subjects(subjects, archs, lambda arch: gpu_size_of(arch, gpus), Observer())
        except GdnbenchError:
            return ()


class StopOnChange(PassingObserver):
    """Stops the score as Ctrl-C does once its answer is no longer wanted.

    Args:
        observer: to pass on to what it is told, but for cases that were examined: the turn's line says that.
        is_unwanted: whether it is.
    """

    def __init__(self, observer: Observer, is_unwanted: Callable[[], bool]) -> None:
        super().__init__(observer)
        self._is_unwanted = is_unwanted

    def begin(self, phase: str, total: int) -> None:
        """Passed on."""
        super().begin(phase, total)
        self._stop_if_unwanted()

    def step(self, what: str) -> None:
        """Passed on."""
        super().step(what)
        self._stop_if_unwanted()

    def advance(self) -> None:
        """Passed on."""
        super().advance()
        self._stop_if_unwanted()

    def examined(self, case: Case, result: Examined) -> None:
        """Not passed on."""

    def _stop_if_unwanted(self) -> None:
        if self._is_unwanted():
            raise KeyboardInterrupt


def place_of(turn: Turn, folder: Path) -> Place | None:
    """File and line to look at: of the error, else of the first load that begins behind a wait; None if not known.

    Args:
        turn: the turn.
        folder: the kernel's.
    """
    return place_in_text(turn.score.reason, folder) or place_in_code(turn.builds)
