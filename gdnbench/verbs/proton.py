"""`gdnbench proton`: where inside a kernel does the time go? By its stamps, or by Proton's trace of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.origin import PROFILES, path_at_origin, profiles_option
from gdnbench.profile.breakdown import BETWEEN, WHOLE, Breakdown, PhaseProfile, PhaseRow, WarpRole, analyse
from gdnbench.profile.recording import INSTRUMENTED, PLAIN, ProtonProfile, Recording
from gdnbench.profile.stamps import StampedKernel, Stamps, read_stamps
from gdnbench.profile.timeline import PassRow, pass_rows
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import CodeOf, other_code, percent, time_text
from gdnbench.verbs import options
from gdnbench.wording import plural, spans_text

if TYPE_CHECKING:
    from gdnbench.catalog.catalog import Catalog
    from gdnbench.model.case import Case


def proton(
    kernels: options.ProfiledArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    profile: options.ProfileOption = None,
    launch: Annotated[
        str,
        typer.Option(
            metavar="ENTRY", help="Of a stamped kernel of several launches, this one; all with marks by default."
        ),
    ] = "",
    launches: Annotated[
        int | None, typer.Option(min=1, help="Launches to trace, 8 by default, or to stamp cold, 200 by default.")
    ] = None,
    warps: Annotated[bool, typer.Option("--warps", help="Of a stamped kernel, show each warp of a block.")] = False,
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write when each warp was in which phase: .json or .json.gz for Perfetto, .svg, .png."
        ),
    ] = None,
    stored: Annotated[bool, typer.Option("--import", help="Show stored .npz or .json files; needs no GPU.")] = False,
    seed: options.InputsSeedOption = 0,
    profiles: options.ProfilesOption = PROFILES,
    limit: options.KernelLimitOption = 120.0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Show where inside a kernel the time goes: by Proton for Triton, by clock stamps for CUDA and CuTe DSL.

    Of one Triton kernel, each warp of each launch notes the SM's clock at the borders of
    the kernel's scopes (`with trace.scope("update")`). What that costs shows beside the
    kernel's plain time. The trace stays in profiles/proton, for Perfetto.

    A kernel in CUDA or CuTe DSL is compiled again with its marks as clock reads, checked
    against the oracle, launched cold, and timed beside itself without them: what stamping
    costs is shown. Marks are those of <gdnbench/phases.cuh> in CUDA, and of PhaseClock
    of gdnbench/phases.py in CuTe DSL; in a build that is timed they leave no code. Of a
    kernel of several launches, each is stamped by itself, in whole calls. The stamps
    stay in profiles/phases.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.profile.collect import ScopeRequest, collect_scopes
    from gdnbench.profile.recording import load_profile
    from gdnbench.report.charts.timeline import check_timeline, write_timeline
    from gdnbench.verbs.progress import watch

    if timeline:
        check_timeline(timeline)
    names = options.some_terms(kernels, kernel, "gdnbench proton decode-triton")
    catalog = load_catalog()
    files = [Path(name) for name in names] if stored else []
    cases = [] if stored else _cases(catalog, op, names, options.sizes(shape), options.joined(profile), gpu)
    request = ScopeRequest(catalog, gpu, profiles, launch, launches, seed, limit)
    by_stamps = all([file.suffix == ".npz" for file in files] or map(request.is_cuda, cases))
    given = "launch" if launch else "warps" if warps else "timeline" if timeline else ""
    if not by_stamps and (given or len(files or cases) > 1):
        message = (
            f"--{given} is for CUDA and CuTe kernels"
            if given
            else "several are for CUDA and CuTe kernels and their .npz files alone"
        )
        raise UsageError(message, "name one Triton kernel, as in gdnbench proton decode-triton")
    if cases:
        with watch(quiet=quiet) as observer:
            files = collect_scopes(request, cases, observer)
    if by_stamps:
        found = {file: read_stamps(file) for file in files}
        if timeline:
            write_timeline(timeline, list(found.values()))
        answer = stamps_answer(found, catalog.code_state, profiles, by_warp=warps)
    else:
        answer = trace_answer(load_profile(files[0]), catalog.code_state)
    print_answer(answer, json=json)


def _cases(catalog: Catalog, op: str, names: Sequence[str], axes: str, profile: str, gpu: str) -> list[Case]:
    from gdnbench.catalog.select import resolve_op, select_variants
    from gdnbench.profile.process import choose_case

    op = resolve_op(catalog, op, names)
    variants = select_variants(catalog, op, options.joined(names))
    return [choose_case(catalog, op, variant.label, axes=axes, profile=profile, gpu=gpu) for variant in variants]


_DURATIONS = {
    "avg": ("average", 0),
    "min": ("minimum", 4),
    "p95": ("p95", 1),
    "max": ("maximum", 2),
    "spread": ("spread", 3),
}
"""By heading: the field of `PhaseRow`, and in which order it goes where there is no room; 0 stays."""


def breakdown_table(breakdown: Breakdown, heading: str) -> Table[PhaseRow]:
    """Returns a row per phase, for the time between phases, and for the total; `heading` names the phases, `scope`."""

    def duration(title: str, name: str, drop: int) -> Column[PhaseRow]:
        head = f"{title} µs" if title == "avg" else title
        show = attrgetter(name)
        return Column(f"{title}_us", show, head, lambda row: f"{show(row):.3f}", drop, right=True)

    columns: list[Column[PhaseRow]] = [
        Column("name", lambda row: row.name, heading, lambda row: f"{'  ' * (row.name in breakdown.nested)}{row.name}"),
        Column("share", lambda row: row.share, "share", lambda row: percent(row.share), right=True),
        *(duration(title, *field) for title, field in _DURATIONS.items()),
    ]
    return Table(columns, breakdown.rows(), style=lambda row: {BETWEEN: "dim", WHOLE: "bold"}.get(row.name, ""))


_LEGEND = (
    "of all warps of all launches; spread: between the warps of a launch, 5th to 95th\n"
    "percentile; (between): after the last mark"
)
_LEGEND_OF_ROLES = (
    "of a role's warps of all launches; spread: between the warps of a launch,\n"
    "5th to 95th percentile; (between): after the last mark"
)
_SUM_LEGEND = (
    "span: from a launch's first warp's begin to its last one's end, while it is\n"
    "stamped; what lies between launches is in none"
)
BENDING = 0.25
"""Overhead of stamping, as a share of the kernel's time, above which shares are only approximate."""


