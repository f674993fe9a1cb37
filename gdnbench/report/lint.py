"""Prints the findings of `gdnbench lint`: a line each with its remedy below, as JSON, or as SARIF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote

from rich.text import Text

from gdnbench import __version__
from gdnbench.errors import UsageError
from gdnbench.lint.check import LintResult
from gdnbench.lint.finding import LintFinding, LintRule
from gdnbench.render.console import data_console, plain_table, print_json, print_next
from gdnbench.wording import plural

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "SRCROOT"


def sarif_document(findings: Sequence[LintFinding], rules: Sequence[LintRule]) -> dict[str, Any]:
    """Returns one run of the tool, with its rules; paths below the current folder are relative to it."""
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gdnbench lint",
                        "semanticVersion": __version__,
                        "rules": [_descriptor(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
                "results": [_result(finding, numbers[finding.code]) for finding in findings],
            }
        ],
    }


def _descriptor(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.bug},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(finding: LintFinding, number: int) -> dict[str, Any]:
    place = finding.place
    region = {"startLine": place.line, "startColumn": place.column}
    return {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": "warning",
        "message": {"text": f"{finding.message}; {finding.remedy}"},
        "locations": [{"physicalLocation": {"artifactLocation": _location(place.path), "region": region}}],
    }


def _location(path: Path) -> dict[str, str]:
    if path.is_relative_to(Path.cwd()):
        return {"uri": quote(path.relative_to(Path.cwd()).as_posix()), "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}


LintFormat = Literal["text", "json", "sarif"]


def parse_form(name: str) -> LintFormat:
    """Returns the format of `--format`; raises UsageError for an unknown one."""
    forms: tuple[LintFormat, ...] = get_args(LintFormat)
    for form in forms:
        if form == name:
            return form
    raise UsageError(f"--format {name}: there is no such format of findings", f"there are {', '.join(forms)}")


def print_findings(result: LintResult, rules: Sequence[LintRule], *, form: LintFormat) -> None:
    """Prints the findings of these rules as `text`, `json` or `sarif`."""
    if form == "sarif":
        print_json(sarif_document(result.findings, rules))
    elif form == "json":
        print_json(
            {
                "kernels": list(result.kernels),
                "files": [short_path(path) for path in result.files],
                "rules": [rule.code for rule in rules],
                "silenced": result.silenced,
                "findings": [_row(finding) for finding in result.findings],
            }
        )
    else:
        _print_lines(result)


def print_rules(rules: Sequence[LintRule], *, json: bool) -> None:
    """Prints what each rule finds, and its remedy."""
    if json:
        print_json(
            [
                {
                    "code": rule.code,
                    "name": rule.name,
                    "language": rule.language,
                    "bug": rule.bug,
                    "remedy": rule.remedy,
                }
                for rule in rules
            ]
        )
        return
    console = data_console()
    table = plain_table()
    for heading in ("code", "name", "finds"):
        table.add_column(heading, no_wrap=heading == "code", overflow="fold")
    for rule in rules:
        table.add_row(Text(rule.code, style="bold"), Text(rule.name), Text(rule.bug))
    console.print(table)
    console.print()
    print_next(console, ["gdnbench", "lint", "all"])


def short_path(path: Path) -> str:
    """Returns the path relative to the current folder if it lies below, else as it is."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _row(finding: LintFinding) -> dict[str, Any]:
    place = finding.place
    return {
        "path": short_path(place.path), "line": place.line, "column": place.column, "code": finding.code,
        "message": finding.message, "remedy": finding.remedy, "kernel": finding.kernel,
    }  # fmt: skip


def _print_lines(result: LintResult) -> None:
    console = data_console()
    for finding in result.findings:
        place = finding.place
        head = Text(f"{short_path(place.path)}:{place.line}:{place.column}: ")
        head.append(finding.code, style="bold red").append(f" {finding.message}")
        console.print(head, soft_wrap=True)
        console.print(Text(f"  → {finding.remedy}", style="cyan"), soft_wrap=True)
    counts = Counter(finding.code for finding in result.findings)
    told = ", ".join(f"{count} {code}" for code, count in sorted(counts.items()))
    of = f"{plural(len(result.kernels), 'kernel')}, {plural(len(result.files), 'file')}"
    silenced = f"; {result.silenced} silenced by a comment" if result.silenced else ""
    console.print(Text(f"{of}: {told or 'no findings'}{silenced}"))
    kernel = result.findings[0].kernel if result.findings else result.kernels[0]
    print_next(console, ["gdnbench", "lint", "--rules"] if result.findings else ["gdnbench", "verify", kernel])
