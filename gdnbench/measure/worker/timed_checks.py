"""Checks randomly drawn timed launches against the oracle.

A verdict before timing does not cover a kernel that is honest only until it is timed. The outputs of a drawn launch are
copied before anything else happens to them, and judged at the end of the case's round, by every gate of the op, on
inputs that no oracle had seen when the kernel was launched.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch.workspace import Workspace
from gdnbench.model.kernel import Kernel
from gdnbench.model.status import GateResult
from gdnbench.verify.check import check_all, check_copy, consult_oracle, name_outputs, passes_all
from gdnbench.workers.placement import Draws, RenewedPlacements, memory_apart
from gdnbench.workers.task import CHECK_SHARE, MOST_CHECKED


class WrongWhenTimedError(Exception):
    """A timed launch that differs from its verification."""


class CheckedPlacements:
    """The placements of a workload, with the draws of its launches, and copies of checked launches' tensors.

    `check_s` has the least seconds of the check of a launch, by kind of floor; an empty kind is a kernel.
    """

    def __init__(self, placements: RenewedPlacements, draws: Draws) -> None:
        self.placements = placements
        self.draws = draws
        self.check_s: dict[str, float] = {}
        self._room = placements.room
        self._kept: list[Workspace] = []

    def clear(self) -> None:
        """Drops the copies."""
        self._kept.clear()

    @property
    def kept(self) -> int:
        """Number of copied launches."""
        return len(self._kept)

    def keep(self, number: int, outputs: Sequence[torch.Tensor]) -> None:
        """Copies the inputs and outputs of a launch at a placement, on the current stream.

        Raises WrongWhenTimedError if it returned something else than the op's outputs.
        """
        room = self._room[len(self._kept)]
        try:
            named = name_outputs(room.op, outputs, {name: each.shape for name, each in room.outputs.items()})
        except DeclarationError as error:
            raise WrongWhenTimedError(error.message) from error
        for name, tensor in self.placements.workspaces[number].inputs.items():
            room.inputs[name].copy_(tensor)
        for name, tensor in named.items():
            room.outputs[name].copy_(tensor)
        self._kept.append(replace(room, pristine=self.placements.inputs(number)))

    def judge(self, kernel: Kernel) -> tuple[GateResult, ...]:
        """The gates that the copied launches fail; empty if all are right."""
        kind = self.draws.kind
        failed: list[GateResult] = []
        with memory_apart(on_gpu=self._room[0].output_tensors[0].is_cuda):
            for kept in self._kept:
                begin_s = time.perf_counter()
                if kernel.floor == "copy":
                    gates = check_copy(kept.output_tensors, replace(kept, inputs=kept.pristine), kind)
                else:
                    gates = self._check(kept, kind)
                failed += [gate for gate in gates if not gate.passed]
                took_s = time.perf_counter() - begin_s
                self.check_s[kernel.floor] = min(took_s, self.check_s.get(kernel.floor, took_s))
        return tuple(failed)

    def _check(self, kept: Workspace, kind: str) -> tuple[GateResult, ...]:
        expected = consult_oracle(replace(kept, inputs=kept.pristine), self.draws.numerics)
        if passes_all(kept, kept.output_tensors, expected):
            return ()
        return check_all(kept, kept.output_tensors, expected, kind)


class TimedChecks:
    """The checks of one case, whose rounds have `untimed` and then `timed` launches."""

    def __init__(self, kernel: Kernel, at: CheckedPlacements, untimed: int, timed: int) -> None:
        self._kernel = kernel
        self._at = at
        self._untimed = untimed
        self._timed = timed
        self._random = random.Random()  # from the system's entropy: a kernel must not foresee it
        self._launches = 0
        self._wanted = 0
        self._begin_s = self._round_s = math.nan

    def open(self, places: Sequence[int], number: int, *, is_last: bool = False) -> None:
        """Prepares a round's placements and draws how many launches are checked, at least one in the last round."""
        self._launches = 0
        self._at.clear()
        self._wanted = max(self._draw_number(), int(is_last))
        self._begin_s = time.perf_counter()
        self._at.draws.begin(number)
        for place in places:
            self._at.placements.prepare(place, self._at.draws, self._kernel.in_place)

    def take(self, number: int, outputs: Sequence[torch.Tensor]) -> None:
        """Draws, after each launch, whether it is checked, and then copies its tensors.

        For k of n launches, each with equal probability, a launch is drawn with the probability (still wanted) / (still
        to come) (Knuth, The Art of Computer Programming, volume 2, 3.4.2, algorithm S). Raises WrongWhenTimedError if a
        drawn launch returned something else than the op's outputs.
        """
        self._launches += 1
        to_come = self._untimed + self._timed - self._launches + 1
        if self._launches <= self._untimed or self._kernel.is_unchecked or to_come < 1:
            return
        if self._random.randrange(to_come) < self._wanted - self._at.kept:
            self._at.keep(number, outputs)

    def renew(self, number: int) -> None:
        """Gives the placement other inputs and poisoned outputs, after each launch."""
        self._at.placements.renew(number, self._at.draws, self._kernel.in_place)

    def judge(self) -> int:
        """Checks a finished round's drawn launches by the oracle; returns how many, or raises WrongWhenTimedError."""
        self._round_s = time.perf_counter() - self._begin_s
        for gate in self._at.judge(self._kernel):
            raise WrongWhenTimedError(f"right when it was verified, wrong when it was timed: {gate.reason}")
        return self._at.kept

    def _draw_number(self) -> int:
        """Number of checks that `CHECK_SHARE` of a round's time affords, its fraction by chance; at first the most."""
        check_s = self._at.check_s.get(self._kernel.floor)
        if check_s is None or math.isnan(self._round_s):
            return MOST_CHECKED
        paid_for = min(MOST_CHECKED, CHECK_SHARE * self._round_s / check_s)
        return int(paid_for) + (self._random.random() < paid_for % 1)