@dataclass(frozen=True)
class _StampedLaunch:
    """A file of stamps, analysed."""

    path: Path
    stamps: Stamps
    profile: PhaseProfile
    code: CodeState

    @property
    def kernel(self) -> StampedKernel:
        return self.stamps.about

    def passes(self, role: WarpRole) -> tuple[PassRow, ...]:
        """The phases that a role's warps pass several times; none where passes were not noted."""
        noted = self.stamps.passes
        return pass_rows(noted, self.kernel, role.places, self.profile.timeline.sm_mhz) if noted else ()

    @property
    def warnings(self) -> list[str]:
        kernel, profile = self.kernel, self.profile
        found = [other_code(kernel.label)] if self.code is CodeState.CHANGED else []
        launches = profile.breakdown.launches
        if launches < kernel.asked:
            found.append(f"{kernel.asked} launches were requested, and the stamps of {launches} fit in memory")
        if profile.unpassed and not kernel.entry:  # phases of another launch are declared with this one's
            found.append(f"no warp passed {', '.join(profile.unpassed)}")
        if profile.silent:
            found.append(f"warps that wrote no stamps in some launch, and are left out: {profile.silent}")
        if kernel.stamped_spill_bytes:
            found.append(f"the stamped kernel has {kernel.stamped_spill_bytes} B a thread in local memory")
        if profile.overhead.share > BENDING:
            found.append("stamping bends this kernel: its shares are a rough guide")
        return found

    @property
    def common(self) -> dict[str, Any]:
        """What JSON has of the launch as a whole."""
        profile = self.profile
        return {
            "launches": profile.breakdown.launches,
            "warps": profile.breakdown.warps,
            **asdict(profile.timeline),
            **asdict(profile.overhead),
            "overhead": profile.overhead.share,
        }


def stamps_answer(found: Mapping[Path, Stamps], code_of: CodeOf, profiles: Path, *, by_warp: bool = False) -> Answer:
    """Returns what files of stamps tell, `by_warp` of a block, too; raises ProfilerError if the stamps tell nothing."""
    launches = [
        _StampedLaunch(path, stamps, analyse(stamps), code_of(stamps.about.label, stamps.about.source))
        for path, stamps in found.items()
    ]
    kernel = launches[0].kernel
    return Answer(
        text=lambda _width: _stamps_text(launches, by_warp=by_warp),
        document=lambda: [_stamp_document(launch) for launch in launches],
        next=["gdnbench", "ncu", kernel.label, *kernel.workload.options, *profiles_option(profiles)],
    )


