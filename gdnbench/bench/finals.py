"""Which kernel is the best at each shape of a sweep: the point to take of each, against the fastest of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdnbench.bench.points import make_point, place_of
from gdnbench.bench.race import Group
from gdnbench.bench.request import Settings
from gdnbench.bench.rounds import Rounds
from gdnbench.catalog import Catalog
from gdnbench.model import Case, Place, Plateau, Point, Shape
from gdnbench.stats import compare_with_best


def finals(
    catalog: Catalog,
    plateaus: Sequence[Plateau],
    groups: Mapping[Group, Sequence[Case]],
    rounds: Rounds,
    settings: Settings,
) -> Iterator[Point]:
    """The simplest point of every kernel, fastest first at each shape that has several.

    Kernels race among their own points, and the one whose race ended first has fewer rounds. So they are compared in
    the rounds that all of them were measured in, of which the coarse pass has some.

    Args:
        catalog: which kernels are floors, that nobody takes.
        plateaus: of every kernel and shape.
        groups: the points that were measured, by kernel and shape.
        rounds: their times.
        settings: margin and confidence.
    """
    for cases in _finalists(catalog, plateaus, groups).values():
        times = rounds.together([case.id for case in cases])
        measured_in = min(len(each) for each in times.values())
        if len(cases) < 2 or measured_in == 0:
            continue
        by_id = {case.id: case for case in cases}
        field = compare_with_best(times, margin=settings.margin, confidence=settings.confidence)
        others = [make_point(by_id[key], place_of(each), each, measured_in) for key, each in field.others.items()]
        yield make_point(by_id[field.leader], Place.BEST, None, measured_in)
        yield from sorted(others, key=lambda point: point.slower_by)


def _finalists(
    catalog: Catalog, plateaus: Sequence[Plateau], groups: Mapping[Group, Sequence[Case]]
) -> dict[Shape, list[Case]]:
    found: dict[Shape, list[Case]] = {}
    for plateau in plateaus:
        if not catalog.entries[plateau.kernel].kernel.floor:
            own = groups[plateau.kernel, plateau.shape]
            found.setdefault(plateau.shape, []).append(next(case for case in own if case.label == plateau.simplest))
    return found
