"""NVIDIA's own rules, which ncu applies to every launch: their results in a report, and stored in `<run>.rules.json`.

A rule names what could be faster and estimates by how much at most; see "Rules" in Nsight Compute's documentation.
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
from gdnbench.profilers.ncu.profile import Profile, RuleResult
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
    """The results of the rules for one launch."""

    kernel: Text
    function: Text
    launch: SmallCount
    source: SourceHash
    rules: tuple[RuleResult, ...]


class _RulesDocument(msgspec.Struct, frozen=True):
    """What `<run>.rules.json` holds."""

    launches: list[_LaunchRules]


def rules_of(action: Any) -> Iterator[RuleResult]:
    """What NVIDIA's rules say of a launch; older versions of NVIDIA's module do not give it.

    Args:
        action: a launch, an `IAction` of `ncu_report`.
    """
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


def write_rules(path: Path, profiles: Sequence[Profile]) -> None:
    """Writes the results of rules beside a `.csv` file of profiles, in one step; nothing if there are none."""
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


def add_rules(profiles: tuple[Profile, ...], path: Path) -> tuple[Profile, ...]:
    """Profiles of a `.csv` file with the results of rules that are stored beside it; as they are if none are.

    Raises:
        ReportFormatError: if the file beside it cannot be read, or a field of it cannot be what it is.
    """
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


def estimated_speedups(profiles: Sequence[Profile]) -> tuple[RuleResult, ...]:
    """What NVIDIA's rules estimate for the time of whole launches, the most first.

    Args:
        profiles: launches of one function.

    Returns:
        The rules' results whose speedup is of the launch's time: each once, as the first launch has it, with the median
        of its estimates over the launches.
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
    """A text in one line, without control characters."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", str(text)).split())
