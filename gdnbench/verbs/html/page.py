"""Builds the report's page from stored runs: summary, sections, provenance and legend."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gdnbench import __version__
from gdnbench.catalog.entry import label_parts
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.render.table import Column, Table
from gdnbench.render.units import factor, flops_bind, number
from gdnbench.report.charts.selection import kind_of, time_us
from gdnbench.verbs.html.report import HtmlCell, HtmlTable, ReportedRun, control_cell, html_table, lead_line
from gdnbench.verbs.html.run_section import run_section, sweep_section
from gdnbench.verbs.measured_columns import bound_column, ratio_column, time_column, timing_column, verdict_column
from gdnbench.verbs.run_notes import legend, with_inputs
from gdnbench.verbs.sweep import sweep_legend
from gdnbench.wording import first_of, plural

MOST_PEERS = 3
START = len("20260102-030405")  # characters of a run's id that are enough to name it
_LEGEND = (
    "not separated: the paired rounds leave open which is faster, or say that they tie. / copy: stream time over that "
    "of the same run's copying floor. A/A: the baseline against itself, the run's noise."
)


def page_of(runs: Sequence[ReportedRun]) -> dict[str, Any]:
    """Returns everything that the page shows, by the names of the template's variables."""
    sections = [
        sweep_section(run, run.sweep, f"run-{number}") if run.sweep else run_section(run, f"run-{number}")
        for number, run in enumerate(runs, start=1)
    ]
    ops, devices = dict.fromkeys(run.info.op for run in runs), dict.fromkeys(run.info.device for run in runs)
    return {
        "title": f"{' and '.join(ops)} on {', '.join(devices)}",
        "subtitle": _subtitle(runs),
        "summary": summary_table(runs),
        "warnings": [warning for run in runs for warning in _warnings(run)],
        "sections": sections,
        "run_ids": [run.info.run_id for run in runs],
        "leads": [(f"run-{number}", headline(run), lead_line(run)) for number, run in enumerate(runs, start=1)],
        "provenance": _provenance(runs),
        "details": _known(
            {
                "Hashes of the kernels' sources": _facts([run.info.sources for run in runs]),
                "Environment": _facts([run.info.machine.get("environment") or {} for run in runs]),
            }
        ),
        "version": __version__,
        "legend": list(dict.fromkeys([_LEGEND, *map(_legend, runs)])),
    }


def _subtitle(runs: Sequence[ReportedRun]) -> str:
    stamps = sorted(_when(run.info.timestamp) for run in runs)
    when = stamps[0] if stamps[0] == stamps[-1] else f"{stamps[0]} to {stamps[-1]}"
    swept = sum(run.sweep is not None for run in runs)
    counts = [(len(runs) - swept, "run"), (swept, "sweep")]
    message = " and ".join(plural(count, name) for count, name in counts if count)
    return f"{message}, measured {when}"


def _when(timestamp: str) -> str:
    try:
        return f"{datetime.fromisoformat(timestamp):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return timestamp


def _warnings(run: ReportedRun) -> list[str]:
    own = [*run.info.warnings]
    if not run.info.complete:
        own.append("partial: some cases or rounds were not measured")
    if not run.sweep and (count := len({row.case.label for row in run.rows if row.status.is_failure})):
        own.append(f"not measured everywhere: {plural(count, 'kernel')}, named below with their reasons")
    return [f"{run.info.run_id}: {warning}" for warning in own]


def summary_table(runs: Sequence[ReportedRun]) -> HtmlTable:
    """Makes a line per run and workload; of several runs without stream times, comparable in one run alone."""
    lines = [line for number, run in enumerate(runs, start=1) for line in summary_lines(run, f"run-{number}")]
    columns = _summary_columns(lines, runs=len(runs), gpus=len({run.info.gpu for run in runs}))
    table = Table(tuple(columns), lines)
    return html_table(table, "summary-table", "The fastest kernel of each run and workload", filled=True)


