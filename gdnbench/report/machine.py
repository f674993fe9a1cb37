"""Prints what is known of machines: the doctor's findings, a calibration, the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gdnbench.calibrate.measure import EQUAL, TARGETS, CalibrationSubject
from gdnbench.doctor.software import Level, MachineCheck
from gdnbench.origin import place_asked
from gdnbench.render.console import data_console, plain_table, print_csv, print_json, print_next
from gdnbench.render.units import duration, number, percent
from gdnbench.store.calibration import NAME, Calibration, EqualRates, PlantedRates, in_words
from gdnbench.wording import plural

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def print_checks(checks: Sequence[MachineCheck], gpu: str, *, json: bool) -> None:
    """Prints the findings; the next command repeats `gpu`, the `--gpu` that they are for."""
    if json:
        print_json([asdict(check) for check in checks])
        return
    console = data_console()
    console.print(doctor_table(checks))
    counts = {level: sum(check.level == level for check in checks) for level in ("ok", "warn", "fail")}
    summary = ", ".join(f"{count} {level}" for level, count in counts.items())
    fatal = any(check.is_fatal for check in checks)
    told = ": nothing can be measured until the failed checks are fixed" if fatal else ""
    console.print(f"\n{summary}{told}", markup=False)
    option = [] if gpu == "auto" else ["--gpu", gpu]
    print_next(console, ["gdnbench", *(["doctor"] if fatal else ["run", "--kernel", "all"]), *option])


def doctor_table(checks: Sequence[MachineCheck]) -> Table:
    """Makes a row per check: name, level and finding; a remedy has a row of its own."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a long path is wrapped, not cut
    for check in checks:
        # Text, not str: Rich would take the [fla] of `pip install 'gdnbench[fla]'` for a style.
        table.add_row(Text(check.name), Text(check.level, style=_STYLES[check.level]), Text(check.finding))
        if check.remedy:
            table.add_row("", Text("→", justify="right"), Text(check.remedy, style="cyan"))
    return table


def plan_line(subject: CalibrationSubject) -> str:
    """Describes the measurement and its longest duration."""
    settings, workloads = subject.settings, ", ".join(map(str, subject.workloads))
    return (
        f"a pilot and {plural(subject.runs, 'run')} at {workloads}: "
        f"{EQUAL} equal kernels and {len(TARGETS)} slower ones, "
        f"{plural(settings.rounds, 'round')} in {plural(settings.processes, 'process', 'processes')}; "
        f"at most {duration(subject.longest_s)}, after all kernels are checked"
    )


def print_calibration(calibration: Calibration, gpu: str, *, json: bool) -> None:
    """Prints a calibration; the next command repeats `gpu`, the `--gpu` that it is of."""
    if json:
        print_json(_document(calibration))
        return
    console = data_console()
    console.print(_headline(calibration))
    console.print(Text("\nequal kernels", style="bold"))
    console.print(_equal_table(calibration))
    console.print(Text("\nplanted slowdowns", style="bold"))
    console.print(_planted_table(calibration))
    console.print(Text(f"\n{_legend(calibration)}", style="dim"))
    console.print(Text(f"stored in {place_asked(Path(calibration.folder))}/{NAME}", style="dim"), soft_wrap=True)
    console.print(Text(f"calibrated {in_words(calibration.summary)}"))
    print_next(console, ["gdnbench", "run", "--kernel", "all", *([] if gpu == "auto" else ["--gpu", gpu])])


def _document(calibration: Calibration) -> dict[str, object]:
    total = calibration.all_equal
    return {
        **asdict(calibration),
        "all_equal": asdict(total),
        "false_claims": asdict(total.false_claims),
        "coverage": asdict(total.coverage),
        "smallest_found": calibration.smallest_found,
    }


def _headline(calibration: Calibration) -> Text:
    text = Text(f"calibration of the {calibration.gpu_name} in {calibration.host}", style="bold")
    runs = f"{plural(calibration.runs, 'run')} of {plural(calibration.rounds, 'round')}"
    told = f": {runs} in {plural(calibration.processes, 'process', 'processes')}"
    text.append(told, style="not bold")
    if not calibration.is_whole:
        text.append(f"  (partial: {calibration.asked} runs were asked for)", style="bold yellow")
    return text


def _equal_table(calibration: Calibration) -> Table:
    table = plain_table()
    table.add_column("workload", overflow="fold")
    for heading in ("compared", "false claims", "at most", "rms z", "covered"):
        table.add_column(heading, justify="right", no_wrap=True)
    several = [calibration.all_equal] if len(calibration.equal) > 1 else []
    for rates in (*calibration.equal, *several):
        table.add_row(*_equal_cells(rates))
    return table


def _equal_cells(rates: EqualRates) -> list[str]:
    claims, covered = rates.false_claims, rates.coverage
    return [
        rates.workload,
        str(rates.comparisons),
        f"{rates.claims} ({percent(claims.estimate)})",
        f"{claims.high:.0%}",
        number(rates.rms_z, ".2f"),
        f"{covered.estimate:.0%} ({covered.low:.0%} to {covered.high:.0%})",
    ]


def _planted_table(calibration: Calibration) -> Table:
    table = plain_table()
    table.add_column("workload", overflow="fold")
    for heading in ("wanted", "additions", "slower by", "found", "apart", "covered"):
        table.add_column(heading, justify="right", no_wrap=True)
    for rates in sorted(calibration.planted, key=lambda each: _order(calibration, each)):
        table.add_row(*_planted_cells(rates))
    return table


def _order(calibration: Calibration, rates: PlantedRates) -> tuple[int, float]:
    workloads = list(dict.fromkeys(each.workload for each in calibration.planted))
    return workloads.index(rates.workload), rates.target


def _planted_cells(rates: PlantedRates) -> list[str]:
    of = f" of {rates.comparisons}"
    return [
        rates.workload,
        f"{rates.target:.1%}",
        str(rates.chain),
        f"{rates.slowdown:.2%}",
        f"{rates.found}{of}",
        f"{rates.apart}{of}",
        "" if rates.covered is None else f"{rates.covered}{of}",
    ]


def _legend(calibration: Calibration) -> str:
    return "\n".join(
        (
            "false claims: called FASTER or SLOWER; at most: the upper end of the share's 95 % interval.",
            "rms z: of differences in standard errors; 1 where runs know their noise.",
            f"covered: 1 is in the interval, before Holm's correction; it promises {calibration.confidence:.0%}.",
            f"found: called SLOWER, beyond {calibration.margin:.2%}; apart: the printed interval leaves out 1.",
            "covered, of a slowdown: the run agrees with the others, within the interval of their difference.",
        )
    )


def print_targets(targets: Sequence[dict[str, Any]], *, json: bool, csv: bool) -> None:
    """Prints targets: `name`, `kind`, `host`, `gpus`, `python`, `workdir`, and the `file` that has them."""
    if json:
        print_json(targets)
        return
    if csv:
        print_csv(targets)
        return
    console = data_console()
    if not targets:
        console.print("no targets: no gdnbench.toml here or among your own settings names one")
        print_next(console, ["gdnbench", "targets", "init", "lab", "--ssh", "HOST", "--gpu", "h200"])
        return
    table = plain_table()
    for heading in ("target", "kind", "host", "GPUs", "file"):
        table.add_column(heading, overflow="fold")
    for each in targets:
        table.add_row(each["name"], each["kind"], each["host"], ", ".join(each["gpus"]), each["file"])
    console.print(table)
    print_next(console, ["gdnbench", "targets", "check", targets[0]["name"]])
