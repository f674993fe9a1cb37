"""What `gdnbench proton` prints: the scopes' shares, the kernel's times, JSON or CSV."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.profilers.proton.opened import Opened
from gdnbench.profilers.proton.recording import Recording
from gdnbench.report.breakdown_table import breakdown_rows, breakdown_table
from gdnbench.report.console import data_console, print_csv, print_json
from gdnbench.report.proton_times import kernel_times, time_lines

_ASYNCHRONOUS = "A load is waited for where it is first used; its own scope shows its issue."
_NO_SCOPES = {
    "triton": 'no scopes in it; mark its phases: `with trace.scope("load"):` (see gdnbench.trace)',
    "torch": "reached through Python, so its times are those of whole launches",
}


def print_opened(opened: Opened, *, json: bool, csv: bool) -> None:
    """Prints a recording, or a trace alone."""
    if json:
        print_json(_document(opened))
    elif csv:
        print_csv(_rows(opened))
    else:
        _print_tables(data_console(), opened)


def _print_tables(console: Console, opened: Opened) -> None:
    recording, breakdown = opened.recording, opened.breakdown
    console.print(Text(_title(recording) if recording else str(opened.path), style="bold"), soft_wrap=True)
    if breakdown:
        console.print(Text(_counts(opened), style="dim"))
        console.print(breakdown_table(breakdown, "scope"))
        console.print(Text(_ASYNCHRONOUS, style="dim"))
    if recording:
        for line in time_lines(recording):
            console.print(Text(line))
        for note in recording.notes:
            console.print(Text(f"warning: {note}", style="yellow"))
    if recording and not breakdown:
        console.print(Text(_NO_SCOPES[recording.language]))
    if opened.trace:
        console.print(
            Text(f"trace: {opened.trace}  (for ui.perfetto.dev; its ns are cycles)", style="dim"), soft_wrap=True
        )
    console.print(f"next: {shlex.join(_next(opened))}", markup=False, soft_wrap=True)


def _title(recording: Recording) -> str:
    case = recording.case
    params = "".join(f" {name}={value}" for name, value in case.variant.params.items())
    return f"{case.label}  {case.shape}{params}  on {recording.gpu}"


def _counts(opened: Opened) -> str:
    breakdown, recording = opened.breakdown, opened.recording
    assert breakdown
    text = f"{breakdown.launches} launches of {breakdown.warps} warps"
    if recording and recording.clock_mhz:
        text += f", cold L2, {recording.clock_mhz:.0f} MHz"
    return f"{text}; spread: among a launch's warps"


def _next(opened: Opened) -> list[str]:
    if opened.recording is None:
        return ["gdnbench", "proton", "--import", str(opened.path), "--csv"]
    case = opened.recording.case
    return ["gdnbench", "ncu", case.variant.label, "--shape", f"B={case.shape.B}", "--heads", case.shape.heads]


def _document(opened: Opened) -> dict[str, Any]:
    recording, breakdown = opened.recording, opened.breakdown
    return {
        "file": str(opened.path),
        "trace": str(opened.trace) if opened.trace else None,
        "recording": _described(recording) if recording else None,
        "kernel": kernel_times(recording) if recording else [],
        "launches": breakdown.launches if breakdown else 0,
        "warps": breakdown.warps if breakdown else 0,
        "scopes": breakdown_rows(breakdown) if breakdown else [],
    }


def _described(recording: Recording) -> dict[str, Any]:
    """All but the single times, which stay in the file."""
    document = {**asdict(recording), "case": recording.case.to_dict()}
    return {name: value for name, value in document.items() if name not in ("times_us", "cupti_us")}


def _rows(opened: Opened) -> list[dict[str, Any]]:
    recording = opened.recording
    of: dict[str, Any] = {"file": str(opened.path)}
    if recording:
        case = recording.case
        of = {"kernel": case.label, **case.shape.axes(), "gpu": recording.gpu}
    scopes = breakdown_rows(opened.breakdown) if opened.breakdown else []
    times = kernel_times(recording) if recording else []
    return [*({**of, "kind": "scope", **row} for row in scopes), *({**of, **row} for row in times)]