@dataclass(frozen=True)
class SummaryLine:
    """The fastest kernel of a run at a workload, by kernel time where it has one; `link` is the run's section.

    `tie` names the kernels that tie with it, behind a colon how, and is empty without any.
    """

    run: ReportedRun
    workload: Workload
    row: Measurement
    tie: str
    link: str

    @property
    def kernel_time(self) -> Measurement | None:
        """Its kernel time, if any."""
        return self.row if self.row.clock else None

    @property
    def stream(self) -> Measurement:
        """Its time by the run's own timer."""
        return next(row for row in self.run.rows if row.case.id == self.row.case.id)

    @property
    def speedup(self) -> float:
        """The baseline's time over its own, 1 for the baseline; NaN if it was not compared."""
        own = 1.0 if self.row.role is Role.BASELINE else math.nan
        return self.row.versus.speedup if self.row.versus else own


def summary_lines(run: ReportedRun, link: str = "") -> list[SummaryLine]:
    """Returns a line for each workload, of a sweep for each plateau."""
    rows = {(row.case.label, row.case.workload): row for row in run.rows}
    if run.sweep:
        return [
            SummaryLine(
                run, each.workload, rows[each.simplest, each.workload],
                f"or {plural(len(each.tied) - 1, 'other')}: tied" if len(each.tied) > 1 else "", link,
            )
            for each in run.sweep.plateaus
        ]  # fmt: skip
    return [
        SummaryLine(
            run, workload, found.row,
            f"or {first_of(found.peers, MOST_PEERS)}: not separated" if found.peers else "", link,
        )
        for workload in run.workloads
        if (found := run.fastest(workload))
    ]  # fmt: skip


def headline(run: ReportedRun) -> str:
    """Returns a sentence: the fastest kernel's ratio to the baseline, the least and the most over the workloads."""
    lines = sorted(summary_lines(run), key=lambda line: -time_us(line.row))
    compared = {line.workload: line for line in lines if not math.isnan(line.speedup)}.values()
    if not compared:
        return "No kernel is compared with a baseline." if lines else "No kernel has a time."
    ranked = sorted(compared, key=lambda line: line.speedup)
    kinds = " and ".join(sorted({kind_of([line.row]) for line in ranked}))
    where = f"{with_inputs(line.workload for line in ranked)} on {run.info.device}, by {kinds}"
    if ranked[-1].row.role is Role.BASELINE:
        return f"No kernel is faster than the baseline, {run.info.baseline},{where}."
    ends = " to ".join(dict.fromkeys(map(_ratio, (ranked[0], ranked[-1]))))
    level = f"{run.info.settings['confidence']:.0%} intervals"
    return f"The fastest kernel is {ends} as fast as {run.info.baseline}{where} ({level})."


def _ratio(line: SummaryLine) -> str:
    """Returns a ratio with its interval, and whose it is: `1.471x (1.459x to 1.482x; decode-auto at B=1 qk4_v8)`."""
    versus = line.row.versus
    ends = f"{factor(versus.low)} to {factor(versus.high)}; " if versus and math.isfinite(versus.high) else ""
    names = " ".join(filter(None, [line.row.case.label, line.tie.partition(":")[0]]))
    return f"{factor(line.speedup)} ({ends}{names} at {line.workload})"


def _summary_columns(lines: Sequence[SummaryLine], *, runs: int, gpus: int) -> Iterator[Column[SummaryLine]]:
    by_kernel = any(line.kernel_time for line in lines)
    yield Column("", lambda line: str(line.workload), "workload")
    if gpus > 1:
        yield Column("", lambda line: line.run.info.gpu, "GPU")
    yield Column("", _fastest, "fastest", fold=True)
    yield time_column("kernel", lines, lambda line: line.kernel_time)
    if runs == 1:
        yield time_column("stream" if lines and lines[0].run.info.on_gpu else "CPU", lines, lambda line: line.stream)
    else:
        yield timing_column("/ copy", lambda line: line.stream, "over_copy", lambda ratio: number(ratio, ".3f"))
    yield ratio_column("speedup", lambda line: line.row)
    yield verdict_column(lambda line: line.row)
    yield Column("", lambda line: line.run.info.baseline, "baseline")
    if by_kernel or runs == 1:
        yield bound_column("of bound", lambda line: line.kernel_time if by_kernel else line.row)
    yield Column("", lambda line: control_cell(line.run.leading(line.run.at(line.workload))), "A/A", right=True)
    yield Column("", _run, "run")


