"""Results of NVIDIA's rules, which ncu applies to each launch: read from reports, and stored in `<run>.rules.json`.

A rule names a possible speedup and estimates its upper limit; see "Rules" in Nsight Compute's documentation.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from gdnbench.codec import SchemaError, Text
from gdnbench.errors import ReportFormatError
from gdnbench.profilers.files import SourceHash, decode_document, read_content
from gdnbench.profilers.ncu.profile import LaunchProfile, RuleResult
from gdnbench.store.schema import SmallCount

_SCHEMA = 1
_DAMAGED = "the file is damaged: profile again, or delete it"

# MsgType and SpeedupType of ncu_report.
_KINDS: dict[int, Literal["ok", "optimization", "warning", "error"]] = {
    1: "ok",
    2: "optimization",
    3: "warning",
    4: "error",
}
_SCOPES: dict[int, Literal["local", "global"]] = {1: "local", 2: "global"}

# Links in messages: `@section:Occupancy:the section@`, `@url:the text:https://…@`, `@source:kernel.cu:7:line 7@`.
_LINK = re.compile(r"@(?:section:[^:@]*:|sass:[^:@]*:|source:[^:@]*:\d+:)([^@]*)@|@url:([^:@]*):[^@]*@")


class _LaunchRules(msgspec.Struct, frozen=True):
    kernel: Text
    function: Text
    launch: SmallCount
    source: SourceHash
    rules: tuple[RuleResult, ...]


class _RulesDocument(msgspec.Struct, frozen=True):
    """The content of `<run>.rules.json`."""

    launches: list[_LaunchRules]


def rules_of(action: Any) -> Iterator[RuleResult]:
    """Yields the results for a launch, an `IAction` of `ncu_report`; older versions of the module have none."""
    for found in action.rule_results_as_dicts() if hasattr(action, "rule_results_as_dicts") else ():
        said, estimate = found.get("rule_message", {}), found.get("speedup_estimation", {})
        speedup = float(estimate.get("speedup", math.nan))
        yield RuleResult(
            rule=_line(found["rule_identifier"]),
            name=_line(found["name"]),
            section=_line(found["section_identifier"]),
            title=_line(said.get("title", "")),
            message=_line(_LINK.sub(r"\1\2", said.get("message", ""))),
            kind=_KINDS.get(int(said.get("type", 0)), ""),
            speedup_pct=speedup if math.isfinite(speedup) else None,
            scope=_SCOPES.get(int(estimate.get("type", 0)), ""),
        )


def write_rules(path: Path, profiles: Sequence[LaunchProfile]) -> None:
    """Writes the results of rules beside a `.csv` file of profiles, atomically, if there are any."""
    launches = [
        {
            "kernel": one.label,
            "function": one.function,
            "launch": one.launch,
            "source": one.source,
            "rules": [asdict(rule) for rule in one.rules],
        }
        for one in profiles
        if one.rules
    ]
    if launches:
        beside = _rules_path(path)
        temporary = beside.with_name(f".new-{beside.name}")
        document = {"schema": _SCHEMA, "launches": launches}
        temporary.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(beside)


def add_rules(profiles: tuple[LaunchProfile, ...], path: Path) -> tuple[LaunchProfile, ...]:
    """Adds the rules' results stored beside a `.csv` file of profiles, if any; raises ReportFormatError if invalid."""
    beside = _rules_path(path)
    if not beside.exists():
        return profiles
    try:
        launches = decode_document(read_content(beside, _DAMAGED), _RulesDocument, _SCHEMA).launches
    except SchemaError as error:
        raise ReportFormatError(f"{beside}: {error}", _DAMAGED) from error
    found = {(one.kernel, one.function, one.launch, one.source): one.rules for one in launches}
    return tuple(
        replace(one, rules=found.get((one.label, one.function, one.launch, one.source), ())) for one in profiles
    )


def estimated_speedups(profiles: Sequence[LaunchProfile]) -> tuple[RuleResult, ...]:
    """Returns the rules' estimates for the time of whole launches of one function, the largest first.

    Each rule is listed once, as in its first launch, with the median of its estimates over the launches.
    """
    found: dict[tuple[str, str], list[RuleResult]] = {}
    for result in (result for profile in profiles for result in profile.rules):
        if result.scope == "global" and result.speedup_pct is not None:
            found.setdefault((result.rule, result.title), []).append(result)
    medians = (
        replace(results[0], speedup_pct=statistics.median(one.speedup_pct or 0.0 for one in results))
        for results in found.values()
    )
    return tuple(sorted(medians, key=lambda result: -(result.speedup_pct or 0.0)))


def _rules_path(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.gz').removesuffix('.csv')}.rules.json")


def _line(text: str) -> str:
    """Returns a text in one line, without control characters."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", str(text)).split())
