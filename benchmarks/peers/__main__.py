"""`python -m benchmarks.peers run RECORD.csv`, `… table RECORD.csv…` and `… smoke`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gdnbench.calibrate.measure import CalibrationSubject, choose_subject, pilot_plan
from gdnbench.errors import GdnbenchError, MachineError, UsageError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.machine.provenance import describe_machine, git_state
from gdnbench.measure.start import begin_session
from gdnbench.process.events import NoteMade
from gdnbench.render.console import data_console, message_console
from gdnbench.verbs.progress import watch

from .facts import Facts, disagreement, facts_path, read_facts
from .measure import ROOT, Bench, measure_visit
from .peers import DEFAULT, MOST_NAMES, NAMES, PEERS, Peer, comparisons_of, why_missing
from .pilot import TARGETS, Planted, describe_planted, wanted_chains
from .records import Line, append_trial, drop_partial_trials, read_lines
from .rules import Outcome
from .schedule import Visit, fits, plan_visits, seconds_of_visits
from .table import markdown, print_tables

WORKLOADS = "B=1,64"
TRIALS = 20
SMOKE_CHAINS = (16, 32, 84)
"""About what the slowdowns cost at B=1 on an H200: a smoke test needs no pilot."""


def main(words: Sequence[str] | None = None) -> int:
    """The command line; 0 unless something failed."""
    options = _parser().parse_args(words)
    try:
        if options.verb == "table":
            return _table(options)
        return _smoke(options) if options.verb == "smoke" else _run(options)
    except GdnbenchError as error:
        message_console().print(f"error: {error.message}\n{error.hint}", markup=False, soft_wrap=True)
        return int(error.exit_code)
    except (OSError, ValueError) as error:
        if options.verb != "table":
            traceback.print_exc()
        message_console().print(f"error: {error}", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure; goes on with a record that is there")
    run.add_argument("record", type=Path, help="the CSV; what else is kept lies beside it")
    run.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial that ends later")
    run.add_argument(
        "--names", type=int, default=NAMES, help=f"of each kernel in a run of gdnbench, {NAMES} by default"
    )
    run.add_argument("--trials", type=int, default=TRIALS, help=f"comparisons of each kind; {TRIALS} by default")
    smoke = verbs.add_parser("smoke", help="one trial of each tool at B=1, with every worker's output")
    for verb in (run, smoke):
        verb.add_argument("--gpu", default="auto", help="as `gdnbench run --gpu` takes it")
        verb.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    table = verbs.add_parser("table", help="print the table of one record or several")
    table.add_argument("records", type=Path, nargs="+")
    table.add_argument("--markdown", action="store_true")
    return parser


def _table(options: argparse.Namespace) -> int:
    lines = [line for path in options.records for line in read_lines(path)]
    facts = [read_facts(facts_path(path)) for path in options.records]
    if options.markdown:
        print(markdown(lines, facts), end="")
    else:
        print_tables(data_console(), lines, facts)
    return 0


def _run(options: argparse.Namespace) -> int:
    deadline = time.monotonic() + options.seconds
    if not 1 <= options.names <= MOST_NAMES:
        raise UsageError(
            f"--names {options.names}: the planted kernel has 1 to {MOST_NAMES}", f"the default is {NAMES}"
        )
    subject = _subject(options.gpu, WORKLOADS)
    peers, missing = _choose_peers(options.peers)
    record: Path = options.record
    record.parent.mkdir(parents=True, exist_ok=True)
    done = drop_partial_trials(record)
    runs = record.with_suffix(".runs")
    with watch(quiet=False) as observer:
        bench = Bench(subject, (), peers, runs, observer, record.with_suffix(".log"), options.names)
        facts = _facts(bench, record, missing)
        bench = replace(bench, planted=facts.planted)
        _measure(bench, record, options.trials, done, deadline)
    print_tables(data_console(), read_lines(record) if record.exists() else [], [facts])
    return 0


def _subject(gpu: str, axes: str) -> CalibrationSubject:
    found = select_gpu(gpu, list_gpus())
    if found is None:
        raise MachineError("this benchmark needs a GPU, and there is none here", "see `gdnbench doctor`")
    return choose_subject(found, axes=axes, runs=2, processes=None, rounds=None)


def _choose_peers(names: str) -> tuple[tuple[Peer, ...], dict[str, str]]:
    """The peers that can be tried, and why others cannot.

    Raises:
        UsageError: for a name that is no peer's.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in PEERS]:
        raise UsageError(f"there is no peer {unknown[0]}", f"there are {', '.join(PEERS)}")
    missing = {name: why for name in wanted if (why := why_missing(PEERS[name]))}
    return tuple(PEERS[name] for name in wanted if name not in missing), missing


