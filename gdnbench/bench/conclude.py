"""Reads a sweep's answer off its rounds: plateaus, the simplest point on each, and one point for all shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdnbench.bench.finals import finals
from gdnbench.bench.measuring import Collected
from gdnbench.bench.points import make_point, place_of
from gdnbench.bench.race import Group, group_cases, judge_groups, survivors
from gdnbench.bench.request import Settings
from gdnbench.bench.rounds import Rounds
from gdnbench.catalog import Catalog
from gdnbench.model import Case, Kernel, OneForAll, Params, Place, Plateau, Point, Shape, Sweep
from gdnbench.stats import Field

Axes = dict[str, dict[str, list[str | int]]]


def conclude(
    catalog: Catalog,
    cases: Sequence[Case],
    swept: Mapping[str, Sequence[str]],
    collected: Collected,
    settings: Settings,
) -> Sweep:
    """A sweep's answer.

    Args:
        catalog: for the kernels' defaults and the order of their choices.
        cases: every case of the sweep, measured or not.
        swept: names of the params tried, by kernel.
        collected: the samples.
        settings: margin, confidence and budget.
    """
    groups = group_cases([case for case in cases if collected.samples.get(case.id)], swept)
    rounds = Rounds(collected, settings.confidence)
    fields = judge_groups(groups, rounds, collected, settings.margin, settings.confidence)
    points = {group: _points(field, collected) for group, field in fields.items()}
    plateaus = tuple(_plateau(catalog.entries[kernel].kernel, shape, points[kernel, shape]) for kernel, shape in fields)
    return Sweep(
        axes=_axes(group_cases(cases, swept), swept),
        budget_s=settings.budget_s or 0.0,
        points=tuple(point for group in points.values() for point in group),
        plateaus=plateaus,
        one_for_all=_one_for_all(catalog, plateaus, points, settings.margin),
        finals=tuple(finals(catalog, plateaus, groups, rounds, settings)),
    )


def _points(field: Field[Case], collected: Collected) -> list[Point]:
    """The leader and the others, fastest first."""
    still = set(survivors(field, collected))
    found = [make_point(field.leader, Place.BEST, None, len(collected.samples[field.leader.id]))]
    for case, comparison in field.others.items():
        # What an earlier look dropped stays slower: later intervals of its few rounds only grow.
        place = place_of(comparison) if case in still else Place.SLOWER
        found.append(make_point(case, place, comparison, len(collected.samples[case.id])))
    return [found[0], *sorted(found[1:], key=lambda point: point.slower_by)]


def _plateau(kernel: Kernel, shape: Shape, points: Sequence[Point]) -> Plateau:
    tied = [point for point in points if point.place in {Place.BEST, Place.TIED}]
    return Plateau(
        kernel=kernel.name,
        shape=shape,
        best=points[0].label,
        simplest=min(tied, key=lambda point: simplicity(kernel, point.params)).label,
        tied=tuple(point.label for point in tied),
        unclear=tuple(point.label for point in points if point.place is Place.UNCLEAR),
        within=max(point.slower_hi for point in tied),
    )


def simplicity(kernel: Kernel, params: Params) -> tuple[int, tuple[int, ...]]:
    """Smaller is simpler: fewer params away from the kernel's defaults, then earlier among the declared choices.

    A change of a default needs a reason, and a tie is none.
    """
    changed = sum(params[name] != param.default for name, param in kernel.params.items())
    return changed, tuple(param.choices.index(params[name]) for name, param in kernel.params.items())


def _one_for_all(
    catalog: Catalog, plateaus: Sequence[Plateau], points: Mapping[Group, Sequence[Point]], margin: float
) -> tuple[OneForAll, ...]:
    shapes: dict[str, list[Shape]] = {}
    for plateau in plateaus:
        shapes.setdefault(plateau.kernel, []).append(plateau.shape)
    return tuple(
        _least_regret(catalog.entries[name].kernel, [points[name, shape] for shape in of_kernel], margin)
        for name, of_kernel in shapes.items()
        if len(of_kernel) > 1 and _everywhere([points[name, shape] for shape in of_kernel])
    )


def _everywhere(by_shape: Sequence[Sequence[Point]]) -> set[str]:
    """Labels of the points that were measured at every shape."""
    return set.intersection(*({point.label for point in points} for points in by_shape))


def _least_regret(kernel: Kernel, by_shape: Sequence[Sequence[Point]], margin: float) -> OneForAll:
    """The simplest of the points whose worst regret is within the margin of the least worst regret."""
    labels = _everywhere(by_shape)
    params = {point.label: point.params for point in by_shape[0]}
    choices = [
        OneForAll(
            kernel=kernel.name,
            label=label,
            regret={
                point.shape: max(0.0, point.slower_by)
                for points in by_shape
                for point in points
                if point.label == label
            },
        )
        for label in labels
    ]
    least = min(choice.worst[1] for choice in choices)
    near = [choice for choice in choices if choice.worst[1] <= least + margin]
    return min(near, key=lambda choice: simplicity(kernel, params[choice.label]))


def _axes(groups: Mapping[Group, Sequence[Case]], swept: Mapping[str, Sequence[str]]) -> Axes:
    """The values tried, in the order in which the grid has them."""
    axes: Axes = {}
    for (kernel, _), cases in groups.items():
        axes[kernel] = {
            name: list(dict.fromkeys(case.variant.params[name] for case in cases)) for name in swept.get(kernel, ())
        }
    return axes
