"""Splits the CPU cores among the processes of several GPUs, so that they do not disturb each other."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from gdnbench.machine.gpus import open_nvml
from gdnbench.model.gpu import Gpu

Cores = frozenset[int]

_MOST_CORES = 4096
_WORD_BITS = 64


def share_cores(usable: Collection[int], near: Sequence[Cores]) -> tuple[tuple[Cores, ...], bool]:
    """Splits the cores that this process may use among GPUs, evenly and in disjoint parts.

    Args:
        usable: the cores, ordered so that those of one physical core are neighbours.
        near: the cores of each GPU's NUMA node; an empty set if unknown.

    Returns:
        A part for each GPU, and whether it was chosen by its GPU's node. Each part is all cores if there are fewer
            cores
        than GPUs.
    """
    groups = {each: [number for number, other in enumerate(near) if other == each] for each in near}
    own = {each: [core for core in usable if core in each] for each in groups}
    whole = sum(map(len, own.values()))
    apart = whole == len({core for cores in own.values() for core in cores})
    if apart and all(len(own[each]) >= len(numbers) for each, numbers in groups.items()):
        parts: dict[int, Cores] = {}
        for each, numbers in groups.items():
            parts |= dict(zip(numbers, _even(own[each], len(numbers)), strict=True))
        return tuple(parts[number] for number in range(len(near))), any(not each.issuperset(usable) for each in near)
    if len(usable) < len(near):
        return (frozenset(usable),) * len(near), False
    return tuple(_even(list(usable), len(near))), False


def _even(cores: Sequence[int], parts: int) -> list[Cores]:
    """Parts of equal size; a remainder stays unused."""
    size = len(cores) // parts
    return [frozenset(cores[number * size : (number + 1) * size]) for number in range(parts)]


def usable_cores() -> list[int]:
    """The logical cores that this process may use, those of one physical core side by side."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (_first_sibling(core), core))


def _first_sibling(core: int) -> int:
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return core


def near_cores(gpus: Sequence[Gpu]) -> tuple[Cores, ...]:
    """The cores of each GPU's NUMA node, by NVML; empty sets if unknown."""
    with open_nvml() as nvml:
        if nvml is None:
            return (frozenset(),) * len(gpus)
        words = _MOST_CORES // _WORD_BITS
        masks = [
            nvml.ask("DeviceGetCpuAffinity", nvml.ask("DeviceGetHandleByUUID", gpu.uuid), words) or () for gpu in gpus
        ]
    return tuple(
        frozenset(
            place * _WORD_BITS + bit for place, mask in enumerate(each) for bit in range(_WORD_BITS) if mask >> bit & 1
        )
        for each in masks
    )
