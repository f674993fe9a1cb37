"""`gdnbench verify --length` and `--sequences`: kernels with a state, along sequences and through events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.padding import Padding
from rich.text import Text

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import ExitCode, UsageError
from gdnbench.machine import gpus
from gdnbench.model.case import Case
from gdnbench.model.status import GateResult, LengthMark, Status
from gdnbench.render.console import message_console
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.render.units import passed_cell
from gdnbench.report.charts import theme
from gdnbench.report.charts.theme import MARKERS, SERIES, check_picture
from gdnbench.store.journal import Examined
from gdnbench.verbs import options
from gdnbench.verbs.progress import watch
from gdnbench.verify.length import follow_variants
from gdnbench.verify.preflight import Verification
from gdnbench.verify.sequences import USUAL, SequencesVerdict, verify_sequences
from gdnbench.wording import plural

if TYPE_CHECKING:
    import altair as alt


def follow_lengths(names: Sequence[str], params: Mapping[str, Any]) -> ExitCode:
    """Follows kernels by the verb's parameters, prints their errors, and draws them; gives the exit code."""
    chart: Path | None = params["chart"]
    if chart:
        check_picture(chart, "lengths.png", "--chart")
    if not names:
        raise UsageError("--length follows kernels by name", "as in gdnbench verify decode-reference --length 1k,4k")
    catalog = load_catalog(library=params["library"])
    gpu = gpus.select_gpu(params["gpu"], gpus.list_gpus())
    op = options.op_meant(catalog, params["op"], names, quiet=params["quiet"])
    with watch(quiet=params["quiet"]) as observer:
        verdicts = follow_variants(
            catalog,
            op,
            options.joined(names),
            length=params["length"],
            axes=options.sizes(params["shape"]),
            profiles=options.joined(params["profile"]),
            seed=params["seed"],
            step_limit_s=params["step_limit"],
            gpu=gpu,
            observer=observer,
            warm=not params["fresh"],
        )
    tables = [_table(case, verdicts) for case in verdicts.cases]
    marks = [record for table in tables for record in table.records()]
    answer = Answer(
        tables=tables,
        text=lambda _: _text(tables, verdicts),
        document=lambda: {"device": verdicts.device, "seed": verdicts.seed, "marks": marks},
        next=command("verify", verdicts.cases[0].label),
    )
    print_answer(answer, json=params["json"], csv=params["csv"])
    if chart and any(mark["tokens"] for mark in marks):
        draw_lengths(marks, chart, verdicts.device)
        console = message_console(quiet=params["quiet"])
        console.print(f"drawn into {chart}", markup=False, soft_wrap=True)
    return verdicts.exit_code


class _Row(NamedTuple):
    case: Case
    verdict: Examined
    mark: LengthMark | None  # None if there is none: it failed before


def _of_mark(name: str, heading: str = "", form: str = "", **options: Any) -> Column[_Row]:
    """A column of a mark's field: numbers at the right, for people in a form of `format`."""

    def show(row: _Row) -> str:
        return format(getattr(row.mark, name), form) if row.mark else ""

    return Column(
        name,
        lambda row: getattr(row.mark, name) if row.mark else None,
        heading,
        show if form else None,
        right=bool(form),
        **options,
    )


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("kernel", lambda row: row.case.variant.kernel),
    Column("label", lambda row: row.case.label),
    Column("*", lambda row: row.case.workload.cells),
    Column("status", lambda row: row.verdict.status),
    Column("reason", lambda row: row.verdict.reason),
    _of_mark("state_type"),
    _of_mark("profile", "profile"),
    _of_mark("keys", "keys"),
    _of_mark("tokens", "tokens", ","),
    _of_mark("state_error", "state", ".2g"),
    _of_mark("emulated_state_error", "rounded", ".2g", style="dim"),
    _of_mark("output_error", "output", ".2g"),
    _of_mark("emulated_output_error", "rounded", ".2g", style="dim"),
    _of_mark("largest_state", "max |S|", ".3g", drop=2),
    _of_mark("gate_share", "of gate", ".2g", drop=1),
)
_LEGEND = (
    "relative errors of the last 64 tokens; rounded: of the recurrence in float64 whose state is rounded where the op "
    "stores it, and its output; of gate: the largest error of a further call, of what the op's gates allow"
)


