"""`gdnbench lint`: what mistakes does the source show?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.verbs.complete import complete_ops
from gdnbench.verbs.options import JsonOption, KernelsArgument, KernelsOption, joined, terms


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
    form: Annotated[str, typer.Option("--format", help="text, json, or sarif for editors and CI.")] = "text",
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
    from gdnbench.errors import UsageError
    from gdnbench.lint.check import choose_rules, lint_kernels
    from gdnbench.report.lint import parse_form, print_findings, print_rules

    told = parse_form(form)
    if json and told == "sarif":
        raise UsageError("--json and --format sarif are two formats", "ask for one")
    chosen = choose_rules(joined(select), joined(ignore))
    told = "json" if json else told
    if rules:
        if told == "sarif":
            raise UsageError("--rules lists no findings, which SARIF is for", "leave --format out, or ask for --json")
        print_rules(chosen, json=told == "json")
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
    print_findings(result, chosen, form=told)
    raise typer.Exit(result.exit_code)
