"""What `verify` prints: of each kernel and gate the worst error, its place, and whether it passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rich.padding import Padding
from rich.text import Text

from gdnbench.catalog.request import inputs_words, repeat_words
from gdnbench.errors import ExitCode
from gdnbench.model.case import Case
from gdnbench.model.declaration import CONTEST_TOLERANCE
from gdnbench.model.status import GateResult, InvarianceResult, Status
from gdnbench.remote.targets import first_target
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table
from gdnbench.render.units import passed_cell
from gdnbench.verify.preflight import Verification
from gdnbench.wording import first_line, plural

WIDE_ENOUGH_FOR_PLACES = 77  # characters; in fewer, the place of the worst element would be folded after each letter


def print_verdicts(verdicts: Verification, *, json: bool, csv: bool) -> None:
    """Prints the worst error of each kernel and gate; JSON and CSV have a row per case, input and gate."""

    def records() -> list[dict[str, Any]]:
        return [row for case in verdicts.cases for row in _rows(case, verdicts)]

    tested = [_Tested(case, result) for case in verdicts.cases for result in verdicts.checked[case.id].invariance]
    invariance = Table(_INVARIANCE, tested).records() if verdicts.invariance else []
    answer = Answer(
        records=lambda: invariance if verdicts.invariance else records(),
        document=lambda: {
            "device": verdicts.device,
            "seed": verdicts.seed,
            **({"quick": True} if verdicts.quick else {}),
            "gates": records(),
            **({"invariance": invariance} if verdicts.invariance else {}),
        },
        text=partial(_text, verdicts),
        next=_next_words(verdicts),
    )
    print_answer(answer, json=json, csv=csv)


def _rows(case: Case, verdicts: Verification) -> list[dict[str, Any]]:
    verdict = verdicts.checked[case.id]
    common = {
        "kernel": case.variant.kernel,
        "label": case.label,
        **case.workload.cells,
        "interpreted": case.id in verdicts.interpreted,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "contest_error": verdict.contest_error,
        "notes": "; ".join(verdict.notes),
    }
    gates = [_gate_row(gate) for gate in verdict.gates]
    return [{**common, **gate} for gate in gates or [dict.fromkeys(_GATE_COLUMNS, "") | _NOT_MEASURED]]


_GATE_COLUMNS = (
    "scenario", "gate", "worst", "limit", "where", "passed", "got", "expected", "wrong", "of", "spread",
)  # fmt: skip
_NOT_MEASURED = dict.fromkeys(("worst", "limit", "passed", "got", "expected", "wrong", "of"))


def _gate_row(gate: GateResult) -> dict[str, Any]:
    wrong = gate.wrong
    values = (
        gate.scenario, gate.gate, gate.worst, gate.limit, gate.where, gate.passed,
        *((wrong.got, wrong.expected, wrong.count, wrong.of, wrong.spread) if wrong else (None, None, 0, None, "")),
    )  # fmt: skip
    return dict(zip(_GATE_COLUMNS, values, strict=True))


class _Worst(NamedTuple):
    """The worst error of a gate over all workloads and inputs."""

    case: Case
    gate: GateResult

    @property
    def place(self) -> str:
        where = self.gate.where.replace(" ", "")
        return f"{self.case.workload.x_term} {self.gate.scenario} {where}" if self.gate.worst else ""


def _text(verdicts: Verification, width: int) -> Iterator[Block]:
    by_label: dict[str, list[Case]] = {}
    for case in verdicts.cases:
        by_label.setdefault(case.label, []).append(case)
    for label, cases in by_label.items():
        picked = ", ".join(dict.fromkeys(case.variant.in_full for case in cases if case.variant.is_picked))
        heading, reasons = Text(f"{label}: {picked}" if picked else label, style="bold"), _reasons(cases, verdicts)
        if any(verdicts.checked[case.id].gates for case in cases):
            yield heading
            yield _gate_table(cases, verdicts, aligned=width >= WIDE_ENOUGH_FOR_PLACES)
            if verdicts.invariance:
                yield _invariance_table(cases, verdicts)
            for line in (*reasons, *_contest_lines(cases, verdicts), *_notes(cases, verdicts)):
                yield line if "\n" in line.plain else Padding(line, (0, 0, 0, 1), expand=False)
        else:
            yield Text("  ").join([heading, *reasons])
    yield ""
    yield Note(_summary(by_label, verdicts))
    if verdicts.quick:
        places = ", ".join(dict.fromkeys(str(case.workload) for case in verdicts.cases))
        yield Note(f"quick: at {places}, on the inputs that are timed there; no others were checked", "caution")


def _summary(by_label: Mapping[str, Sequence[Case]], verdicts: Verification) -> str:
    """Returns how many kernels passed and failed and at what, each counted once, and the seed of the inputs."""
    message: Counter[str] = Counter()
    for cases in by_label.values():
        statuses = {verdicts.checked[case.id].status for case in cases}
        interpreter = next((verdicts.interpreted[case.id] for case in cases if case.id in verdicts.interpreted), "")
        if any(status.is_failure for status in statuses):
            message["failed"] += 1
        elif Status.OK in statuses and any(case.id in verdicts.compiled for case in cases):
            message[f"passed at some workloads in {interpreter} and compiled only at others"] += 1
        elif Status.OK in statuses:
            message[f"passed in {interpreter}" if interpreter else f"passed on {verdicts.device}"] += 1
        elif any(case.id in verdicts.compiled for case in cases):
            message["compiled only"] += 1
        else:
            message["not checked"] += 1
    counts = ", ".join(f"{count} {how}" for how, count in message.items())
    places = list(dict.fromkeys(str(case.workload) for case in verdicts.cases))
    where = places[0] if len(places) == 1 else plural(len(places), "workload")
    return f"{plural(len(by_label), 'kernel')} at {where}: {counts}; seed {verdicts.seed}"


def _next_words(verdicts: Verification) -> list[str]:
    """Returns the next command: repeats the first failure, else runs what can be timed, here or on a target."""
    failed = [case for case in verdicts.cases if verdicts.checked[case.id].status.is_failure]
    if failed:
        sanitized = ["--sanitize"] if failed[0].id in verdicts.sanitized else []
        return [*repeat_words(failed[0], verdicts.seed, verdicts.captured), *sanitized]
    passed = [case for case in verdicts.cases if verdicts.checked[case.id].status is Status.OK]
    if passed and verdicts.quick:
        return ["gdnbench", "verify", passed[0].label]
    if passed:
        return _after_a_pass(passed[0], verdicts)
    compiled = [case.label for case in verdicts.cases if case.id in verdicts.compiled]
    if compiled:
        return ["gdnbench", "inspect", compiled[0]]
    for label, workload in verdicts.able.items():
        return ["gdnbench", "verify", label, *workload.options]
    return ["gdnbench", "doctor"]


def _after_a_pass(case: Case, verdicts: Verification) -> list[str]:
    captured = inputs_words(case.workload, verdicts.captured) if verdicts.captured else []
    run = ["gdnbench", "run", case.label, *captured]
    if case.id not in verdicts.interpreted:
        return run
    target = first_target()
    return [*run, "--on", target] if target else ["gdnbench", "inspect", case.label]


def _gate_table(cases: Sequence[Case], verdicts: Verification, *, aligned: bool) -> Table[_Worst]:
    """Makes a row per gate with the worst over all workloads and inputs; `aligned` columns stand as other kernels'."""
    errors = [_Worst(case, gate) for case in cases for gate in verdicts.checked[case.id].gates]
    rows: dict[str, _Worst] = {}
    for each in errors:
        worst = rows.setdefault(each.gate.gate, each)
        rows[each.gate.gate] = each if each.gate.worst > worst.gate.worst else worst
    gate, number = (27, 8) if aligned else (0, 0)
    drop = 0 if aligned else 1
    columns: tuple[Column[_Worst], ...] = (
        Column("", lambda row: f" {row.gate.gate:{gate}}", "gate"),
        Column("", lambda row: f"{row.gate.worst:{number}.3g}", "worst", right=True),
        Column("", lambda row: f"{f'of {row.gate.limit:g}':{number}}", "limit", drop=drop),
        Column("", lambda row: row.gate.passed, "verdict", lambda row: passed_cell(passed=row.gate.passed)),
        Column("", lambda row: row.place, "where", style="dim", fold=True, drop=2 * drop),
    )
    return Table(columns, tuple(rows.values()), headed=False)


