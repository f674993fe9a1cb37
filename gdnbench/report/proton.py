"""Prints a recording of Proton, or a trace alone: shares of scopes and the kernel's times, as text, JSON or CSV."""

from __future__ import annotations

from statistics import median
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.model.case import CodeState
from gdnbench.profile.recording import INSTRUMENTED, PLAIN, ProtonProfile, Recording
from gdnbench.render.console import data_console, print_csv, print_json, print_next
from gdnbench.render.units import CodeOf, other_code, percent, time_text
from gdnbench.report.phases import breakdown_rows, breakdown_table

_ASYNCHRONOUS = "A load is waited for where it is first used; its own scope shows its issue."
_NO_SCOPES = {
    "triton": 'no scopes in it; mark its phases: `with trace.scope("load"):` (see gdnbench.trace)',
    "torch": "reached through Python, so its times are those of whole launches",
}
_SEVERAL = "of {} launches, so their times are told and no scopes: those are traced in kernels of one launch"
SUM = "(sum)"
"""The name of all functions of a call together."""


def print_profile(profile: ProtonProfile, code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints a recording, or a trace alone, and whether it is of the kernel's current code."""
    code = code_of(profile.origin.label, profile.origin.source)
    if json:
        print_json(_document(profile, code))
    elif csv:
        print_csv(_rows(profile, code))
    else:
        _print_tables(data_console(), profile, code)


def _print_tables(console: Console, profile: ProtonProfile, code: CodeState) -> None:
    recording, breakdown = profile.recording, profile.breakdown
    heading = Text(_title(recording) if recording else str(profile.path), style="bold")
    console.print(heading, soft_wrap=recording is None)  # a path is to be copied
    if breakdown:
        console.print(Text(_counts(profile), style="dim"))
        console.print(breakdown_table(breakdown, "scope"))
        console.print(Text(_ASYNCHRONOUS, style="dim"))
    for line in _time_lines(recording) if recording else ():
        console.print(Text(line))
    for warning in _warnings(profile, code):
        console.print(Text(f"warning: {warning}", style="yellow"))
    if recording and not breakdown:
        entries = recording.entries
        console.print(Text(_SEVERAL.format(len(entries)) if entries else _NO_SCOPES[recording.language]))
    if profile.trace:
        console.print(
            Text(f"trace: {profile.trace}  (for ui.perfetto.dev; its ns are cycles)", style="dim"), soft_wrap=True
        )
    print_next(console, _next(profile))


def _next(profile: ProtonProfile) -> list[str]:
    if profile.recording is None:
        return ["gdnbench", "proton", "--import", str(profile.path), "--csv"]
    case = profile.recording.case
    return ["gdnbench", "ncu", case.variant.label, *case.workload.options]


_NAME_WIDTH = 40  # of a GPU function; names of C++ templates exceed a line


def _warnings(profile: ProtonProfile, code: CodeState) -> list[str]:
    changed = [other_code(profile.origin.label)] if code is CodeState.CHANGED else []
    return [*changed, *(profile.recording.notes if profile.recording else ())]


def _title(recording: Recording) -> str:
    case = recording.case
    params = "".join(f" {name}={value}" for name, value in case.variant.params.items())
    return f"{case.label}  {case.workload}{params}  on {recording.gpu}"


def _counts(profile: ProtonProfile) -> str:
    breakdown, recording = profile.breakdown, profile.recording
    assert breakdown
    text = f"{breakdown.launches} launches of {breakdown.warps} warps"
    if recording and recording.clock_mhz:
        text += f", cold L2, {recording.clock_mhz:.0f} MHz"
    return f"{text}; spread: among a launch's warps"


def _time_lines(recording: Recording) -> list[str]:
    plain = median(recording.times_us[PLAIN])
    line = f"kernel by CUDA events, cold: {time_text(plain)} µs"
    if INSTRUMENTED in recording.times_us:
        traced = median(recording.times_us[INSTRUMENTED])
        more = f"{'+' if traced >= plain else '-'}{percent(abs(traced / plain - 1))}"
        line += f", instrumented {time_text(traced)} µs ({more})"
    times = _cupti_times(recording).items()
    return [line, *(f"on the GPU by CUPTI, cold: {time_text(median(us))} µs  {_short(name)}" for name, us in times)]


def _cupti_times(recording: Recording) -> dict[str, list[float]]:
    call_us = recording.call_us
    return {**recording.cupti_us, **({SUM: call_us} if call_us else {})}


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _document(profile: ProtonProfile, code: CodeState) -> dict[str, Any]:
    """Returns a profile for JSON: scopes in µs, or cycles if the clock is unknown; times of launches in µs."""
    recording, breakdown = profile.recording, profile.breakdown
    return {
        "file": str(profile.path),
        "source": profile.origin.source,
        "code": code,
        "trace": str(profile.trace) if profile.trace else None,
        "recording": _without_samples(recording) if recording else None,
        "kernel": _kernel_times(recording) if recording else [],
        "launches": breakdown.launches if breakdown else 0,
        "warps": breakdown.warps if breakdown else 0,
        "scopes": breakdown_rows(breakdown) if breakdown else [],
    }


def _without_samples(recording: Recording) -> dict[str, Any]:
    """Returns the recording without its single times, which stay in the file."""
    return {name: value for name, value in recording.to_dict().items() if name not in ("times_us", "cupti_us")}


def _rows(profile: ProtonProfile, code: CodeState) -> list[dict[str, Any]]:
    recording = profile.recording
    of: dict[str, Any] = {"file": str(profile.path)}
    if recording:
        case = recording.case
        of = {"kernel": case.label, **case.workload.cells, "gpu": recording.gpu}
    of |= {"source": profile.origin.source, "code": code.value}
    scopes = breakdown_rows(profile.breakdown) if profile.breakdown else []
    times = _kernel_times(recording) if recording else []
    return [*({**of, "kind": "scope", **row} for row in scopes), *({**of, **row} for row in times)]


def _kernel_times(recording: Recording) -> list[dict[str, Any]]:
    """Returns times of whole launches in microseconds; `kind` is the clock, `events` or `cupti`."""
    events = [_time_row("events", name, times) for name, times in recording.times_us.items()]
    return [*events, *(_time_row("cupti", name, times) for name, times in _cupti_times(recording).items())]


def _time_row(kind: str, name: str, times: list[float]) -> dict[str, Any]:
    return {"kind": kind, "name": name, "median_us": median(times), "min_us": min(times), "max_us": max(times)}
