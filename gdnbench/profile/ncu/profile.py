"""One launch of one GPU function as Nsight Compute measured it, and how numbers are computed from its metrics.

Results of NVIDIA's rules, which ncu applies to each launch: read from reports, and stored in `<run>.rules.json`.

A rule names a possible speedup and estimates its upper limit; see "Rules" in Nsight Compute's documentation.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from gdnbench.codec import SchemaError, Text
from gdnbench.errors import ReportFormatError
from gdnbench.model.workload import Workload
from gdnbench.profile.files import SourceHash, decode_document, read_content
from gdnbench.store.schema import SmallCount

Value = float | str

GPU_NAME = "device__attribute_display_name"

# `--set full` collects two thousand metrics; half of them repeat others.
_REDUNDANT = re.compile(
    r"device__attribute_(?!display_name$)"  # device attributes
    r"|(\w+\.)?TriageCompute\."  # samples of the whole GPU, too coarse for a launch of microseconds
    r"|breakdown:|group:"  # lists of other metrics' names
    r"|derived_tempMetric|profiler__"  # ncu's own book-keeping
    r"|.*\.(min|max|sum)\.(pct_of|peak_sustained|per_cycle)"  # the average's ratio again, or constants
    r"|.*\.(min|max)\.per_second"
    r"|.*\.peak_sustained_elapsed"
)


def is_stored(name: str) -> bool:
    """Whether a metric is read from reports and stored."""
    return not _REDUNDANT.match(name)


@dataclass(frozen=True)
class Metric:
    """One metric of ncu.

    Attributes:
        name: ncu's name, `gpu__time_duration.sum`.
        unit: ncu's base unit, `ns`, `byte`, `%`; empty for a plain number.
        section: the report section that shows it, `SpeedOfLight`; empty if none does.
    """

    name: str
    unit: str
    value: Value
    section: str = ""


@dataclass(frozen=True)
class RuleResult:
    """The result of one of NVIDIA's rules, which ncu applies to each launch.

    Attributes:
        rule: the rule's identifier, `CPIStall`.
        name: the rule's name, `Warp Stall`.
        section: the report section that shows the result, `WarpStateStats`.
        title: of the message, `Long Scoreboard Stalls`; may be empty.
        message: one line without links.
        kind: `optimization` for a possible speedup; `ok` for a remark.
        speedup_pct: ncu's upper estimate in %, or None without one.
        scope: whether the estimate is of the launch's time (`global`) or of the section's metric (`local`); else empty.
    """

    rule: Text
    name: Text
    section: Text
    title: Text
    message: Text
    kind: Literal["", "ok", "optimization", "warning", "error"] = ""
    speedup_pct: float | None = None
    scope: Literal["", "local", "global"] = ""


@dataclass(frozen=True)
class LaunchProfile:
    """One profiled launch; `label`, `op` and `workload` are empty or None for a report that gdnbench did not make.

    Attributes:
        gpu: the GPU's name as ncu writes it, `NVIDIA H200`.
        arch: `sm_90`.
        function: the GPU function, `gdn_decode_v4`.
        launch: index among the launches of this function in the report.
        source: hash of the kernel's sources; empty if the report has none.
        rules: results of NVIDIA's rules, in the report's order; empty if the file holds none.
    """

    label: str
    op: str
    workload: Workload | None
    gpu: str
    arch: str
    function: str
    launch: int
    metrics: Mapping[str, Metric] = field(repr=False)
    source: str = ""
    rules: tuple[RuleResult, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name in a table: the kernel's label, else the function."""
        return self.label or self.function

    def number(self, *names: str) -> float | None:
        """Returns the first of these metrics that the report holds, in its base unit, or None if it holds none.

        ncu writes NaN for a counter that it could not read in its pass; NaN is returned then.
        """
        for name in names:
            metric = self.metrics.get(name)
            if metric is not None and isinstance(metric.value, float):
                return metric.value
        return None

    def has_all(self, *names: str) -> bool:
        """Whether each of these metrics was read."""
        return all((value := self.number(name)) is not None and not math.isnan(value) for name in names)


@dataclass(frozen=True)
class NcuReport:
    """A report file and its launches, in order."""

    path: Path
    profiles: tuple[LaunchProfile, ...]


@dataclass(frozen=True)
class Counter:
    """A quantity of metrics: the first of `names` in a report, or their `sum`, or the `ratio` of two."""

    names: tuple[str, ...]
    scale: float = 1.0
    of: Literal["first", "sum", "ratio"] = "first"

    def __call__(self, profile: LaunchProfile) -> float | None:
        """Returns the value; None if the report lacks a metric, or the divisor is 0; NaN if ncu could not read one."""
        if self.of == "first":
            value = profile.number(*self.names)
            return None if value is None else value * self.scale
        values = [value for name in self.names if (value := profile.number(name)) is not None]
        if len(values) < len(self.names):
            return None
        if self.of == "sum":
            return sum(values)
        return values[0] / values[1] if values[1] else None


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
        rules_path = _rules_path(path)
        temporary = rules_path.with_name(f".new-{rules_path.name}")
        document = {"schema": _SCHEMA, "launches": launches}
        temporary.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(rules_path)


def add_rules(profiles: tuple[LaunchProfile, ...], path: Path) -> tuple[LaunchProfile, ...]:
    """Adds the rules' results stored beside a `.csv` file of profiles, if any; raises ReportFormatError if invalid."""
    rules_path = _rules_path(path)
    if not rules_path.exists():
        return profiles
    try:
        launches = decode_document(read_content(rules_path, _DAMAGED), _RulesDocument, _SCHEMA).launches
    except SchemaError as error:
        raise ReportFormatError(f"{rules_path}: {error}", _DAMAGED) from error
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
