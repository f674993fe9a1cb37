"""`gdnbench lint`: what mistakes does the source show?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import short_path
from gdnbench.verbs.options import (
    JsonOption,
    KernelsArgument,
    KernelsOption,
    LibraryOption,
    complete_ops,
    joined,
    terms,
)
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.lint.check import LintFinding, LintResult


def lint(
    kernels: KernelsArgument = None,
    kernel: KernelsOption = None,
    op: Annotated[
        str,
        typer.Option(
            help="The op whose kernels are meant; by default that of those named, or every op.",
            autocompletion=complete_ops,
        ),
    ] = "",
    library: LibraryOption = False,
    json: JsonOption = False,
) -> None:
    """Read kernels' Triton for a mistake that no compiler tells. Needs no GPU.

    Where no kernel is named, or all, those of every op, or of a project, are read.
    T10: a load in a loop of several stages that may be issued before a store to the
    same tensor, which neither the compiler nor the interpreter tells.
    `# gdnbench: ignore[T10] why` on a line silences it there.
    Exits with 1 if there is a finding.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import names_no_kernel, resolve_op
    from gdnbench.lint.check import lint_kernels
    from gdnbench.verbs.progress import watch

    catalog = load_catalog(library=library)
    names = terms(kernels, kernel)
    every = names_no_kernel(names) and not op
    ops = [name for name in catalog.meant_ops if catalog.of_op(name)] if every else []
    ops = ops or [resolve_op(catalog, op, names)]
    with watch(quiet=False) as observer:
        result = lint_kernels(catalog, ops, joined(names) or "all", observer)
    answer = Answer(
        text=lambda _: _text(result),
        document=lambda: _document(result),
        next=command("verify", result.findings[0].kernel if result.findings else result.kernels[0]),
    )
    print_answer(answer, json=json)
    raise typer.Exit(result.exit_code)


_FINDINGS: list[Column[LintFinding]] = [
    Column("path", lambda finding: short_path(finding.place.path)),
    Column("line", lambda finding: finding.place.line),
    Column("column", lambda finding: finding.place.column),
    Column("code", lambda finding: finding.code),
    Column("message", lambda finding: finding.message),
    Column("remedy", lambda finding: finding.remedy),
    Column("kernel", lambda finding: finding.kernel),
]


def _document(result: LintResult) -> dict[str, object]:
    from gdnbench.lint.check import CODE

    return {
        "kernels": list(result.kernels),
        "files": [short_path(path) for path in result.files],
        "rules": [CODE],
        "silenced": result.silenced,
        "findings": Table(_FINDINGS, result.findings).document,
    }


def _text(result: LintResult) -> Iterator[Block]:
    for finding in result.findings:
        place = finding.place
        head = Text(f"{short_path(place.path)}:{place.line}:{place.column}: ")
        yield Note(head.append(finding.code, style="bold red").append(f" {finding.message}"), whole=True)
        yield Note(Text(f"  → {finding.remedy}", style="cyan"), whole=True)
    counts = Counter(finding.code for finding in result.findings)
    findings = ", ".join(f"{count} {code}" for code, count in sorted(counts.items()))
    of = f"{plural(len(result.kernels), 'kernel')}, {plural(len(result.files), 'file')}"
    silenced = f"; {result.silenced} silenced by a comment" if result.silenced else ""
    unread = f"; {result.unread} not in Triton" if result.unread else ""
    yield f"{of}: {findings or 'no findings'}{silenced}{unread}"
