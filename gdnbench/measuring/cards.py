"""Runs on every card of a machine at once: an ordinary `gdnbench run` of each, with cores of its own."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.machine.cores import near_cores, share_cores, usable_cores
from gdnbench.measuring.at_once import RunJob, gdnbench_command
from gdnbench.model.gpu import Gpu

_REPLACED = {"--gpu": 1, "--label": 1, "--json": 0, "--csv": 0}
"""Options of the command line that each card's run has of its own, and how many values follow each."""


def card_jobs(gpus: Sequence[Gpu], arguments: Sequence[str], label: str) -> tuple[list[RunJob], str]:
    """The run of each card, and a line on the cores that each has.

    Args:
        gpus: the cards.
        arguments: the command line of all, behind `gdnbench`: the verb comes first.
        label: of all; each card's run adds its number to it.
    """
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
    """The command line of one card's run: that of all, with a GPU and a label of its own, and JSON on stdout."""
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
