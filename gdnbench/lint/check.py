"""Applies rules to the sources of kernels, and drops findings that a comment silences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import BuildError, ExitCode
from gdnbench.lint.rules import RULES
from gdnbench.lint.settings import SourcePlace, settings_of
from gdnbench.lint.triton_source import read_triton
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.model.case import Variant
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone, ignore
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular_text


@dataclass(frozen=True)
class LintFinding:
    """A mistake, by the rule's code `T1`, in the kernel in which it was found first."""

    place: SourcePlace
    code: str
    message: str
    remedy: str
    kernel: str


@dataclass(frozen=True)
class LintResult:
    """The findings in some kernels' sources, by file, line and column; comments silence `silenced` more.

    `cuda` of the `kernels` are in CUDA, and not read.
    """

    findings: tuple[LintFinding, ...]
    silenced: int
    kernels: tuple[str, ...]
    files: tuple[Path, ...]
    cuda: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """1 if there is a finding."""
        return ExitCode.REGRESSION if self.findings else ExitCode.OK


def lint_kernels(catalog: Catalog, ops: Sequence[str], wanted: str, observer: Observer = ignore) -> LintResult:
    """Applies every rule to the sources in Python of kernels; `wanted` is as `select_variants` takes it.

    A dispatcher is read as the kernels that it picks. Raises UnknownNameError for an unknown kernel; BuildError if a
    source cannot be read, is not Python, or nests expressions too deeply.
    """
    found = (each for op in ops for each in _resolved(catalog, select_variants(catalog, op, wanted)))
    variants = {variant: entry for entry, variant in found}  # of which dispatchers pick most
    findings: dict[tuple[object, str], LintFinding] = {}
    texts: dict[Path, str] = {}
    observer(PhaseBegun("read", len(variants)))
    for variant, entry in variants.items():
        observer(StepChanged(variant.label))
        try:
            if not isinstance(entry.kernel, CudaKernel):
                subject = _subject(entry, variant)
                texts[subject.source.path] = subject.source.text
                for rule in RULES:
                    for place, message in rule.check(subject):
                        found_here = LintFinding(place, rule.code, message, rule.remedy, subject.label)
                        findings.setdefault((place, rule.code), found_here)
        except RecursionError as error:
            message = f"{entry.source}: an expression in it, or beside it, is nested too deeply to be read"
            raise BuildError(message, "split it into several") from error
        observer(UnitDone())
    reported: list[LintFinding] = []
    for path, text in texts.items():
        reported += apply_comments(text, [each for each in findings.values() if each.place.path == path])
    reported.sort(key=lambda each: (each.place, each.code))
    labels = dict.fromkeys(variant.label for variant in variants)
    cuda = len({variant.label for variant, entry in variants.items() if isinstance(entry.kernel, CudaKernel)})
    return LintResult(tuple(reported), len(findings) - len(reported), tuple(labels), tuple(texts), cuda)


def _resolved(catalog: Catalog, variants: Iterable[Variant]) -> Iterator[tuple[CatalogEntry, Variant]]:
    for variant in variants:
        entry = catalog.entries[variant.kernel]
        if entry.dispatch is None:
            yield entry, variant
        for pick in entry.dispatch.rows if entry.dispatch else ():
            picked = catalog.entries[pick.kernel]
            yield picked, picked.with_params(picked.default, dict(pick.params))


def _subject(entry: CatalogEntry, variant: Variant) -> TritonSubject:
    kernel, path = entry.kernel, entry.source
    try:
        source = read_triton(path, read_regular_text(path, MOST_SOURCE_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path} cannot be read: {error}", "see `source` in variant.py") from error
    except SyntaxError as error:
        raise BuildError(f"{path}:{error.lineno}: {error.msg}", "it is not Python as it stands") from error
    launches = kernel.launches if isinstance(kernel, TritonKernel) else ()
    settings = {launch.entry: tuple(settings_of(entry, variant, launch)) for launch in launches}
    return TritonSubject(source, settings, variant.label)


_COMMENT = re.compile(r"#\s*gdnbench:\s*ignore\[\s*([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)\s*\][ \t]*(.*)")


def apply_comments(text: str, findings: list[LintFinding]) -> list[LintFinding]:
    """Returns the findings of a file that no comment silences; a comment needs a reason."""
    lines = text.splitlines()
    remaining: list[LintFinding] = []
    for finding in findings:
        comment = _COMMENT.search(lines[finding.place.line - 1])
        if comment is None or finding.code not in re.split(r"\s*,\s*", comment[1]):
            remaining.append(finding)
        elif not re.search(r"\w", comment[2]):
            remedy = f"say why behind ignore[{comment[1]}]: without a reason it does nothing"
            remaining.append(replace(finding, remedy=remedy))
    return remaining
