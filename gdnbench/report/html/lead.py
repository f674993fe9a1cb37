"""Which kernel leads at a shape, and which cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.model import Measurement, Role
from gdnbench.report.html.stored import timed
from gdnbench.stats import FloatArray
from gdnbench.store import RunInfo


@dataclass(frozen=True, kw_only=True)
class Lead:
    """The fastest kernel of a shape.

    Attributes:
        row: its measurement.
        peers: labels of those that tie with it, or that the rounds cannot tell from it.
    """

    row: Measurement
    peers: tuple[str, ...]


def lead_of(info: RunInfo, rows: Sequence[Measurement], rounds: Mapping[str, FloatArray]) -> Lead | None:
    """The fastest of a shape's rows but for the floors, by the rounds that all share; None without a time."""
    from gdnbench.stats import Verdict, compare_with_best

    racing = {row.case.id: row for row in timed(rows) if row.role is not Role.FLOOR}
    if not racing:
        return None
    known = {name: rounds[name] for name in racing if name in rounds}
    if len(known) < len(racing) or len(known) < 2:
        return Lead(row=next(iter(racing.values())), peers=())
    try:
        field = compare_with_best(known, margin=info.settings["margin"], confidence=info.settings["confidence"])
    except ValueError:  # no rounds, or rounds that cannot be: the table's order still stands
        return Lead(row=next(iter(racing.values())), peers=())
    level = {Verdict.SAME, Verdict.UNCLEAR}
    peers = tuple(racing[name].case.label for name, other in field.others.items() if other.verdict in level)
    return Lead(row=racing[field.leader], peers=peers)
