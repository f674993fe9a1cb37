"""What `gdnbench proton` prints: the scopes' shares, the kernel's times, JSON or CSV."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.model import CodeState
from gdnbench.profilers.proton.opened import Opened
from gdnbench.profilers.proton.recording import Recording
from gdnbench.report.breakdown_table import breakdown_rows, breakdown_table
from gdnbench.report.console import data_console, print_csv, print_json, print_next
from gdnbench.report.other_code import CodeOf, other_code
from gdnbench.report.proton_times import kernel_times, time_lines

_ASYNCHRONOUS = "A load is waited for where it is first used; its own scope shows its issue."
_NO_SCOPES = {
    "triton": 'no scopes in it; mark its phases: `with trace.scope("load"):` (see gdnbench.trace)',
    "torch": "reached through Python, so its times are those of whole launches",
}


def print_opened(opened: Opened, code_of: CodeOf, *, json: bool, csv: bool) -> None:
    """Prints a recording, or a trace alone, and whether it is of other code than the kernel's is now."""
    code = code_of(opened.origin.label, opened.origin.source)
    if json:
        print_json(_document(opened, code))
    elif csv:
        print_csv(_rows(opened, code))
    else:
        _print_tables(data_console(), opened, code)


def _print_tables(console: Console, opened: Opened, code: CodeState) -> None:
    recording, breakdown = opened.recording, opened.breakdown
    title = Text(_title(recording) if recording else str(opened.path), style="bold")
    console.print(title, soft_wrap=recording is None)  # a path is to be copied
    if breakdown:
        console.print(Text(_counts(opened), style="dim"))
        console.print(breakdown_table(breakdown, "scope"))
        console.print(Text(_ASYNCHRONOUS, style="dim"))
    for line in time_lines(recording) if recording else ():
        console.print(Text(line))
    for warning in _warnings(opened, code):
        console.print(Text(f"warning: {warning}", style="yellow"))
    if recording and not breakdown:
        console.print(Text(_NO_SCOPES[recording.language]))
    if opened.trace:
        console.print(
            Text(f"trace: {opened.trace}  (for ui.perfetto.dev; its ns are cycles)", style="dim"), soft_wrap=True
        )
    print_next(console, _next(opened))


def _warnings(opened: Opened, code: CodeState) -> list[str]:
    changed = [other_code(opened.origin.label)] if code is CodeState.CHANGED else []
    return [*changed, *(opened.recording.notes if opened.recording else ())]


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


def _document(opened: Opened, code: CodeState) -> dict[str, Any]:
    recording, breakdown = opened.recording, opened.breakdown
    return {
        "file": str(opened.path),
        "source": opened.origin.source,
        "code": code,
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


def _rows(opened: Opened, code: CodeState) -> list[dict[str, Any]]:
    recording = opened.recording
    of: dict[str, Any] = {"file": str(opened.path)}
    if recording:
        case = recording.case
        of = {"kernel": case.label, **case.shape.axes(), "gpu": recording.gpu}
    of |= {"source": opened.origin.source, "code": code.value}
    scopes = breakdown_rows(opened.breakdown) if opened.breakdown else []
    times = kernel_times(recording) if recording else []
    return [*({**of, "kind": "scope", **row} for row in scopes), *({**of, **row} for row in times)]
