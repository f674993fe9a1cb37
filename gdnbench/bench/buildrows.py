"""One row per build, for `builds.csv`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdnbench.bench.events import Examined
from gdnbench.bench.preflight import Builds, Judged
from gdnbench.catalog import Catalog
from gdnbench.model import Case, Status, TorchKernel, Variant
from gdnbench.store import BuildRow


def build_rows(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], builds: Builds, interpreted: Judged
) -> list[BuildRow]:
    """Every build that was tried, once per head layout, with the interpreter's verdict beside it."""
    rows: dict[tuple[Variant, str, str], BuildRow] = {}
    verdicts = {(case.variant, case.shape.heads): interpreted[case.id] for case in cases if case.id in interpreted}
    several = Counter(variant.label for variant in {case.variant for case in cases})
    for case in cases:
        if isinstance(catalog.entries[case.variant.kernel].kernel, TorchKernel):
            continue
        for arch in archs:
            key = (case.variant, case.shape.heads, arch)
            if key not in rows and (key in builds.made or key in builds.failed):
                language = catalog.entries[case.variant.kernel].kernel.language
                is_one_of_several = several[case.variant.label] > 1 or case.variant.is_picked
                label = _full_label(case.variant) if is_one_of_several else case.variant.label
                rows[key] = _row(case, label, language, arch, builds, verdicts.get(key[:2]))
    return list(rows.values())


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
