"""`gdnbench verify --length`: errors of kernels against the length of sequences, printed and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gdnbench.errors import UsageError
from gdnbench.model.case import Case
from gdnbench.model.status import LengthMark, Status
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Column, Note, Table, command
from gdnbench.store.journal import Examined
from gdnbench.verbs import options

if TYPE_CHECKING:
    from pathlib import Path

    from gdnbench.errors import ExitCode
    from gdnbench.verify.preflight import Verification


def follow_lengths(names: Sequence[str], params: Mapping[str, Any]) -> ExitCode:
    """Follows kernels by the verb's parameters, prints their errors, and draws them; gives the exit code."""
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.render.console import message_console
    from gdnbench.report.charts.length import draw_lengths
    from gdnbench.report.charts.theme import check_picture
    from gdnbench.verbs.progress import watch
    from gdnbench.verify.length import follow_variants

    chart: Path | None = params["chart"]
    if chart:
        check_picture(chart, "lengths.png", "--chart")
    if not names:
        raise UsageError("--length follows kernels by name", "as in gdnbench verify decode-reference --length 1k,4k")
    catalog = load_catalog(library=params["library"])
    gpu = select_gpu(params["gpu"], list_gpus())
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
