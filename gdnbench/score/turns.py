"""Turn after turn of one kernel: the score of each version of its sources, and what the compiler made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.resolve import find_op, resolve_op
from gdnbench.catalog.select import find_variant
from gdnbench.errors import GdnbenchError
from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel, build_subjects
from gdnbench.inspection.subject import DEFAULT_ARCHS, gpu_size_of, launches_of
from gdnbench.measuring.observer import Observer
from gdnbench.measuring.protocol import Examined
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import TorchKernel
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
        warm: whether workers are forked from a process that stays up.
        done: oldest first.
    """

    asked: Asked
    gpu: Gpu | None
    warm: bool = True
    done: list[Turn] = field(default_factory=list)

    @property
    def best(self) -> Turn | None:
        """The one with the highest ratio of those that are right; None while there is none."""
        ratios = {turn.number: turn.score.ratio.speedup.estimate for turn in self.done if turn.score.ratio}
        return self.done[max(ratios, key=ratios.__getitem__) - 1] if ratios else None

    def take(self, observer: Observer) -> Turn:
        """Scores the sources as they are now.

        Raises:
            GdnbenchError: as `score_kernel`, for what no edit of the kernel mends.
        """
        begun = datetime.now().astimezone()
        score = score_kernel(load_catalog(), self.asked, self.gpu, observer, warm=self.warm)
        turn = Turn(len(self.done) + 1, begun, score, self._builds())
        self.done.append(turn)
        return turn

    def _builds(self) -> tuple[BuildOutcome, ...]:
        """From the cache, where the score has put them; none where there is nothing to read."""
        try:
            catalog = load_catalog()
            op = find_op(catalog, resolve_op(catalog, self.asked.op, [self.asked.kernel]))
            _, variant = find_variant(catalog, op.name, self.asked.kernel)
            entry, variant = catalog.at(variant, op.default, self.gpu.slug if self.gpu else "")
            if isinstance(entry.kernel, TorchKernel):
                return ()
            gpus = (self.gpu,) if self.gpu else ()
            archs = (self.gpu.arch,) if self.gpu else DEFAULT_ARCHS[:1]
            subjects = launches_of(variant.label, entry, variant, op.default)
            return build_subjects(subjects, archs, lambda arch: gpu_size_of(arch, gpus), Observer())
        except GdnbenchError:
            return ()


class StopOnChange(Observer):
    """Passes on what it is told, and stops the score as Ctrl-C does once its answer is no longer wanted.

    Args:
        observer: to pass it on to.
        is_unwanted: whether it is.
    """

    def __init__(self, observer: Observer, is_unwanted: Callable[[], bool]) -> None:
        self._observer = observer
        self._is_unwanted = is_unwanted

    def begin(self, phase: str, total: int) -> None:
        """Passed on."""
        self._observer.begin(phase, total)
        self._look()

    def step(self, what: str) -> None:
        """Passed on."""
        self._observer.step(what)
        self._look()

    def advance(self) -> None:
        """Passed on."""
        self._observer.advance()
        self._look()

    def standing(self, text: str) -> None:
        """Passed on."""
        self._observer.standing(text)

    def examined(self, case: Case, result: Examined) -> None:
        """Not passed on: the turn's line says it."""

    def note(self, text: str) -> None:
        """Passed on."""
        self._observer.note(text)

    def _look(self) -> None:
        if self._is_unwanted():
            raise KeyboardInterrupt


def place_of(turn: Turn, folder: Path) -> Place | None:
    """File and line to look at: of the error, else of the first load that begins behind a wait; None if not known.

    Args:
        turn: the turn.
        folder: the kernel's.
    """
    return place_in_text(turn.score.reason, folder) or place_in_code(turn.builds)
