"""Cards made up for the tests: round times with every source of noise, and stored runs of them."""

import math

import numpy as np
from decode_workloads import decode_at
from run_data import case, failed, info, round_rows, timing, versus

from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role, Status
from gdnbench.stats.processes import USUAL_LAUNCH_SD_US
from gdnbench.store.info import write_info
from gdnbench.store.measurements import write_measurements
from gdnbench.store.samples import write_rounds

PROCESSES, ROUNDS = 3, 14
KERNELS_US = {"base": 5.1, "again": 5.1, "equal": 5.1, "v8": 4.27, "v9": 4.21, "copy": 4.02}
"""`again` is the code of `base`."""


def simulate(
    generator,
    cards,
    *,
    kernels_us=KERNELS_US,
    launch_sd_us=USUAL_LAUNCH_SD_US,
    host_us=(),
    common_sd=0.003,
    card_sd=0.001,
    own_sd=0.0005,
    round_sd=0.0035,
    slower=(),
):
    """Round times of a workload on several cards; gives times by case, processes and cards.

    A launch of each process and, where told, of each card's host; what all cases of a card share; an effect of a card
    on each kernel's code; one of a process on each case; the clock of a round; the noise of a case in it.
    """
    rounds = PROCESSES * ROUNDS
    card, process = np.repeat(np.arange(cards), rounds), np.repeat(np.arange(cards * PROCESSES), ROUNDS)
    launch = generator.normal(0, launch_sd_us, cards * PROCESSES)[process]
    launch = launch + (np.asarray(host_us)[card] if len(host_us) else 0.0)
    common = generator.normal(0, common_sd, cards) + (np.asarray(slower) if len(slower) else 0.0)
    clock = generator.normal(1, 0.002, len(card)) * (1 + common)[card]
    of_code = {}
    times = {}
    for name, time_us in kernels_us.items():
        code = "base" if name == "again" else name
        of_card = of_code.setdefault(code, generator.normal(0, card_sd, cards))[card]
        own = generator.normal(0, own_sd, cards * PROCESSES)[process]
        noise = generator.normal(0, round_sd / math.sqrt(2), len(card))
        times[name] = time_us * (1 + of_card + own + noise) * clock + launch
    return times, process, card


def uuid_of(number):
    return f"GPU-{number}000aaaa-0000-0000-0000-000000000000"


CASES_US = {
    (1, "decode-fla", Role.BASELINE): 5.1, (1, "decode-v9", Role.KERNEL): 4.2, (1, "decode-v8", Role.KERNEL): 4.3,
    (1, "decode-floor-copy", Role.FLOOR): 4.0, (1, "decode-fla", Role.CONTROL): 5.1,
    (64, "decode-fla", Role.BASELINE): 21.0, (64, "decode-v9", Role.KERNEL): 20.8, (64, "decode-v8", Role.KERNEL): 20.0,
    (64, "decode-floor-copy", Role.FLOOR): 19.5, (64, "decode-fla", Role.CONTROL): 21.0,
}  # fmt: skip


def store_card_run(
    folder,
    number,
    *,
    seed=1,
    slower=0.0,
    launch_us=2.8,
    clocks=("cupti",),
    index=None,
    cases_us=CASES_US,
    mhz=1980.0,
    uuid=None,
    failing=(),
    params=None,
    **more,
):
    """Writes a whole run of the card of a number: its description, its rows and its rounds."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(1000 * seed + number)
    process_launch = generator.normal(launch_us, 0.05, PROCESSES)
    rows, rounds = [], []
    for clock in (None, *clocks):
        for (batch, label, role), time_us in cases_us.items():
            of = case(label, role, decode_at(B=batch), **(params or {}).get(label, {}))
            if label in failing:
                rows += [] if clock else [failed(of, Status.WRONG_NUMBERS, "its output is off")]
                continue
            kernel_us = (time_us - 2.8) * (1 + slower)
            times = [
                kernel_us * generator.normal(1, 0.002) + (0 if clock else process_launch[round_ // ROUNDS])
                for round_ in range(PROCESSES * ROUNDS)
            ]
            known = timing(float(np.mean(times)), timer=clock or "nvbench", sm_mhz=mhz, rounds=len(times))
            against = versus() if role in {Role.KERNEL, Role.CONTROL} else None
            rows.append(
                Measurement(case=of, status=Status.OK, timing=known, versus=against, nbytes=1_054_816, clock=clock)
            )
            rounds += round_rows(
                folder.name, of.id, times, timer=clock or "nvbench", samples=64, of_process=ROUNDS, sm_mhz=mhz
            )
    own = [row for row in rows if row.clock is None]
    gpu = {"name": "NVIDIA H200", "uuid": uuid or uuid_of(number), "index": number if index is None else index}
    settings = {"rounds": 42, "samples": 64, "processes": 3, "seed": 1, "margin": 0.005, "confidence": 0.95}
    described = info(
        **{
            "run_id": folder.name,
            "cases": [row.case.to_dict() for row in own],
            "machine": {"gpu": gpu, "host": {"hostname": "host"}},
            "settings": settings,
            "sources": {label: "1" for _, label, _ in cases_us},
            **more,
        }
    )
    write_info(folder, described)
    write_measurements(folder, described, rows)
    write_rounds(folder, rounds)
    return folder
