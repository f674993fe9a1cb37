"""Applies the rule to the Triton sources of kernels, and drops findings that a comment silences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import select_variants
from gdnbench.errors import BuildError, ExitCode
from gdnbench.lint.moved_load import find_moved_loads
from gdnbench.model.kernel import TritonKernel
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone, ignore
from gdnbench.regular_file import MOST_SOURCE_BYTES, read_regular_text

CODE = "T10"
REMEDY = "keep the value in registers, or take num_stages from that loop"


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A place in a source; line and column, in characters, from 1."""

    path: Path
    line: int
    column: int


@dataclass(frozen=True)
class LintFinding:
    """A mistake, by the rule's code `T10`, in the kernel in which it was found first."""

    place: SourcePlace
    code: str
    message: str
    remedy: str
    kernel: str


@dataclass(frozen=True)
class LintResult:
    """The findings in some kernels' sources, by file, line and column; comments silence `silenced` more.

    `unread` of the `kernels` are not in Triton.
    """

    findings: tuple[LintFinding, ...]
    silenced: int
    kernels: tuple[str, ...]
    files: tuple[Path, ...]
    unread: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """1 if there is a finding."""
        return ExitCode.REGRESSION if self.findings else ExitCode.OK


def lint_kernels(catalog: Catalog, ops: Sequence[str], wanted: str, observer: Observer = ignore) -> LintResult:
    """Looks for the mistake in the Triton sources of kernels; `wanted` is as `select_variants` takes it.

    A dispatcher is read as the kernels that it picks. Raises UnknownNameError for an unknown kernel; BuildError if a
    source cannot be read, is not Python, or nests expressions too deeply.
    """
    entries = {entry.kernel.name: entry for op in ops for entry in _resolved(catalog, op, wanted)}
    findings: dict[SourcePlace, LintFinding] = {}
    texts: dict[Path, str] = {}
    observer(PhaseBegun("read", len(entries)))
    for name, entry in entries.items():
        observer(StepChanged(name))
        if isinstance(entry.kernel, TritonKernel):
            texts[entry.source] = _text_of(entry)
            for finding in _findings(entry, entry.kernel, texts[entry.source]):
                findings.setdefault(finding.place, finding)
        observer(UnitDone())
    reported: list[LintFinding] = []
    for path, text in texts.items():
        reported += apply_comments(text, [each for each in findings.values() if each.place.path == path])
    reported.sort(key=lambda each: each.place)
    unread = sum(not isinstance(entry.kernel, TritonKernel) for entry in entries.values())
    return LintResult(tuple(reported), len(findings) - len(reported), tuple(entries), tuple(texts), unread)


def _resolved(catalog: Catalog, op: str, wanted: str) -> Iterator[CatalogEntry]:
    for variant in select_variants(catalog, op, wanted):
        entry = catalog.entries[variant.kernel]
        picks: Iterable[str] = (pick.kernel for pick in entry.dispatch.rows) if entry.dispatch else [variant.kernel]
        yield from (catalog.entries[name] for name in picks)


def _text_of(entry: CatalogEntry) -> str:
    try:
        return read_regular_text(entry.source, MOST_SOURCE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{entry.source} cannot be read: {error}", "see `source` in variant.py") from error


def _findings(entry: CatalogEntry, kernel: TritonKernel, text: str) -> Iterator[LintFinding]:
    path, lines = entry.source, text.splitlines()
    tensors = [spec.name for spec in (*entry.op.tensors, *kernel.scratch)]
    constants = {name: param.choices for name, param in kernel.params.items()}
    try:
        tree = ast.parse(text, str(path))
        for moved in find_moved_loads(tree, [launch.entry for launch in kernel.launches], tensors, constants):
            before = lines[moved.load.lineno - 1].encode()[: moved.load.col_offset].decode(errors="replace")
            message = (
                f"the load of {moved.tensor} follows its store in line {moved.store.lineno} of a loop of "
                f"num_stages={moved.stages}: it may be issued before that store"
            )
            place = SourcePlace(path, moved.load.lineno, len(before) + 1)
            yield LintFinding(place, CODE, message, REMEDY, kernel.name)
    except (SyntaxError, ValueError) as error:  # ValueError: for a null byte, before Python 3.11.4
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BuildError(f"{path}{line}: {error}", "it is not Python as it stands") from error
    except RecursionError as error:
        message = f"{path}: an expression in it is nested too deeply to be read"
        raise BuildError(message, "split it into several") from error


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
