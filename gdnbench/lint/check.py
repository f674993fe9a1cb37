"""Applies rules to the sources of kernels, and drops findings that a comment silences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import BuildError, ExitCode, UsageError
from gdnbench.lint.cuda_source import CudaSubject, read_cuda_subjects, read_source
from gdnbench.lint.finding import LintFinding, LintRule, apply_comments
from gdnbench.lint.rules import RULES
from gdnbench.lint.settings import settings_of
from gdnbench.lint.triton_source import read_triton
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.model.case import Variant
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.wording import did_you_mean


@dataclass(frozen=True)
class LintResult:
    """The findings in some kernels' sources, by file, line and column; comments silence `silenced` more."""

    findings: tuple[LintFinding, ...]
    silenced: int
    kernels: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def exit_code(self) -> ExitCode:
        """1 if there is a finding."""
        return ExitCode.REGRESSION if self.findings else ExitCode.OK


def choose_rules(select: str, ignore: str) -> tuple[LintRule, ...]:
    """Returns the rules whose codes begin with one of `select`, by default all, less those of `ignore`; as in `T1,C`.

    Raises UsageError for a code that no rule begins with, or if no rule is left.
    """
    wanted, ignored = _codes(select), _codes(ignore)
    codes = [rule.code for rule in RULES if rule.code.startswith(wanted or "") and not rule.code.startswith(ignored)]
    chosen = tuple(rule for rule in RULES if rule.code in codes)
    if not chosen:
        raise UsageError("no rule is left", "`gdnbench lint --rules` lists them")
    return chosen


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple(code.strip().upper() for code in text.split(",") if code.strip())
    for code in codes:
        if not any(rule.code.startswith(code) for rule in RULES):
            hint = did_you_mean(code, [rule.code for rule in RULES], "`gdnbench lint --rules` lists them", cutoff=0.5)
            raise UsageError(f"there is no rule {code}", hint)
    return codes


def lint_kernels(catalog: Catalog, ops: Sequence[str], wanted: str, rules: Sequence[LintRule]) -> LintResult:
    """Applies rules to the sources of kernels; `wanted` is as `select_variants` takes it.

    A dispatcher is read as the kernels that it picks. Raises UnknownNameError for an unknown kernel; BuildError if a
    source cannot be read, is not Python, or nests expressions too deeply.
    """
    variants = [each for op in ops for each in _resolved(catalog, select_variants(catalog, op, wanted))]
    findings: dict[tuple[object, str], LintFinding] = {}
    texts: dict[Path, str] = {}
    for entry, variant in variants:
        try:
            for subject in _subjects(entry, variant):
                texts[subject.source.path] = subject.source.text
                for finding in _apply(rules, subject):
                    findings.setdefault((finding.place, finding.code), finding)
        except RecursionError as error:
            message = f"{entry.source}: an expression in it, or beside it, is nested too deeply to be read"
            raise BuildError(message, "split it into several") from error
    reported: list[LintFinding] = []
    for path, text in texts.items():
        reported += apply_comments(text, [each for each in findings.values() if each.place.path == path])
    reported.sort(key=lambda each: (each.place, each.code))
    labels = dict.fromkeys(variant.label for _, variant in variants)
    return LintResult(tuple(reported), len(findings) - len(reported), tuple(labels), tuple(texts))


def _resolved(catalog: Catalog, variants: Iterable[Variant]) -> Iterator[tuple[CatalogEntry, Variant]]:
    for variant in variants:
        entry = catalog.entries[variant.kernel]
        if entry.dispatch is None:
            yield entry, variant
        for pick in entry.dispatch.rows if entry.dispatch else ():
            picked = catalog.entries[pick.kernel]
            yield picked, picked.with_params(picked.default, dict(pick.params))


def _subjects(entry: CatalogEntry, variant: Variant) -> Iterator[TritonSubject | CudaSubject]:
    kernel = entry.kernel
    if isinstance(kernel, CudaKernel):
        yield from read_cuda_subjects(entry, variant)
        return
    text = read_source(entry.source)
    try:
        source = read_triton(entry.source, text)
    except SyntaxError as error:
        raise BuildError(f"{entry.source}:{error.lineno}: {error.msg}", "it is no Python as it stands") from error
    launches = kernel.launches if isinstance(kernel, TritonKernel) else ()
    settings = {launch.entry: tuple(settings_of(entry, variant, launch)) for launch in launches}
    yield TritonSubject(source, settings, variant.label)


def _apply(rules: Sequence[LintRule], subject: Any) -> Iterator[LintFinding]:
    language = "triton" if isinstance(subject, TritonSubject) else "cuda"
    for rule in rules:
        if rule.language == language:
            for place, message in rule.check(subject):
                yield LintFinding(place, rule.code, message, rule.remedy, subject.label)
