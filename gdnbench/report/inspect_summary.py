"""Many kernels: a row each, a table per architecture and shape."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.archs import Device
from gdnbench.inspection.examine import Finding
from gdnbench.report.fitted import Fitted
from gdnbench.report.inspect_cells import number, refusals, spilled, waves

_HEADINGS = (
    "regs",
    "spill",
    "smem",
    "threads\n/block",
    "blocks\n/SM",
    "occ\n%",
    "limited by",
    "waves",
    "instr",
    "trips",
)
_TEXT = {"limited by"}
_DROPPABLE = ("limited by", "instr", "blocks/SM", "threads/block", "waves", "smem", "occ %")


def summary(findings: Sequence[Finding]) -> Group:
    """What a reader compares first; every other number is in JSON and CSV, or in the table of one kernel."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.arch, str(finding.subject.shape)), []).append(finding)
    parts = [part for (arch, shape), group in grouped.items() for part in _table(arch, shape, group)]
    legend = "regs and spill (bytes) per thread, smem: bytes per block, instr: static count,\ntrips to memory in a row"
    return Group(*parts, *refusals(findings), Text(legend, style="dim"))


def _table(arch: str, shape: str, findings: Sequence[Finding]) -> tuple[Text, Fitted]:
    device = next((one.device for one in findings if isinstance(one, Anatomy)), None)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("kernel", overflow="fold", vertical="bottom")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in _TEXT else "right", no_wrap=heading not in _TEXT)
    for finding in findings:
        table.add_row(Text(finding.subject.name), *_cells(finding))
    return Text(f"{arch}  {shape}{_counted_for(device)}", style="bold"), Fitted(table, _DROPPABLE)


def _counted_for(device: Device | None) -> str:
    return f"  waves on {device.name} ({device.sms} SMs)" if device else ""


def _cells(finding: Finding) -> list[Text]:
    if not isinstance(finding, Anatomy):
        return [Text("failed", style="red")]
    resident = finding.occupancy
    return [
        Text(str(finding.resources.registers)),
        spilled(finding),
        Text(str(finding.shared_bytes)),
        Text(str(finding.threads)),
        Text(str(resident.blocks), style="" if resident.blocks else "red"),
        Text(f"{resident.percent:.0f}"),
        Text(resident.limited_by.replace("shared memory", "smem").replace("registers", "regs")),
        Text(waves(finding)),
        Text(str(finding.mix.instructions)),
        Text(number(finding.order.trips)),
    ]