class _Tested(NamedTuple):
    """A kind of invariance at a workload."""

    case: Case
    result: InvarianceResult


def _invariance_table(cases: Sequence[Case], verdicts: Verification) -> Table[_Tested]:
    """Makes a row per kind, of the workload at which the largest share of elements differs."""
    rows: dict[str, _Tested] = {}
    for each in (_Tested(case, result) for case in cases for result in verdicts.checked[case.id].invariance):
        worst = rows.setdefault(each.result.kind, each)
        if worst.result.skipped or each.result.share > worst.result.share:
            rows[each.result.kind] = each
    return Table(_INVARIANCE, tuple(rows.values()))


def _bits(row: _Tested) -> Text:
    result = row.result
    if result.skipped:
        return Text("not tried", style="dim")
    if not result.differing:
        return Text("equal", style="green")
    return Text(f"{result.differing:,} of {result.of:,} differ", style="bold red" if result.claimed else "yellow")


def _pair(row: _Tested) -> str:
    result, place = row.result, row.case.workload.x_term
    if result.skipped or not result.differing:
        return result.skipped or plural(result.pairs, "pair")
    return result.pair if result.pair.startswith(place) else f"{place}: {result.pair}"


_INVARIANCE: tuple[Column[_Tested], ...] = (
    Column("kernel", lambda row: row.case.variant.kernel),
    Column("label", lambda row: row.case.label),
    Column("*", lambda row: row.case.workload.cells),
    Column("kind", lambda row: row.result.kind, " invariance", lambda row: f" {row.result.kind}"),
    Column("claimed", lambda row: row.result.claimed, "claimed", lambda row: "yes" if row.result.claimed else ""),
    Column("pairs", lambda row: row.result.pairs),
    Column("differing", lambda row: row.result.differing, "bits", _bits),
    Column("of", lambda row: row.result.of),
    Column("by_tensor", lambda row: row.result.by_tensor),
    Column("in_gates", lambda row: row.result.in_gates, "in gates", lambda row: _in_gates(row.result), right=True),
    Column("pair", lambda row: row.result.pair, "pair", _pair, fold=True),
    Column("first", lambda row: row.result.first),
    Column("between", lambda row: row.result.between, "between them", lambda row: _between(row.result), fold=True),
    Column("skipped", lambda row: row.result.skipped),
)


