"""Names of a Definition's axes as gdnbench writes axes: letters and digits."""

from __future__ import annotations

import re

from gdnbench.errors import UsageError
from gdnbench.exchange.schema import Definition

_SEPARATED = re.compile(r"[^A-Za-z0-9]+")


def axis_names(definition: Definition) -> dict[str, str]:
    """Returns a unique name for each axis, `batchSize` for `batch_size`; raises UsageError if it would be too long."""
    taken, found = set(definition.tensors), dict[str, str]()
    for name in definition.axes:
        first, *rest = [part for part in _SEPARATED.split(name) if part] or [""]
        ours = first + "".join(part[0].upper() + part[1:] for part in rest)
        if not ours[:1].isalpha():
            ours = f"axis{ours}"
        while ours in taken:
            ours += "Axis"
        if len(ours) > 60:
            raise UsageError(f"{definition.name[:80]}: the axis {name[:40]!r} has too long a name", "rename it")
        taken.add(ours)
        found[name] = ours
    return found
