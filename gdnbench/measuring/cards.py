"""Runs on every card of a machine at once: a `gdnbench run` per card, each with its own cores."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.machine.cores import near_cores, share_cores, usable_cores
from gdnbench.measuring.at_once import RunJob, gdnbench_command
from gdnbench.model.gpu import Gpu

_REPLACED = {"--gpu": 1, "--label": 1, "--json": 0, "--csv": 0}
"""Options of the command line that each card's run sets itself, and the number of values after each."""


def card_jobs(gpus: Sequence[Gpu], arguments: Sequence[str], label: str) -> tuple[list[RunJob], str]:
    """Returns the run of each card, its number behind the common label, and a line on the cores that each has."""
    usable = usable_cores()
    parts, is_near = share_cores(usable, near_cores(gpus))
    jobs = [
        RunJob(f"GPU {gpu.index}", gdnbench_command(card_arguments(arguments, gpu, label)), cores)
        for gpu, cores in zip(gpus, parts, strict=True)
    ]
    if len(usable) < len(gpus):
        return jobs, f"{len(usable)} cores for {len(gpus)} cards: they share all of them"
    count = min(map(len, parts))
    return jobs, f"each card's run has {count} cores of its own{', near its card' if is_near else ''}"


def card_arguments(arguments: Sequence[str], gpu: Gpu, label: str) -> list[str]:
    """The common command line with a card's GPU and label, and with JSON on stdout."""
    kept, skipped = [], 0
    for word in arguments:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in _REPLACED:
            skipped = 0 if equals else _REPLACED[name]
        else:
            kept.append(word)
    own = "-".join(filter(None, (label, f"card{gpu.index}")))
    confirmed = [] if "--yes" in kept or "-y" in kept else ["--yes"]
    return [*kept[:1], *confirmed, "--gpu", gpu.uuid, "--label", own, "--json", *kept[1:]]