def _table(case: Case, verdicts: Verification) -> Table[_Row]:
    verdict = verdicts.checked[case.id]
    order = dict.fromkeys((mark.profile, mark.keys) for mark in verdict.marks)
    marks = sorted(verdict.marks, key=lambda mark: [*order].index((mark.profile, mark.keys)))  # stable
    where = f", in {verdicts.interpreted[case.id]}" if case.id in verdicts.interpreted else ""
    sizes = str(case.workload).removesuffix(case.workload.labelled_profile).strip()
    title = f"{case.label} at {sizes}{where}"
    return Table(_COLUMNS, [_Row(case, verdict, mark) for mark in marks] or [_Row(case, verdict, None)], title)


def _text(tables: Sequence[Table[_Row]], verdicts: Verification) -> Iterator[Block]:
    for table in tables:
        verdict = table.rows[0].verdict
        yield table if verdict.marks else Note(table.title, "title")
        if verdict.status is Status.OK:
            yield Note("passes: its errors are those of its roundings", "summary")
        else:
            yield Note(f"{verdict.status}: {verdict.reason}", "failure" if verdict.status.is_failure else "legend")
        yield ""
    yield Note(_LEGEND, "legend")
    yield Note(f"on {verdicts.device}; seed {verdicts.seed}")


WIDTH, HEIGHT = 340, 240  # pixels of a panel
_ROOM = 1.6  # factor around the errors: what does not change should look so
ERRORS = {"state": ("state_error", "emulated_state_error"), "output": ("output_error", "emulated_output_error")}
"""By what is off, the fields of its error and of that of the emulation."""


def draw_lengths(marks: Sequence[Mapping[str, Any]], path: Path, device: str) -> None:
    """Draws the errors at marks, some at least, as `verify --length --json` has them, into a file."""
    cases: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for mark in marks:
        if mark["tokens"]:
            cases.setdefault((mark["label"], mark["state_type"]), []).append(mark)
    with theme.unchecked():
        panels = [_panel(own, case, what) for case, own in cases.items() for what in ERRORS]
        title = f"Relative error of the last 64 tokens, on {device}. Dashed: roundings of state and output alone."
        theme.write_picture(path, panels, title, across=len(ERRORS))


def _panel(marks: Sequence[Mapping[str, Any]], case: tuple[str, str], what: str) -> alt.LayerChart:
    import altair as alt

    kinds = list(dict.fromkeys(f"{mark['profile']} {mark['keys']}".strip() for mark in marks))
    own, emulated = ERRORS[what]
    data = [
        {
            "kind": f"{mark['profile']} {mark['keys']}".strip(),
            "tokens": mark["tokens"],
            "own": mark[own],
            "emulated": mark[emulated],
        }
        for mark in marks
    ]
    lengths = sorted({mark["tokens"] for mark in marks})
    errors = [each[name] for each in data for name in ("own", "emulated") if each[name]]
    log = alt.Scale(type="log", nice=False, padding=12)
    high = alt.Scale(type="log", nice=False, domain=[min(errors) / _ROOM, max(errors) * _ROOM])
    ticks = alt.Axis(title="tokens (log)", values=lengths, grid=False, labelExpr=_SHORT)
    colour = alt.Scale(domain=kinds, range=list(SERIES[: len(kinds)]))
    shape = alt.Scale(domain=kinds, range=["circle", *MARKERS][: len(kinds)])
    legend = alt.Legend(title=None, symbolOpacity=1, labelLimit=0)
    base = alt.Chart().encode(
        x=alt.X("tokens:Q", scale=log, axis=ticks), color=alt.Color("kind:N", scale=colour, legend=legend)
    )
    error = alt.Axis(title=f"error of the {what} (log)", format=".1e", tickCount=5)

    def at(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=high, axis=error)

    return theme.layered(
        base.mark_line(strokeDash=[4, 3], strokeWidth=1.2).encode(y=at("emulated")),
        base.mark_line(strokeWidth=1.8).encode(y=at("own")),
        base.mark_point(filled=True, size=46, opacity=1).encode(
            y=at("own"), shape=alt.Shape("kind:N", scale=shape, legend=legend)
        ),
        data=data,
    ).properties(width=WIDTH, height=HEIGHT, title=theme.panel_title(f"{case[0]}, {case[1]} state", what))


