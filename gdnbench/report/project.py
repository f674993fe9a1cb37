"""A pipeline on paper, as `gdnbench project` prints it: the times, what sets them, each stage, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gdnbench.project.advise import Change
from gdnbench.project.constraints import Constraint, Kind
from gdnbench.project.pipeline import Launch, Pipeline
from gdnbench.project.simulate import Projection
from gdnbench.report.console import data_console, plain_table, print_json, print_next
from gdnbench.report.units import percent, time_text
from gdnbench.wording import first_of, plural

_SCHEMA = 1
_MOST_CHANGES = 12
_LEAST_GAIN = 1e-4
"""Changes that save a smaller share are named and have no line: with many items, filling sooner is next to nothing."""

_STAGES_LEGEND = (
    "of all workers' time, from the first item's begin to the last one's end; input:\n"
    "waits for what it takes; room: waits for a slot to give to; done: after its last"
)
_CAVEAT = "a projection: blocks share no bandwidth, and times do not vary"


def print_projection(projection: Projection, changes: Sequence[Change], file: Path, *, json: bool) -> None:
    """Prints a pipeline's times and what each change would save."""
    if json:
        print_json(_document(projection, changes, file))
        return
    console = data_console()
    _print_times(console, projection)
    console.print()
    _print_stages(console, projection)
    console.print()
    _print_changes(console, projection.pipeline, changes)
    console.print(Text(_CAVEAT, style="dim"))
    console.print()
    print_next(console, _next(projection.pipeline, file))