def _fastest(line: SummaryLine) -> HtmlCell:
    name, settings = label_parts(line.row.case.label)
    return HtmlCell(text=name, aside="; ".join(filter(None, [":".join(settings), line.tie])), sort=line.row.case.label)


def _run(line: SummaryLine) -> HtmlCell:
    return HtmlCell(text=line.run.info.run_id[:START], sort=line.run.info.run_id, link=line.link)


def _legend(run: ReportedRun) -> str:
    if run.sweep:
        return sweep_legend(run.info)
    return legend(run.info, flops=flops_bind(run.rows), by_kernel=bool(run.kernel_times))


_SETTINGS = {
    "rounds": "rounds", "samples": "samples a round", "seed": "seed", "margin": "margin",
    "confidence": "confidence", "step_limit_s": "time limit of a step, s", "plain": "plain NVBench",
    "budget_s": "budget, s",
}  # fmt: skip
_GPU = {
    "name": "GPU", "uuid": "UUID", "sms": "SMs", "l2_bytes": "L2", "memory_bytes": "memory",
    "driver": "driver", "cuda_driver": "CUDA of the driver", "sm_max_mhz": "highest SM clock, MHz",
    "memory_mhz": "memory clock, MHz", "power_limit_w": "power limit, W", "ecc": "ECC", "mig": "MIG",
    "persistence": "persistence mode", "compute_mode": "compute mode",
}  # fmt: skip
_GIT = {"commit": "commit", "branch": "branch", "dirty": "uncommitted changes"}
_HOST = {"os": "system", "cpu": "CPU", "cores": "CPU cores"}
LONGEST = 160  # characters of a value: some variables hold a list of every driver ever released


Facts = list[tuple[str, tuple[str, ...]]]
"""Lines of the provenance: a name, and a value per run."""


def _provenance(runs: Sequence[ReportedRun]) -> list[tuple[str, Facts]]:
    """Returns the provenance that readers look for first, in groups, without what no run knows."""
    machines = [run.info.machine for run in runs]
    return _known(
        {
            "Run": [
                ("started, UTC", tuple(run.info.timestamp for run in runs)),
                ("command", tuple(run.info.command for run in runs)),
                ("complete", tuple(_text(run.info.complete) for run in runs)),
                ("median SM clock, MHz", tuple(map(_clock, runs))),
            ],
            "Settings": _facts([run.info.settings for run in runs], _SETTINGS),
            "GPU": _facts([machine.get("gpu") or {} for machine in machines], _GPU),
            "Versions": _facts([machine.get("versions") or {} for machine in machines]),
            "Source": _facts([run.info.git for run in runs], _GIT),
            "Host": _facts([machine.get("host") or {} for machine in machines], _HOST),
        }
    )


def _known(groups: Mapping[str, Facts]) -> list[tuple[str, Facts]]:
    return [(name, facts) for name, facts in groups.items() if facts]


def _facts(documents: Sequence[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> Facts:
    keys = names or {key: key for document in documents for key in document}
    found = [(title, tuple(_text(document.get(key), key) for document in documents)) for key, title in keys.items()]
    return [(title, values) for title, values in found if any(values)]


def _text(value: Any, key: str = "") -> str:
    if value is None:
        return ""
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _clock(run: ReportedRun) -> str:
    clocks = [row.timing.sm_mhz for row in run.rows if row.timing and not math.isnan(row.timing.sm_mhz)]
    return f"{statistics.median(clocks):.0f}" if clocks else ""
