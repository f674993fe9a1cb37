"""What the compiler made of the GPU kernels: for machines that cannot run them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gdnbench.report.fitted import Fitted
from gdnbench.store import BuildRow


def build_table(builds: Sequence[BuildRow]) -> Group:
    """A row per variant and head layout, with registers, spills, shared memory and widest load per architecture."""
    grouped: dict[tuple[str, str], dict[str, BuildRow]] = {}
    for build in builds:
        grouped.setdefault((build.label, build.heads), {})[build.arch] = build
    archs = list(dict.fromkeys(build.arch for build in builds))
    several = len({heads for _, heads in grouped}) > 1
    table = _empty_table(archs)
    for (label, heads), by_arch in grouped.items():
        cells = [cell for arch in archs for cell in _cells(by_arch.get(arch))]
        verdict = next(iter(by_arch.values())).interpreter.partition(":")[0]
        style = "red" if verdict not in {"", "passed"} else ""
        table.add_row(Text(f"{label} {heads}" if several else label), *cells, Text(verdict, style=style))
    title = Text("\nGPU kernels: compiled here, not timed", style="bold")
    legend = "regs and spill (bytes) per thread, smem (bytes) per block, load: widest, in bits"
    return Group(title, Fitted(table, ("load", "smem", "spill")), Text(legend, style="dim"), *_failures(builds))


def _empty_table(archs: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("\nkernel", overflow="fold")
    for arch in archs:
        table.add_column(f"{arch}\nregs", justify="right", no_wrap=True)
        for heading in ("\nspill", "\nsmem", "\nload"):
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Triton's\ninterpreter", no_wrap=True)
    return table


def _cells(build: BuildRow | None) -> list[Text]:
    if build is None:
        return [Text("")] * 4
    if build.status != "ok":
        return [Text("failed", style="red"), *[Text("")] * 3]
    counts = (build.registers, build.spill_bytes, build.shared_bytes, build.load_bits)
    return [Text(str(count)) for count in counts]


def _failures(builds: Sequence[BuildRow]) -> list[Text]:
    return [
        Text(f"  {build.label} {build.arch}: {build.reason}", style="red") for build in builds if build.status != "ok"
    ]