def _facts(bench: Bench, record: Path, missing: dict[str, str]) -> Facts:
    """What is known already, or what a pilot finds.

    Raises:
        UsageError: if the record is of something else.
    """
    path, subject, peers = facts_path(record), bench.subject, tuple(peer.name for peer in bench.peers)
    if path.exists():
        facts = read_facts(path)
        if why := disagreement(facts, subject.gpu.uuid, [str(each) for each in subject.workloads], peers, bench.names):
            raise UsageError(f"{path} cannot be gone on with: {why}", "give another record")
        return facts
    if record.exists():
        raise UsageError(f"{path} is gone, which says what the record beside it is of", "give another record")
    bench.observer(NoteMade("the pilot: which chains of additions cost what is wanted"))
    bench.runs.mkdir(parents=True, exist_ok=True)
    pilot = begin_session(subject.catalog, pilot_plan(subject), bench.runs, bench.observer).run()
    if pilot.interrupted:
        raise KeyboardInterrupt
    planted = tuple(describe_planted(pilot.analysis, wanted_chains(pilot.analysis)))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    facts = Facts(now, describe_machine(subject.gpu), git_state(ROOT), planted, peers, bench.names, missing)
    facts.write(path)
    return facts


def _measure(bench: Bench, record: Path, trials: int, done: set[tuple[str, int]], deadline: float) -> None:
    """Visit after visit, each kept as soon as it is whole, until all are there or the next one would be too long."""
    copies = {name: comparisons_of(name, bench.names) for name in bench.groups}
    took: dict[str, list[float]] = {name: [] for name in bench.groups}
    took |= seconds_of_visits(read_lines(record) if done else [])
    for visit in plan_visits(copies, trials, done, seed=0):
        left_s = deadline - time.monotonic()
        if not fits(took[visit.group], left_s):
            bench.observer(NoteMade(f"{max(left_s, 0):.0f} s are left: too few for another trial of {visit.group}"))
            return
        began = time.monotonic()
        append_trial(record, _visited(bench, visit))
        took[visit.group].append(time.monotonic() - began)
        bench.observer(NoteMade(f"trial {visit.trial} of {visit.group}: {took[visit.group][-1]:.1f} s"))


def _visited(bench: Bench, visit: Visit) -> list[Line]:
    lines = measure_visit(bench, visit)
    for reason in dict.fromkeys(line.reason for line in lines if line.outcome is Outcome.FAILED):
        bench.observer(NoteMade(f"no verdict in trial {visit.trial} of {visit.group}: {reason}; see {bench.log}"))
    return lines


def _smoke(options: argparse.Namespace) -> int:
    """One trial of everything but gdnbench's long protocol, which is the quick one with more rounds."""
    subject = _subject(options.gpu, "B=1")
    peers, missing = _choose_peers(options.peers)
    label = str(subject.workloads[0])
    chains = dict(zip(TARGETS, SMOKE_CHAINS, strict=True))
    slower = (Planted(label, target, chain, target, target, target) for target, chain in chains.items())
    planted = (Planted(label, 0.0), *slower)
    lines: list[Line] = []
    with TemporaryDirectory() as folder, watch(quiet=False) as observer:
        log = Path(folder) / "workers.log"
        tried = tuple(peer for peer in peers if peer.group != DEFAULT)
        bench = Bench(subject, planted, tried, Path(folder) / "runs", observer, log, names=1)
        for group in bench.groups:
            try:
                lines += measure_visit(bench, Visit(group, 1))
            except Exception:
                traceback.print_exc()
                missing[group] = "it raised"
        sys.stderr.write(log.read_text(encoding="utf-8") if log.exists() else "")
    facts = Facts("now", describe_machine(subject.gpu), {}, planted, tuple(peer.name for peer in peers), 1)
    print_tables(data_console(), lines, [facts])
    for line in lines:
        print(line.peer, line.rule, line.target, line.a_us, line.b_us, line.verdict, line.outcome, line.reason)
    print("left out:", missing or "nothing")
    return int(any(line.outcome is Outcome.FAILED for line in lines) or "it raised" in missing.values())


if __name__ == "__main__":
    sys.exit(main())
