"""The table of what was compiled for a run without a GPU: a row per kernel, its build per architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rich.text import Text

from gdnbench.model.gpu import format_serialized
from gdnbench.render.table import Block, Column, Note, Table
from gdnbench.store.tables import BuildRow


@dataclass(frozen=True)
class _BuiltKernel:
    """A variant, in one series, with its builds by architecture."""

    name: str
    builds: Mapping[str, BuildRow]

    @property
    def interpreter(self) -> Text:
        verdict = next(iter(self.builds.values())).interpreter.partition(":")[0]
        return Text(verdict, style="red" if verdict not in {"", "passed"} else "")


def build_blocks(builds: Sequence[BuildRow], printed: Collection[str] = ()) -> Iterator[Block]:
    """Yields a row per variant and series, with its build per architecture; `printed` has reasons printed in full."""
    grouped: dict[tuple[str, str], dict[str, BuildRow]] = {}
    for build in builds:
        grouped.setdefault((build.title, build.series), {})[build.arch] = build
    several = len({series for _, series in grouped}) > 1
    rows = [_BuiltKernel(f"{label} {series}" if several else label, each) for (label, series), each in grouped.items()]
    yield ""
    yield Note("GPU kernels: compiled here, not timed", "title")
    yield Table(tuple(_build_columns(dict.fromkeys(build.arch for build in builds))), rows, gap=1)
    yield Note("regs and spill (bytes) per thread, smem (bytes) per block, load: widest, in bits", "legend")
    for build in builds:
        if build.serialized_because:
            line = f"  {build.title} {build.arch}: {format_serialized(build.serialized_because)}"
            yield Text(line, style="yellow")
    yield from _build_failures(builds, printed)


def _build_columns(archs: Collection[str]) -> Iterator[Column[_BuiltKernel]]:
    yield Column("", lambda row: row.name, "\nkernel", fold=True)
    for arch in archs:

        def show(row: _BuiltKernel, name: str, arch: str = arch) -> Text:
            build = row.builds.get(arch)
            if build and build.status != "ok":
                return Text("failed" if name == "registers" else "", style="red")
            return Text(str(getattr(build, name)) if build else "")

        counts = (f"{arch}\nregs", "registers"), ("\nspill", "spill_bytes"), ("\nsmem", "shared_bytes")
        for drop, (heading, name) in enumerate((*counts, ("\nload", "load_bits"))):
            yield Column("", lambda row: row, heading, partial(show, name=name), drop=drop, right=True)
    yield Column("", lambda row: row, "in an\ninterpreter", lambda row: row.interpreter)


def _build_failures(builds: Sequence[BuildRow], printed: Collection[str]) -> list[Text]:
    """Returns each reason once, with its architectures; the compiler's excerpt unless already printed."""
    archs: dict[tuple[str, str], dict[str, None]] = {}
    for build in builds:
        if build.status != "ok":
            archs.setdefault((build.title, build.reason), {})[build.arch] = None
    shown = {reason: reason.partition("\n")[0] if reason in printed else reason for _, reason in archs}
    return [Text(f"  {title} {', '.join(on)}: {shown[reason]}", style="red") for (title, reason), on in archs.items()]
