"""The report of some runs, from what they stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gdnbench import __version__
from gdnbench.compare import Source
from gdnbench.report.html.across import across_section
from gdnbench.report.html.content import Page, Section
from gdnbench.report.html.counters import Profiled, counters_section
from gdnbench.report.html.lead_line import lead_line
from gdnbench.report.html.provenance import details_of, provenance_of
from gdnbench.report.html.published import published_section
from gdnbench.report.html.run_section import run_section
from gdnbench.report.html.stored import Stored
from gdnbench.report.html.summary import summary_table
from gdnbench.report.html.sweep_section import sweep_section
from gdnbench.report.html.words import words_for
from gdnbench.wording import plural


def page_of(runs: Sequence[Stored], published: Sequence[Source], profiled: Profiled) -> Page:
    """Everything that the page shows, ready to be laid out."""
    sections = [_section(run, f"run-{number}") for number, run in enumerate(runs, start=1)]
    figures = [published_section(source, f"published-{number}") for number, source in enumerate(published, start=1)]
    more = [across_section(runs), *figures, counters_section(profiled)]
    return Page(
        title=f"{' and '.join(dict.fromkeys(run.info.op for run in runs))} on {_devices(runs)}",
        subtitle=_subtitle(runs),
        summary=summary_table(runs),
        warnings=(*(warning for run in runs for warning in _warnings(run)), *profiled.warnings),
        sections=(*sections, *(section for section in more if section)),
        run_ids=tuple(run.info.run_id for run in runs),
        leads=tuple((f"run-{number}", lead_line(run)) for number, run in enumerate(runs, start=1)),
        provenance=provenance_of(runs),
        details=details_of(runs),
        version=__version__,
        words=words_for(tuple(runs)),
    )


def _section(run: Stored, prefix: str) -> Section:
    return sweep_section(run, run.sweep, prefix) if run.sweep else run_section(run, prefix)


def _devices(runs: Sequence[Stored]) -> str:
    return ", ".join(dict.fromkeys(run.device for run in runs))


def _subtitle(runs: Sequence[Stored]) -> str:
    stamps = sorted(_when(run.info.timestamp) for run in runs)
    when = stamps[0] if stamps[0] == stamps[-1] else f"{stamps[0]} to {stamps[-1]}"
    swept = sum(run.sweep is not None for run in runs)
    counts = [(len(runs) - swept, "run"), (swept, "sweep")]
    told = " and ".join(plural(count, name) for count, name in counts if count)
    return f"{told}, measured {when}"


def _when(timestamp: str) -> str:
    try:
        return f"{datetime.fromisoformat(timestamp):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return timestamp


def _warnings(run: Stored) -> list[str]:
    failed = {row.case.label for row in run.rows if row.status.is_failure and not run.sweep}
    own = [*run.info.warnings]
    if not run.info.complete:
        own.append("partial: some cases or rounds were not measured")
    if failed:
        own.append(f"not measured: {', '.join(sorted(failed))}")
    return [f"{run.info.run_id}: {warning}" for warning in own]