def _print_times(console: Console, projection: Projection) -> None:
    pipeline, launch = projection.pipeline, projection.pipeline.launch
    blocks = f"{plural(launch.blocks, 'block')} on {plural(launch.sms, 'SM')}, {launch.blocks_per_sm} an SM"
    about = f"{pipeline.name}  {plural(pipeline.items, 'item')}"
    console.print(Text(about if launch.blocks == 1 else f"{about}, {blocks}", style="bold"))
    table = plain_table(header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row("steady state", time_text(projection.steady.item_us), "µs an item")
    table.add_row("pipeline", time_text(projection.pipeline_us), f"µs: {_parts(projection)}")
    if launch.waves > 1 or launch.overhead_us:
        after = f"{plural(launch.waves, 'pipeline')} one after the other" if launch.waves > 1 else "one pipeline"
        overhead = f", and {time_text(launch.overhead_us)} of overhead" if launch.overhead_us else ""
        table.add_row("launch", time_text(projection.launch_us), f"µs: {after}{overhead}")
    console.print(table)
    console.print(Text(f"bottleneck: {_bottleneck(projection)}"))
    for line in _sources(pipeline):
        console.print(Text(line, style="dim"))


def _parts(projection: Projection) -> str:
    parts = (("fill", projection.fill_us), ("full", projection.full_us), ("drain", projection.drain_us))
    return ", ".join(f"{name} {time_text(time_us)}" for name, time_us in parts)


def _bottleneck(projection: Projection) -> str:
    """What sets the steady state: a stage's work, or the way round a circle of stages."""
    stages, steady = projection.pipeline.stages, projection.steady
    if steady.is_work:
        stage = stages[steady.circle[0].earlier]
        shared = f" over {plural(stage.workers, 'worker')}" if stage.workers > 1 else ""
        return f"the work of {stage.name}: {time_text(stage.time_us)} µs an item{shared}"
    times = " + ".join(f"{stages[each.earlier].name} {time_text(each.time_us)}" for each in steady.circle)
    whole_us, items = sum(each.time_us for each in steady.circle), sum(each.shift for each in steady.circle)
    if steady.buffers:
        what = f"the round trip of a slot of {first_of(steady.buffers)}, too few"
    else:
        what = f"what comes back to an earlier stage through {_back(steady.circle)}"
    return f"{what}:\n  {times} = {time_text(whole_us)} µs for {plural(items, 'item')}"


def _back(circle: Sequence[Constraint]) -> str:
    return first_of([each.buffer for each in circle if each.kind is Kind.INPUT and each.shift])


def _sources(pipeline: Pipeline) -> list[str]:
    """A line for each profile that times are from, with the stages."""
    found: dict[tuple[str, str, float], list[str]] = {}
    for stage in pipeline.stages:
        if stage.measured:
            kernel = (stage.measured.kernel, stage.measured.gpu, stage.measured.overhead)
            found.setdefault(kernel, []).append(stage.name)
    return [
        f"{first_of(names)}: phases of {kernel} on {gpu}, which stamping made {percent(overhead)} slower"
        if overhead >= 0
        else f"{first_of(names)}: phases of {kernel} on {gpu}"
        for (kernel, gpu, overhead), names in found.items()
    ]


def _print_stages(console: Console, projection: Projection) -> None:
    table = plain_table()
    table.add_column("stage")
    for heading in ("µs", "workers", "µs an item", "busy", "input", "room", "done"):
        table.add_column(heading, justify="right", no_wrap=True)
    for stage, use in zip(projection.pipeline.stages, projection.uses, strict=True):
        times = time_text(stage.time_us), str(stage.workers), time_text(stage.time_us / stage.workers)
        shares = (use.busy, use.waits_input, use.waits_room, use.done)
        table.add_row(Text(stage.name), *times, *(f"{share:.0%}" for share in shares))
    console.print(table)
    console.print(Text(_STAGES_LEGEND, style="dim"))


def _print_changes(console: Console, pipeline: Pipeline, changes: Sequence[Change]) -> None:
    helping = [change for change in changes if change.gain >= _LEAST_GAIN]
    if not helping:
        console.print(Text("no single change of a stage or a buffer would save 0.01%"))
        return
    table = plain_table()
    table.add_column("what would help")
    whole = "pipeline µs" if pipeline.launch == Launch() else "launch µs"
    for heading in (whole, "saves", "µs an item"):
        table.add_column(heading, justify="right", no_wrap=True)
    for change in helping[:_MOST_CHANGES]:
        times = time_text(change.launch_us), percent(change.gain), time_text(change.item_us)
        table.add_row(Text(change.told), *times)
    console.print(table)
    left = len(helping) - _MOST_CHANGES
    more = f"{left} more have no line here (--json has all); " if left > 0 else ""
    console.print(
        Text(f"faster: that much less time; {more}save less than 0.01% alone:\n{_useless(changes)}", style="dim")
    )


def _useless(changes: Sequence[Change]) -> str:
    return first_of([change.told for change in changes if change.gain < _LEAST_GAIN], most=4) or "none"


def _next(pipeline: Pipeline, file: Path) -> list[str]:
    """The profile that the first measured time is from, or the same as JSON."""
    measured = next((stage.measured for stage in pipeline.stages if stage.measured), None)
    if measured:
        return ["gdnbench", "phases", "--import", _plain(file.parent / measured.file)]
    return ["gdnbench", "project", str(file), "--json"]


def _plain(path: Path) -> str:
    """A path without the steps up that lead nowhere: `docs/../profiles` is `profiles`."""
    from os.path import normpath, realpath

    plain = normpath(path)
    return plain if realpath(plain) == realpath(path) else str(path)


def _document(projection: Projection, changes: Sequence[Change], file: Path) -> dict[str, Any]:
    """The projection as JSON has it, with every change, those that do not help too."""
    pipeline, steady = projection.pipeline, projection.steady
    return {
        "schema": _SCHEMA,
        "file": file,
        "name": pipeline.name,
        "items": pipeline.items,
        "launch": {**asdict(pipeline.launch), "waves": pipeline.launch.waves},
        "steady_item_us": steady.item_us,
        "pipeline_us": projection.pipeline_us,
        "fill_us": projection.fill_us,
        "full_us": projection.full_us,
        "drain_us": projection.drain_us,
        "launch_us": projection.launch_us,
        "bottleneck": {
            "kind": "work" if steady.is_work else "slots" if steady.buffers else "return",
            "buffers": steady.buffers,
            "circle": [_constraint(pipeline, each) for each in steady.circle],
        },
        "stages": [
            {**asdict(stage), **asdict(use)} for stage, use in zip(pipeline.stages, projection.uses, strict=True)
        ],
        "buffers": [asdict(buffer) for buffer in pipeline.buffers],
        "changes": [{**asdict(change), "gain": change.gain, "change": change.told} for change in changes],
    }


def _constraint(pipeline: Pipeline, each: Constraint) -> dict[str, Any]:
    names = {"earlier": pipeline.stages[each.earlier].name, "later": pipeline.stages[each.later].name}
    return {**asdict(each), **names}