def _between(result: InvarianceResult) -> str:
    return result.between or ("nothing that it declares" if result.differing else "")


def _in_gates(result: InvarianceResult) -> str:
    return f"{result.in_gates:.2g}" if result.differing and result.in_gates is not None else ""


def _notes(cases: list[Case], verdicts: Verification) -> list[Text]:
    """Returns what was seen that is not a failure, at the first workload that has any."""
    noted = (verdicts.checked[case.id].notes for case in cases)
    return [Text(note, style="dim") for note in next(filter(None, noted), ())]


def _contest_lines(cases: list[Case], verdicts: Verification) -> list[Text]:
    """Returns, for a kernel that fails gdnbench's gates, whether it is within the contest's tolerance."""
    checked = [verdicts.checked[case.id] for case in cases]
    errors = [verdict.contest_error for verdict in checked if verdict.contest_error is not None]
    fails = [verdict for verdict in checked if verdict.status.is_failure]
    if not fails or any(verdict.contest_error is None for verdict in fails) or max(errors) > 1:
        return []
    message = f"within the FlashInfer contest's tolerance of {CONTEST_TOLERANCE:g}: {max(errors):.2g} of it at most"
    return [Text(message, style="yellow")]


def _reasons(cases: list[Case], verdicts: Verification) -> list[Text]:
    """Returns why a kernel did not pass, each reason once: of the first case, with the other workloads' names."""
    found: dict[tuple[Status, str], list[Case]] = {}
    for case in cases:
        verdict = verdicts.checked[case.id]
        if verdict.status is not Status.OK:
            is_wrong = verdict.status.exit_code is ExitCode.WRONG_NUMBERS
            found.setdefault((verdict.status, "" if is_wrong else first_line(verdict.reason)), []).append(case)
    return [_reason(alike, verdicts) for alike in found.values()]


def _reason(alike: Sequence[Case], verdicts: Verification) -> Text:
    first, *others = alike
    verdict = verdicts.checked[first.id]
    message = verdict.reason if first.id in verdicts.compiled else f"{verdict.status}: {verdict.reason}"
    if verdict.status.exit_code is ExitCode.WRONG_NUMBERS:
        message = f"{message}, at {first.workload}"
        message += (
            f"; also wrong at {others[0].workload.spec.x}={','.join(case.workload.x_value for case in others)}"
            if others
            else ""
        )
    return Text(message, style="red" if verdict.status.is_failure else "dim")