def _stamps_text(launches: Sequence[_StampedLaunch], *, by_warp: bool) -> Iterator[Block]:
    calls: dict[tuple[str, Workload, str, str], dict[str, _StampedLaunch]] = {}
    for launch in launches:
        yield from _launch_text(launch, by_warp=by_warp)
        yield Note("")
        kernel = launch.kernel
        if kernel.entry:
            call = calls.setdefault((kernel.label, kernel.workload, kernel.gpu, kernel.source), {})
            call[kernel.entry] = launch
    for several in calls.values():
        if len(several) > 1:
            yield from _sum_text(list(several.values()))
            yield Note("")


def _launch_text(launch: _StampedLaunch, *, by_warp: bool) -> Iterator[Block]:
    kernel, profile = launch.kernel, launch.profile
    yield Note(f"{kernel.title}  {kernel.workload}  on {kernel.gpu}", "title")
    cold = "cold L2 before each call" if kernel.entry else "cold L2"
    yield Note(f"{profile.breakdown.launches} launches of {profile.breakdown.warps} warps, {cold}", "legend")
    several = len(profile.roles) > 1
    for role in profile.roles:
        if several and role.places:
            warps = f"{_places_text(role.places, kernel.block_warps)}, {role.breakdown.warps} in all"
            yield Note(warps, "title")
        elif several:
            yield Note(plural(role.breakdown.warps, "warp"), "title")
        yield breakdown_table(role.breakdown, "phase")
        if rows := launch.passes(role):
            yield Table(_PASS_COLUMNS, rows)
        if by_warp and kernel.block_warps:
            yield _warp_table(role)
    yield Note(_LEGEND_OF_ROLES if several else _LEGEND, "legend")
    line, cost = profile.timeline, profile.overhead
    yield Note(f"launch: {time_text(line.span_us)} µs from the first warp's begin to the last one's end,")
    yield Note(f"  begins {time_text(line.skew_us)} µs apart (medians; the global timer steps by {line.step_ns} ns)")
    yield Note(f"SM clock: {line.sm_mhz:.0f} MHz, from each warp's cycles and nanoseconds")
    change = f"costs {percent(cost.share)}" if cost.share >= 0 else f"saves {percent(-cost.share)}"
    times = f"stamped {time_text(cost.stamped_us)} µs, plain {time_text(cost.plain_us)} µs"
    of_calls = ", of whole calls" if kernel.entry else ""
    yield Note(f"{times}{of_calls}: stamping {change}; registers {kernel.registers} to {kernel.stamped_registers}")
    if profile.unmarked:
        yield Note(f"without marks: {_places_text(profile.unmarked, kernel.block_warps)}")
    yield from (Note(warning, "warning") for warning in launch.warnings)
    yield Note(f"stored in {path_at_origin(launch.path)}", "legend", whole=True)


_PASS_COLUMNS: list[Column[PassRow]] = [
    Column("name", lambda row: row.name, "each pass"),
    Column("passes", lambda row: row.passes, "a warp's", lambda row: f"{row.passes:.3g}", right=True),
    Column("avg_us", lambda row: row.average, "avg µs", lambda row: f"{row.average:.3f}", right=True),
    Column("p95_us", lambda row: row.p95, "p95", lambda row: f"{row.p95:.3f}", right=True),
    Column("p95_over_avg", lambda row: row.ratio, "p95/avg", lambda row: f"{row.ratio:.2f}", right=True),
]
_WarpTimes = tuple[int, Mapping[str, float]]  # a warp's index in its block, and µs by phase


def _warp_table(role: WarpRole) -> Table[_WarpTimes]:
    """Returns a row for each warp of a block, and a column for each phase: average µs."""

    def phase(name: str) -> Column[_WarpTimes]:
        def text(row: _WarpTimes) -> str:
            return f"{row[1][name]:.3f}" if name in row[1] else ""

        return Column("", lambda row: row[1].get(name), name, text, right=True)

    first: Column[_WarpTimes] = Column("", lambda row: row[0], "warp", right=True)
    return Table([first, *map(phase, (*role.breakdown.phases, WHOLE))], list(role.by_place().items()))


def _places_text(places: Sequence[int], block_warps: int) -> str:
    return f"{'warp' if len(places) == 1 else 'warps'} {spans_text(places)} of each block's {block_warps}"


