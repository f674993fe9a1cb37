"""Lists that labels and file names shorten, `lengths=15n-4124-0c1f2e3d`, and where they are found in full.

Fifteen sizes, 4124 in all, and the first eight digits of the SHA-256 of the list in full: see `axes.short_list`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdnbench.errors import UsageError
from gdnbench.model.axes import short_list, write_list
from gdnbench.model.workload import Workload

_SHORTENED = re.compile(r"(?<![\w-])\d+n-\d+-[0-9a-f]{8}(?![\w-])")


def explain_short_lists(workloads: Iterable[Workload]) -> str:
    """What the first shortened list in the labels of workloads stands for; empty where each is told in full."""
    for workload in workloads:
        for name, sizes in workload.lists.items():
            if (short := short_list(sizes)) != write_list(sizes):
                told = f"{name}={short}: {len(sizes)} {name}, {sum(sizes):,} in all, and a hash of them"
                return f"{told}; measurements.csv has them in full"
    return ""


def has_short_lists(text: str) -> bool:
    """Whether a text, as `--shape` takes it, names a list by its shortened form."""
    return bool(_SHORTENED.search(text))


def write_in_full(text: str, workloads: Iterable[Workload]) -> str:
    """A text, as `--shape` takes it, with each shortened list in full.

    Args:
        text: `lengths=15n-4124-0c1f2e3d`.
        workloads: those among which the lists are looked for.

    Raises:
        UsageError: for a list that none of them has.
    """
    known = {short_list(sizes): write_list(sizes) for workload in workloads for sizes in workload.lists.values()}

    def full(shortened: re.Match[str]) -> str:
        if shortened[0] not in known:
            raise UsageError(
                f"{shortened[0]} stands for a list that no suite of the op has",
                "it is a count, a sum and a hash: a run's measurements.csv has the list in full, to be given instead",
            )
        return known[shortened[0]]

    return _SHORTENED.sub(full, text)
