"""Lists shortened in labels and file names, `lengths=15n-4124-0c1f2e3d`, and their expansion.

That is 15 sizes, 4124 in all, and the first eight digits of the list's SHA-256: see `axes.short_list`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdnbench.errors import UsageError
from gdnbench.model.axes import short_list, write_list
from gdnbench.model.workload import Workload

_SHORTENED = re.compile(r"(?<![\w-])\d+n-\d+-[0-9a-f]{8}(?![\w-])")


def explain_short_lists(workloads: Iterable[Workload]) -> str:
    """Explains the first shortened list in the labels of workloads; empty if none is shortened."""
    for workload in workloads:
        for name, sizes in workload.lists.items():
            if (short := short_list(sizes)) != write_list(sizes):
                told = f"{name}={short}: {len(sizes)} {name}, {sum(sizes):,} in all, and a hash of them"
                return f"{told}; measurements.csv has them in full"
    return ""


def has_short_lists(text: str) -> bool:
    """Whether a text, as `--shape` takes it, has a shortened list."""
    return bool(_SHORTENED.search(text))


def write_in_full(text: str, workloads: Iterable[Workload]) -> str:
    """A text, as `--shape` takes it, with each shortened list replaced by that of one of the workloads.

    UsageError is raised for a list that no workload has.
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