def _sum_text(launches: Sequence[_StampedLaunch]) -> Iterator[Block]:
    """Yields each launch's time and their sum, and the phases that none of them passed."""
    kernel, total_us = launches[0].kernel, sum(launch.profile.timeline.span_us for launch in launches)
    spans = [(launch.kernel.entry, launch.profile.timeline.span_us) for launch in launches]
    columns: list[Column[tuple[str, float]]] = [
        Column("", lambda row: row[0], "launch"),
        Column("", lambda row: row[1], "span µs", lambda row: time_text(row[1]), right=True),
        Column("", lambda row: row[1] / total_us, "share", lambda row: percent(row[1] / total_us), right=True),
    ]
    yield Note(f"{kernel.label}  {kernel.workload}  on {kernel.gpu}", "title")
    last = ("sum", total_us)
    yield Table(columns, [*spans, last], style=lambda row: "bold" if row is last else "")
    yield Note(_SUM_LEGEND, "legend")
    unpassed = [name for name in kernel.phases if all(name in launch.profile.unpassed for launch in launches)]
    if unpassed:
        yield Note(f"no warp of these launches passed {', '.join(unpassed)}", "warning")


def _stamp_document(launch: _StampedLaunch) -> dict[str, Any]:
    kernel, profile = launch.kernel, launch.profile
    return {
        **kernel.to_dict(),
        "code": launch.code,
        "shape": kernel.workload.cells,
        **launch.common,
        "phases": breakdown_table(profile.breakdown, "").records(),
        "roles": [
            {
                "places": role.places,
                "warps": role.breakdown.warps,
                "phases": breakdown_table(role.breakdown, "").records(),
                "passes": Table(_PASS_COLUMNS, launch.passes(role)).records(),
                "by_warp": {str(place): us for place, us in role.by_place().items()} if kernel.block_warps else {},
            }
            for role in profile.roles
        ],
        "unpassed": profile.unpassed,
        "unmarked_places": profile.unmarked,
        "silent_warps": profile.silent,
        "warnings": launch.warnings,
        "file": launch.path,
    }


_ASYNCHRONOUS = "A load is waited for where it is first used; its own scope shows its issue."


def trace_answer(profile: ProtonProfile, code_of: CodeOf) -> Answer:
    """Returns the contents of a recording, and whether it is of the kernel's current code."""
    case = profile.recording.case
    code = code_of(case.variant.label, profile.recording.source)
    return Answer(
        text=lambda _width: _trace_text(profile, code),
        document=lambda: _trace_document(profile, code),
        next=["gdnbench", "ncu", case.variant.label, *case.workload.options],
    )


def _trace_text(profile: ProtonProfile, code: CodeState) -> Iterator[Block]:
    recording, breakdown, case = profile.recording, profile.breakdown, profile.recording.case
    params = "".join(f" {name}={value}" for name, value in case.variant.params.items())
    yield Note(f"{case.label}  {case.workload}{params}  on {recording.gpu}", "title")
    if breakdown:
        counts = f"{breakdown.launches} launches of {breakdown.warps} warps, cold L2, {mean(recording.sm_mhz):.0f} MHz"
        yield Note(f"{counts}; spread: among a launch's warps", "legend")
        yield breakdown_table(breakdown, "scope")
        yield Note(_ASYNCHRONOUS, "legend")
    yield Note(_time_line(recording))
    changed = [other_code(case.label)] if code is CodeState.CHANGED else []
    yield from (Note(warning, "warning") for warning in (*changed, *recording.notes))
    if profile.trace:
        yield Note(f"trace: {profile.trace}  (for ui.perfetto.dev; its ns are cycles)", "legend", whole=True)


def _time_line(recording: Recording) -> str:
    plain = median(recording.times_us[PLAIN])
    line = f"kernel by CUDA events, cold: {time_text(plain)} µs"
    if INSTRUMENTED in recording.times_us:
        traced = median(recording.times_us[INSTRUMENTED])
        more = f"{'+' if traced >= plain else '-'}{percent(abs(traced / plain - 1))}"
        line += f", instrumented {time_text(traced)} µs ({more})"
    return line


def _trace_document(profile: ProtonProfile, code: CodeState) -> dict[str, Any]:
    recording, breakdown = profile.recording, profile.breakdown
    return {
        "file": str(profile.path),
        "source": recording.source,
        "code": code,
        "trace": str(profile.trace) if profile.trace else None,
        "recording": {key: value for key, value in recording.to_dict().items() if key != "times_us"},
        "kernel": [
            {"kind": "events", "name": name, "median_us": median(us), "min_us": min(us), "max_us": max(us)}
            for name, us in recording.times_us.items()
        ],
        "launches": breakdown.launches if breakdown else 0,
        "warps": breakdown.warps if breakdown else 0,
        "scopes": breakdown_table(breakdown, "").records() if breakdown else [],
    }
