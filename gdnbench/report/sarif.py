"""Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which editors and CI services read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gdnbench import __version__
from gdnbench.lint.finding import LintFinding, LintRule

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
