"""Histories made up for the tests: runs one after another, whose ratios, drift and steps are known."""

from datetime import UTC, datetime, timedelta

import numpy as np
from run_data import WORKLOAD, case, failed, measured, round_rows, store

from gdnbench.model.status import Role
from gdnbench.store.samples import RoundSamples, write_rounds, write_samples

FLOOR, BASELINE, KERNEL, PEER = "decode-floor-copy", "decode-fla", "decode-x", "decode-peer"
ROLES = {FLOOR: Role.FLOOR, BASELINE: Role.BASELINE}
TIMES = {FLOOR: 4.0, BASELINE: 5.0, KERNEL: 4.4, PEER: 4.8}
ROUNDS = 21
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def store_run(
    results, day, times_us=None, *, gpu="h200", card="GPU-11111111-a", commit="a" * 40, dirty=False, broken=(),
    sources=None, workload=WORKLOAD, seed=None, samples=False, params=None, plain=False, label="", op="decode",
    level=1.0, versions=None, sd=0.003, launch=0.0,
):  # fmt: skip
    """Writes a run of some day, with the rounds of each label; `level` and `launch` move all of its times together."""
    began = START + timedelta(days=day)
    run_id = f"{began:%Y%m%d-%H%M%S}-{gpu}-{op}{label}"
    folder = results / run_id
    folder.mkdir(parents=True)
    random = np.random.default_rng(day if seed is None else seed)
    rows, rounds, drawn = [], [], []
    for name, time_us in (TIMES if times_us is None else times_us).items():
        of = case(name, ROLES.get(name, Role.KERNEL), workload, **(params or {}).get(name, {}))
        if name in broken:
            rows.append(failed(of))
            continue
        values = level * time_us * np.exp(random.normal(0.0, sd, ROUNDS)) + launch
        rows.append(measured(of, float(np.median(values))))
        rounds += round_rows(run_id, of.id, values)
        drawn += [
            RoundSamples(of.id, number, random.normal(value, 0.03, 20)) for number, value in enumerate(values, start=1)
        ]
    store(
        folder, rows, run_id=run_id, gpu=gpu, op=op, timestamp=began.isoformat(),
        git={"commit": commit, "dirty": dirty},
        sources=dict.fromkeys(TIMES, "s0") | (sources or {}),
        settings={"rounds": ROUNDS, "samples": 500, "margin": 0.005, "confidence": 0.95, "plain": plain},
        machine={"gpu": {"name": f"NVIDIA {gpu.upper()}", "uuid": card}, "versions": versions or {"triton": "3.6.0"}},
    )  # fmt: skip
    write_rounds(folder, rounds)
    if samples:
        write_samples(folder, drawn)
    return folder