_SHORT = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + 'M' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~g') + 'k' : datum.label"
)


_GATES: tuple[Column[GateResult], ...] = (
    Column("gate", lambda gate: gate.gate, " "),
    Column("worst", lambda gate: gate.worst, " ", lambda gate: f"{gate.worst:.3g}", right=True),
    Column("limit", lambda gate: gate.limit, " ", lambda gate: f"of {gate.limit:g}", drop=1),
    Column("passed", lambda gate: gate.passed, " ", lambda gate: passed_cell(passed=gate.passed)),
    Column("event", lambda gate: gate.scenario if gate.worst else "", " ", drop=2, style="dim", rest=True),
    Column("where", lambda gate: gate.where if gate.worst else ""),
)


def check_sequences(names: Sequence[str], params: Mapping[str, Any]) -> ExitCode:
    """Runs and prints a program on a family of kernels, by the verb's parameters; gives the exit code."""
    with watch(quiet=params["quiet"]) as observer:
        verdict = verify_sequences(
            load_catalog(library=params["library"]),
            options.joined(names).split(","),
            shape=options.sizes(params["shape"]),
            sequences=params["sequences"],
            profile=options.joined(params["profile"]),
            seed=params["seed"],
            step_limit_s=params["step_limit"],
            gpu=gpus.select_gpu(params["gpu"], gpus.list_gpus()),
            observer=observer,
            warm=not params["fresh"],
        )
    replayed = verdict.replayed
    gates = Table(_GATES, replayed.gates, title=", ".join(verdict.kernels), headed=False)
    document = {
        "kernels": list(verdict.kernels),
        "device": verdict.device,
        "interpreted": verdict.interpreted,
        "profile": verdict.profile,
        "seed": verdict.seed,
        "events": verdict.events,
        "status": replayed.status.value,
        "reason": replayed.reason,
        "program": replayed.program,
        "gates": gates.records(),
    }
    answer = Answer(
        tables=[gates],
        document=lambda: document,
        text=lambda _: _program_text(verdict, gates),
        next=_next_words(verdict),
    )
    print_answer(answer, json=params["json"], csv=params["csv"])
    return verdict.exit_code


def _program_text(verdict: SequencesVerdict, gates: Table[GateResult]) -> Iterator[Block]:
    yield gates
    replayed, made = verdict.replayed, plural(verdict.events, "event")
    where = "in an interpreter" if verdict.interpreted else f"on {verdict.device}"
    if replayed.status is Status.OK:
        yield ""
        yield Note(f"{made}: all hold {where}; seed {verdict.seed}")
    elif not replayed.status.is_failure:
        yield Note(f"not checked: {replayed.reason}", "caution")
    else:
        events = replayed.program.split()
        shrunk = f", shrunk from {verdict.events}" if verdict.events > len(events) else ""
        yield Padding(Text(f"{replayed.status}: {replayed.reason}", style="red"), (0, 0, 0, 1), expand=False)
        yield ""
        yield Note(f"{replayed.program}: event {len(events)} fails{shrunk}, {where}; seed {verdict.seed}")


def _next_words(verdict: SequencesVerdict) -> list[str]:
    """Returns the command that runs a program that failed again, else one for another seed or what can be done."""
    replayed, words = verdict.replayed, ["gdnbench", "verify", ",".join(verdict.kernels)]
    words += [word for term in verdict.shape.split() for word in ("--shape", term)]
    words += ["--profile", verdict.profile] if verdict.profile else []
    if replayed.status.is_failure:
        return [*words, "--seed", str(verdict.seed), "--sequences", replayed.program]
    return [*words, "--sequences", USUAL] if replayed.status is Status.OK else ["gdnbench", "doctor"]
