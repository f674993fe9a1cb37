"""Calibrations made up for the tests: runs of a machine whose noise and whose truth are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdnbench.analyse.analysis import analyse
from gdnbench.analyse.rounds import Collected
from gdnbench.calibrate.measure import TARGETS, chain_of, choose_subject, comparisons_of
from gdnbench.measure.run import Finished
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Status
from gdnbench.store.calibration import Calibration, EqualRates, PlantedRates
from gdnbench.store.journal import Examined, Sampled

H200 = Gpu(0, "NVIDIA H200", "GPU-8ffb0000", (9, 0), memory_bytes=150 << 30)
TIMES_US = {1: 4.3, 8: 6.2, 64: 26.0}
"""Of the kernel without additions, the mean launch included, by batch size."""


@dataclass
class SimulatedMachine:
    """Draws runs: t = launch(process) + kernel * (1 + effect(case, process)) * placement * round.

    Args:
        seed: of the noise.
        launch_us: standard deviation of what a process adds to every time.
        effect: of what a process does to a case alone, relative.
        placement: of a case in a round, whose placements are fresh, relative.
        level: of a round, which all cases share, relative.
        hidden: of a variant in a run, relative: what no interval of the run can hold, nor its control show.
        cost_us: what an addition costs, by batch size.
    """

    seed: int = 1
    launch_us: float = 0.055
    effect: float = 0.0006
    placement: float = 0.004
    level: float = 0.003
    hidden: float = 0.0
    cost_us: dict[int, float] = field(default_factory=lambda: {1: 0.002, 8: 0.0015, 64: 0.004})

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def slowdown(self, batches, chain):
        return self.cost_us[batches] * chain / TIMES_US[batches]

    def collect(self, plan):
        settings, random = plan.request.settings, self.random
        collected = Collected()
        process = np.arange(settings.rounds) * settings.processes // settings.rounds
        launch = random.normal(0, self.launch_us, settings.processes)[process]
        level = random.normal(1, self.level, settings.rounds)
        hidden = {variant: random.normal(1, self.hidden) for variant in {case.variant: None for case in plan.cases}}
        for case in plan.cases:
            batches = case.workload.B
            true_us = TIMES_US[batches] * (1 + self.slowdown(batches, chain_of(case))) * hidden[case.variant]
            effect = random.normal(1, self.effect, settings.processes)[process]
            times = launch + true_us * effect * level * random.normal(1, self.placement, settings.rounds)
            for number, time_us in enumerate(times):
                event = Sampled(number + 1, case.id, (float(time_us),) * 4, process=int(process[number]) + 1)
                collected.take(event)
        return collected

    def analyse(self, plan, failing=()):
        checked = {case.id: Examined(case.id, Status.OK, launches=1, warm_us=4.0) for case in plan.cases}
        checked |= {case_id: Examined(case_id, Status.CRASHED, "the process died") for case_id in failing}
        return analyse(
            plan.request.op, plan.cases, checked, {}, self.collect(plan), plan.request.settings,
            timer="nvbench", run_id="r", copying={"decode-floor-copy"},
        )  # fmt: skip


@dataclass
class SimulatedSession:
    """Stands in for a run's session: it measures on the simulated machine and writes nothing."""

    machine: SimulatedMachine
    plan: object
    folder: object
    interrupted: bool = False
    failing: tuple = ()

    def run(self):
        return Finished(self.folder, None, self.machine.analyse(self.plan, self.failing), self.interrupted)


def subject(axes="B=1,8,64", runs=6, processes=3, rounds=42):
    return choose_subject(H200, axes=axes, runs=runs, processes=processes, rounds=rounds)


def chains_of(machine, workloads):
    """The chains that really cost what is wanted."""
    return {
        workload: {round(target * TIMES_US[workload.B] / machine.cost_us[workload.B]): target for target in TARGETS}
        for workload in workloads
    }


def comparisons(machine, of, plan_of, runs):
    """The comparisons of so many runs."""
    chains = chains_of(machine, of.workloads)
    found = []
    for number in range(1, runs + 1):
        found += comparisons_of(machine.analyse(plan_of(of, chains, number)), chains)
    return found


def calibration(**more):
    values = {
        "timestamp": "2026-11-22T03:04:05+00:00", "host": "rack-1", "gpu": "h200", "gpu_name": "NVIDIA H200",
        "uuid": H200.uuid, "driver": "580.95.05", "folder": "/results/calibration/x", "runs": 6, "asked": 6,
        "processes": 3, "rounds": 42, "margin": 0.005, "confidence": 0.95,
        "equal": [equal("B=1 qk4_v8", claims=1), equal("B=64 qk4_v8")],
        "planted": [planted(0.003, 0), planted(0.01, 6), planted(0.02, 6)],
    }  # fmt: skip
    return Calibration(**{**values, **more})


def equal(workload="B=1 qk4_v8", names=4, comparisons=24, claims=0, covered=23, rms_z=1.1):
    return EqualRates(
        workload=workload, names=names, comparisons=comparisons, claims=claims, covered=covered, rms_z=rms_z
    )  # fmt: skip


def planted(target, found, workload="B=1 qk4_v8", slowdown=None, comparisons=6, apart=6, covered=6):
    return PlantedRates(
        workload=workload, target=target, chain=round(2000 * target), slowdown=slowdown or 1.1 * target,
        comparisons=comparisons, found=found, apart=apart, covered=covered,
    )  # fmt: skip
