"""`gdnbench lint`: what mistakes does the source show?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import short_path
from gdnbench.verbs.complete import complete_ops
from gdnbench.verbs.options import JsonOption, KernelsArgument, KernelsOption, joined, terms
from gdnbench.wording import plural

if TYPE_CHECKING:
    from gdnbench.lint.check import LintResult
    from gdnbench.lint.finding import LintFinding, LintRule


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
    select: Annotated[
        list[str] | None, typer.Option(metavar="CODE,…", help="Look for these rules alone: T1, or T for all of Triton.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="CODE,…", help="Leave these rules out.")] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules, and read nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Read kernels' sources for known mistakes. Needs no GPU, runs nothing.

    Where no kernel is named, or all, the kernels of every op are read.
    Triton: accesses beyond a tensor without a mask, int32 offsets that overflow at
    the op's largest workload, TF32 by default, sums in 16 bits, launches that CUDA
    refuses, mistakes of autotuning. CUDA: pointers that lack const __restrict__,
    overflowing offsets, refused launches.
    `# gdnbench: ignore[T1] why` (in CUDA: //) on a line silences a rule there.
    Exits with 1 if there is a finding.
    """
    from gdnbench.lint.check import choose_rules, lint_kernels

    chosen = choose_rules(joined(select), joined(ignore))
    if rules:
        print_answer(
            Answer([Table(_RULES, chosen)], text=lambda _: [Table(_RULES, chosen), ""], next=command("lint", "all")),
            json=json,
        )
        return
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.select import names_no_kernel, resolve_op
    from gdnbench.verbs.progress import waiting

    catalog = load_catalog()
    names = terms(kernels, kernel)
    every = names_no_kernel(names) and not op
    ops = [name for name in catalog.ops if catalog.of_op(name)] if every else [resolve_op(catalog, op, names)]
    with waiting("reading sources"):
        result = lint_kernels(catalog, ops, joined(names) or "all", chosen)
    answer = Answer(text=lambda _: _text(result), document=lambda: _document(result, chosen), next=_next(result))
    print_answer(answer, json=json)
    raise typer.Exit(result.exit_code)


_RULES: list[Column[LintRule]] = [
    Column("code", lambda rule: rule.code, "code", style="bold"),
    Column("name", lambda rule: rule.name, "name", fold=True),
    Column("language", lambda rule: rule.language),
    Column("bug", lambda rule: rule.bug, "finds", fold=True),
    Column("remedy", lambda rule: rule.remedy),
]

_FINDINGS: list[Column[LintFinding]] = [
    Column("path", lambda finding: short_path(finding.place.path)),
    Column("line", lambda finding: finding.place.line),
    Column("column", lambda finding: finding.place.column),
    Column("code", lambda finding: finding.code),
    Column("message", lambda finding: finding.message),
    Column("remedy", lambda finding: finding.remedy),
    Column("kernel", lambda finding: finding.kernel),
]


def _document(result: LintResult, rules: Sequence[LintRule]) -> dict[str, object]:
    return {
        "kernels": list(result.kernels),
        "files": [short_path(path) for path in result.files],
        "rules": [rule.code for rule in rules],
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
    yield f"{of}: {findings or 'no findings'}{silenced}"


def _next(result: LintResult) -> tuple[str, ...]:
    return command("lint", "--rules") if result.findings else command("verify", result.kernels[0])
