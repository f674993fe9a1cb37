"""Reads a report through `ncu_report`: NVIDIA's module, as a wheel of its own or beside ncu."""

from __future__ import annotations

import importlib
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from gdnbench.doctor.versions import as_numbers
from gdnbench.errors import ReportFormatError
from gdnbench.profilers.ncu.keep import GPU_NAME, is_kept
from gdnbench.profilers.ncu.profile import Metric, Profile, Value
from gdnbench.profilers.ncu.store import WHAT_IS_READ
from gdnbench.profilers.ranges import DOMAIN, Launched, parse_name

_MAJOR, _MINOR = (f"device__attribute_compute_capability_{part}" for part in ("major", "minor"))


def load_reader(ncu: Path | None, installed: Path = Path("/opt/nvidia/nsight-compute")) -> ModuleType | None:
    """The module `ncu_report`: the wheel, else the one that ncu carries in `extras/python`; None where there is none.

    Args:
        ncu: where ncu is.
        installed: where its own installer puts versions of it, of which a toolkit's `bin/ncu` starts one.
    """
    if module := _import():
        return module
    for folder in _extras(ncu, installed):
        sys.path.append(str(folder))
        if module := _import():
            return module
        sys.path.remove(str(folder))
    return None


def _import() -> ModuleType | None:
    try:
        return importlib.import_module("ncu_report")
    except ImportError:  # missing, or its library is built for another Python
        return None


def _extras(ncu: Path | None, installed: Path) -> list[Path]:
    """The folders that hold ncu's module: beside ncu first, then the newest; a newer one reads older reports."""
    beside = list(ncu.resolve().parents[:2]) if ncu else []
    versions = sorted(installed.glob("*"), key=lambda path: as_numbers(path.name), reverse=True)
    folders = [top / "extras" / "python" for top in (*beside, *versions)]
    return [folder for folder in folders if (folder / "ncu_report.py").is_file()]


def read_with(reader: ModuleType, path: Path) -> tuple[Profile, ...]:
    """Reads a report.

    Args:
        reader: `ncu_report`.
        path: the report.

    Raises:
        ReportFormatError: if it is no report.
    """
    try:
        context = reader.load_report(str(path))
        # The module opens any file; one that is no report holds nothing. What it hands out lives in its parent, which
        # therefore has to be kept.
        ranges = [context.range_by_idx(i) for i in range(context.num_ranges())]
        actions = [found.action_by_idx(j) for found in ranges for j in range(found.num_actions())]
    except Exception as error:  # whatever the library makes of a damaged file
        raise ReportFormatError(f"{path} cannot be read: {error}", WHAT_IS_READ) from error
    if any(action.name() is None for action in actions):
        raise ReportFormatError(f"{path} is cut off", "the file is damaged; profile again")
    launches: Counter[tuple[str, str]] = Counter()
    return tuple(_profile_of(reader, action, launches) for action in actions)


def _profile_of(reader: ModuleType, action: Any, launches: Counter[tuple[str, str]]) -> Profile:
    named = _named(action)
    function = str(action.name())
    key = (named.label, function)
    launches[key] += 1
    found = {name: action.metric_by_name(name) for name in action.metric_names()}
    return Profile(
        label=named.label,
        op=named.op,
        shape=named.shape,
        gpu=found[GPU_NAME].as_string() if GPU_NAME in found else "",
        arch=f"sm_{found[_MAJOR].as_uint64()}{found[_MINOR].as_uint64()}" if _MAJOR in found else "",
        function=function,
        launch=launches[key] - 1,
        metrics=dict(_metrics(reader, found, _sections(action))),
        source=named.source,
    )


def _named(action: Any) -> Launched:
    """What the ranges of our domain around a launch say."""
    state = action.nvtx_state()
    domains = [state.domain_by_id(number) for number in state.domains()] if state else []
    ranges = [text for domain in domains if domain.name() == DOMAIN for text in domain.push_pop_ranges()]
    return next(filter(None, map(parse_name, ranges)), Launched())


def _sections(action: Any) -> Mapping[str, str]:
    """The section that shows a metric, by metric; the module of 2025 does not tell."""
    sections: dict[str, str] = {}
    for section in action.sections() if hasattr(action, "sections") else ():
        for metric in (*section.header_metrics(), *section.body_metrics()):
            sections.setdefault(metric.name(), section.identifier())
    return sections


def _metrics(reader: ModuleType, found: Mapping[str, Any], sections: Mapping[str, str]) -> Iterator[tuple[str, Metric]]:
    for name in sorted(found):
        if is_kept(name) and (value := _value_of(reader, found[name])) is not None:
            yield name, Metric(name, found[name].unit() or "", value, sections.get(name, ""))


def _value_of(reader: ModuleType, metric: Any) -> Value | None:
    if not metric.has_value():
        return None
    if metric.kind() == reader.IMetric.ValueKind_STRING:
        return str(metric.as_string())
    value = metric.as_double()
    return float(value) if value is not None else math.nan
