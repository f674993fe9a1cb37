"""One row per build, for `builds.csv`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdnbench.bench.events import Examined
from gdnbench.bench.preflight import Builds, Judged
from gdnbench.catalog import Catalog
from gdnbench.model import Build, Case, Status, Variant
from gdnbench.store import BuildRow


def build_rows(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], builds: Builds, interpreted: Judged
) -> list[BuildRow]:
    """Every build that was tried, once per head layout, with the interpreter's verdict beside it.

    A variant that is compiled otherwise at other batch sizes has a row for each, and its label says where.
    """
    distinct: dict[tuple[Variant, str, str], dict[Build | str, Case]] = {}
    for case in cases:
        for arch in archs:
            result = _result(builds, case, arch)
            if result is not None:
                alike = distinct.setdefault((case.variant, case.shape.heads, arch), {})
                alike.setdefault(result, case)
    verdicts = {(case.variant, case.shape.heads): interpreted[case.id] for case in cases if case.id in interpreted}
    names = Counter(variant.label for variant in {case.variant for case in cases})
    rows = []
    for (variant, heads, arch), found in distinct.items():
        label = _full_label(variant) if names[variant.label] > 1 or variant.is_picked else variant.label
        language = catalog.entries[variant.kernel].kernel.language
        for case in found.values():
            at = f" at B={case.shape.B}" if len(found) > 1 else ""
            rows.append(_row(case, label + at, language, arch, builds, verdicts.get((variant, heads))))
    return rows


def _result(builds: Builds, case: Case, arch: str) -> Build | str | None:
    """The build, or why there is none; None for a kernel that is not compiled."""
    failure = builds.failure(case, arch)
    return failure.message if failure else builds.of(case, arch)


def _full_label(variant: Variant) -> str:
    """For a kernel whose defaults change with the shape, or a dispatcher: its bare name stands for several builds."""
    if variant.is_picked:
        return f"{variant.label}: {variant.in_full}"
    return ":".join((variant.label, *(f"{name}={value}" for name, value in variant.params.items())))


def _row(case: Case, label: str, language: str, arch: str, builds: Builds, verdict: Examined | None) -> BuildRow:
    build, failure = builds.of(case, arch), builds.failure(case, arch)
    return BuildRow(
        kernel=case.variant.kernel,
        label=label,
        language=language,
        heads=case.shape.heads,
        arch=arch,
        registers=build.registers if build else -1,
        shared_bytes=build.shared_bytes if build else -1,
        spill_bytes=build.spill_bytes if build else -1,
        load_bits=build.load_bits if build else -1,
        code_bytes=build.code_bytes if build else -1,
        status="ok" if build else Status.BUILD_FAILED.value,
        reason=failure.message if failure else "",
        interpreter=_interpreter_says(verdict),
    )


def _interpreter_says(verdict: Examined | None) -> str:
    if verdict is None:
        return ""
    return "passed" if verdict.status is Status.OK else f"{verdict.status}: {verdict.reason}"
