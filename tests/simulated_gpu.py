"""A GPU made up for the tests of sweeps: it has a clock of its own, and the true time of every case is known."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gdnbench.analyse.rounds import Collected
from gdnbench.measure.schedule import WORKER_START_S, Race, Segment, round_cost_s
from gdnbench.model.case import Case
from gdnbench.model.status import Role
from gdnbench.store.journal import BURN_IN, Sampled

SAMPLES = 100
FEW = 4  # are kept of each round: enough for its time


class SimulatedGpu:
    """Measures segments as `Measuring` does: one worker a segment, a burn-in, then every case once a round.

    Args:
        times_us: true time of each case.
        noise: relative standard deviation of a round's time about its truth.
        seed: of the noise.
        launch_sd_us: of the launches of processes.
        own_sd: what else a process adds to each case, relative.
        swept: the kernels that race; without them, those whose cases are in the role of a kernel.
    """

    def __init__(
        self,
        times_us: dict[Case, float],
        noise: float = 0.006,
        seed: int = 1,
        swept: Collection[str] = (),
        launch_sd_us: float = 0.06,
        own_sd: float = 0.0006,
    ) -> None:
        self.cases = tuple(times_us)
        self.swept = swept or {case.variant.kernel for case in times_us if case.role is Role.KERNEL}
        self.samples = {case.id: SAMPLES for case in times_us}
        self.warm_us = {case.id: time_us for case, time_us in times_us.items()}
        self.now_s, self._noise, self._random = 0.0, noise, np.random.default_rng(seed)
        self._launch_sd_us, self._own_sd, self._processes = launch_sd_us, own_sd, 0

    def clock(self) -> float:
        return self.now_s

    def race(self, budget_s: float = 1e6, margin: float = 0.005) -> Race:
        return Race(budget_s, margin, 0.95, "cuda", self.swept, self.clock)

    def next_segment(self, race: Race, collected: Collected) -> Segment | None:
        return race.next_segment(self.cases, collected, self.samples, self.warm_us)

    def measure(self, segment: Segment, collected: Collected) -> None:
        ids = [case.id for case in segment.cases]
        done = collected.complete_rounds(ids)
        assert all(set(collected.samples.get(case_id, ())) == done for case_id in ids), "rounds would be thrown away"
        self.now_s += WORKER_START_S
        self._processes += 1
        launch_us = self._random.normal(0.0, self._launch_sd_us)
        own = {case_id: self._random.normal(1.0, self._own_sd) for case_id in ids}
        for number in (BURN_IN, *range(max(done, default=0) + 1, segment.rounds + 1)):
            level = self._random.normal(1.0, 0.01)
            for case_id in ids:
                kernel_us = self.warm_us[case_id] * own[case_id] * level * self._random.normal(1.0, self._noise)
                collected.take(Sampled(number, case_id, (launch_us + kernel_us,) * FEW, process=self._processes))
                self.now_s += round_cost_s(SAMPLES, self.warm_us[case_id], "cuda")

    def run(self, race: Race, collected: Collected | None = None) -> tuple[Collected, list[Segment]]:
        """A race to its end."""
        collected, segments = collected or Collected(), []
        while segment := self.next_segment(race, collected):
            segments.append(segment)
            assert len(segments) < 200, "races for ever"
            self.measure(segment, collected)
        return collected, segments
