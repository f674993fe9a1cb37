"""Prints `gdnbench ncu`: a column per GPU function, or the changes between two; its counters in few characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter
from textwrap import wrap
from typing import Any

from rich.padding import Padding
from rich.text import Text

from gdnbench.catalog.catalog import op_named
from gdnbench.catalog.select import DEFAULT_OP
from gdnbench.errors import UnknownNameError
from gdnbench.model.case import CodeState
from gdnbench.model.workload import Workload
from gdnbench.profile.ncu.functions import RELATIVE_FLOOR, STALLS, CounterChange, Function, FunctionDifference
from gdnbench.profile.ncu.quantities import QUANTITIES, STALL_MEANINGS
from gdnbench.render.table import Answer, Block, Note, Table, TitledRow, titled_table
from gdnbench.render.units import CodeOf, other_code, percent

COLUMN_WIDTH = 11  # four columns with gaps and the titles make eighty
_WITH_VALUE = ("B", "B/s", "x")  # units that stand beside the value; others stand beside the title
_DECIMALS = {"µs": 2, "%": 1, "MHz": 0, "cycles": 2}  # ncu's clock ticks every 32 ns
_PREFIXES = ("", "k", "M", "G", "T")
_LEAST_SHARE = 0.01  # of a warp's time, below which a stall has no row
NOT_A_TIME = (
    "ncu's duration is that of a replay by itself, after the caches were flushed: "
    "compare it with other durations here, not with times of gdnbench run."
)


def titled(title: str, unit: str) -> str:
    """Returns a quantity's title, with its unit if every cell has the same."""
    return f"{title}, {unit}" if unit and unit not in _WITH_VALUE else title


def value_text(value: float | None, unit: str) -> str:
    """Formats a value; a dash if the report lacks it, `nan` if ncu could not read it."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "nan"
    if unit in {"B", "B/s"}:
        return _prefixed(value, unit)
    if unit in _DECIMALS:
        return f"{value:.{_DECIMALS[unit]}f}"
    plain = f"{value:,.0f}" if value.is_integer() or abs(value) >= 1000 else f"{value:.3g}"
    return plain + ("x" if unit == "x" else "")


def stall_text(cycles: float, total: float) -> str:
    """Returns cycles per instruction and their share of all; empty for 0."""
    return f"{cycles:.2f} {cycles / total:4.0%}" if cycles else ""


def _prefixed(value: float, unit: str) -> str:
    power = min(max(int(math.log10(value)) // 3, 0), len(_PREFIXES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {_PREFIXES[power]}{unit}"


def heading(function: Function, everything: Sequence[Function]) -> list[str]:
    """Returns narrow heading lines of a column: the kernel without its op, and what tells it from `everything`."""
    lines = [function.label.removeprefix(f"{function.profiles[0].op}-") or function.name]
    siblings = [one for one in everything if one.path == function.path and one.label == function.label]
    if function.label and len({one.name for one in siblings}) > 1:
        lines.append(function.name)
    if len({one.workload for one in everything}) > 1 and function.workload:
        lines.append(str(function.workload))
    if len({one.gpu for one in everything}) > 1:
        lines.append(function.gpu.removeprefix("NVIDIA "))
    shown = attrgetter("label", "name", "workload", "gpu")
    if any(shown(function) == shown(one) for one in everything if one.path != function.path):
        lines.append(function.path.name)
    if len(function.profiles) > 1:
        lines.append(f"{len(function.profiles)} launches")
    return [part for line in lines for part in wrap(line, COLUMN_WIDTH)]


def workload_text(workload: Workload | None) -> str:
    """Returns a workload for a table's heading."""
    return str(workload) if workload else "workload unknown"


def subject(function: Function) -> str:
    """Describes a launch: `decode-v4 B=1 qk4_v8 on NVIDIA H200`."""
    return f"{function.label or function.name} {workload_text(function.workload)} on {function.gpu or 'an unknown GPU'}"


def change_text(change: CounterChange) -> str:
    """Formats a change: in points for per cent, else as a share, or a factor if large."""
    before, after = change.medians
    if change.unit == "%":
        return f"{after - before:+.1f} pt"
    if math.isnan(change.ratio):
        return "from none"
    if change.ratio >= 2:
        return f"{change.ratio:.3g}x"
    return f"{'+' if change.ratio > 1 else '-'}{percent(abs(change.ratio - 1))}"


def stall_reasons(functions: Sequence[Function]) -> Iterator[str]:
    """Yields the stalls worth a row, in order of the first function's."""
    found = [function.stalls() for function in functions]
    for reason in dict.fromkeys(reason for stalls in found for reason in stalls):
        if any(stalls.get(reason, 0.0) >= _LEAST_SHARE * sum(stalls.values()) for stalls in found if stalls):
            yield reason


_TITLE_WIDTH = 28
_GAP = 2
_TELLING_SHARE = 0.1  # of a warp's time, from which on a stall is explained
_STYLES = {"better": "green", "worse": "red", "": ""}


def functions_answer(functions: Sequence[Function], code_of: CodeOf) -> Answer:
    """Returns functions side by side, and which of them are not of their kernels' current code."""
    return Answer(
        records=lambda: [_row(function, code_of) for function in functions],
        text=lambda width: [*_functions_text(width, functions), *_reports(functions, code_of)],
        document=lambda: [
            {**_identity(each, code_of), "quantities": _quantities(each), "stalls": each.stalls()} for each in functions
        ],
        next=_after_table(functions),
    )


def differences_answer(differences: Sequence[FunctionDifference], code_of: CodeOf) -> Answer:
    """Returns the changes, pair by pair."""
    functions = [one for difference in differences for one in (difference.before, difference.after)]
    texts = (_difference_text(difference, named=len(differences) > 1) for difference in differences)
    return Answer(
        records=lambda: [row for difference in differences for row in _difference_rows(difference, code_of)],
        text=lambda _width: [*chain.from_iterable(texts), *_reports(functions, code_of)],
        document=lambda: [difference_document(difference, code_of) for difference in differences],
        next=["gdnbench", "ncu", "--import", *_paths(functions)],
    )


def _reports(functions: Sequence[Function], code_of: CodeOf) -> Iterator[Block]:
    for path in _paths(functions):
        yield Note(f"report: {path}", "legend", whole=True)
        for label in dict.fromkeys(
            one.label for one in functions if str(one.path) == path and is_changed(one, code_of)
        ):
            yield Padding(Text(other_code(label), style="yellow"), (0, 0, 0, 8), expand=False)


def is_changed(function: Function, code_of: CodeOf) -> bool:
    """Whether a function is not of its kernel's current code."""
    return code_of(function.label, function.source) is CodeState.CHANGED


def _after_table(functions: Sequence[Function]) -> list[str]:
    """Returns the next command: `explain` for one kernel, `--diff` for several; empty if neither applies."""
    first, paths = functions[0], _paths(functions)
    if len(paths) > 1:
        both = [str(function.path) for function in functions if str(function.path) in paths[:2]]
        return ["gdnbench", "ncu", "--import", paths[0], "--diff", paths[1]] if len(both) == 2 else []
    if first.label and first.workload:
        return ["gdnbench", "explain", first.label, *first.workload.options, "--from", paths[0]]
    return ["ncu-ui", paths[0]] if paths[0].endswith(".ncu-rep") else []


def _paths(functions: Sequence[Function]) -> list[str]:
    return list(dict.fromkeys(str(function.path) for function in functions))


def _functions_text(width: int, functions: Sequence[Function]) -> Iterator[Block]:
    first = functions[0]
    known = zip(*((one.profiles[0].op, one.workload, one.gpu) for one in functions), strict=True)
    shared = (first.profiles[0].op, workload_text(first.workload), first.gpu)
    parts = [text for text, values in zip(shared, known, strict=True) if text and len(set(values)) == 1]
    yield Note("  ".join(parts) or "as ncu sees it", "title")
    most = max(1, (width - _TITLE_WIDTH) // (COLUMN_WIDTH + _GAP))
    for start in range(0, len(functions), most):
        if start:
            yield Note("")
        yield _function_table(functions[start : start + most], functions)
    stalls = first.stalls()
    for reason, cycles in stalls.items():
        if cycles >= _TELLING_SHARE * sum(stalls.values()) and reason in STALL_MEANINGS:
            yield Note(f"{reason}: {STALL_MEANINGS[reason]}", "legend")
    if any(len(function.profiles) > 1 for function in functions):
        yield Note("of several launches: the median of each quantity", "legend")
    yield Note(f"-: not in the report. {NOT_A_TIME}", "legend")


def _function_table(block: Sequence[Function], everything: Sequence[Function]) -> Table[TitledRow]:
    rows: list[TitledRow] = []
    for group, quantities in groupby(QUANTITIES, lambda quantity: quantity.group):
        rows.append((group, ()))
        rows += [
            (f"  {titled(one.title, one.unit)}", [value_text(each.median(one), one.unit) for each in block])
            for one in quantities
        ]
    # The stalls of all functions, most of the first's first, so that every block has the same rows.
    reasons = list(stall_reasons(everything))
    found = [function.stalls() for function in block]
    rows += [("a warp's cycles/instruction", ())] if reasons else []
    for reason in reasons:
        rows.append((f"  {reason}", [stall_text(each.get(reason, 0.0), sum(each.values())) for each in found]))
    heads = ["\n".join(heading(function, everything)) for function in block]
    return titled_table(heads, rows, fold=len(heads), bottom=len(heads), least=_TITLE_WIDTH - _GAP, most=COLUMN_WIDTH)


def _difference_text(difference: FunctionDifference, *, named: bool) -> Iterator[Block]:
    """Yields what changed in a pair by more than its launches spread; `named` adds the function."""
    which = f"{difference.after.name}: " if named else ""
    yield Note(f"{which}{subject(difference.before)}  ->  {subject(difference.after)}", "title")
    if difference.changes:
        yield _difference_table(difference)
    else:
        yield Note(f"  nothing moved, of {difference.compared} quantities")
    shown, floor = f"shown: {len(difference.changes)} of {difference.compared} quantities", f"{RELATIVE_FLOOR:.0%}"
    if difference.has_spread:
        before, after = len(difference.before.profiles), len(difference.after.profiles)
        yield Note(
            f"{shown}, which moved by more than {before} and {after} launches spread, and by {floor} or more.", "legend"
        )
    else:
        unknown = "their spread is not known: --repeat 3 measures it."
        yield Note(f"{shown}, which moved by {floor} or more; {unknown}", "legend")
    yield from (Note(line, "legend") for line in ("better, worse: all else equal.", NOT_A_TIME))


def _difference_table(difference: FunctionDifference) -> Table[TitledRow]:
    sides = (difference.before, difference.after)
    rows: list[TitledRow] = []
    for group, changes in groupby(difference.changes, lambda change: change.group):
        rows.append(("stalls, cycles/instruction" if group == STALLS else group, ()))
        for change in changes:
            before, after = (value_text(value, change.unit) for value in change.medians)
            verdict = Text(change.verdict, style=_STYLES[change.verdict])
            title = change.title if change.unit == "cycles" else titled(change.title, change.unit)
            rows.append((f"  {title}", (before, after, change_text(change), verdict)))
    heads = ["\n".join(heading(function, sides)) for function in sides]
    return titled_table([*heads, "change", " "], rows, wrap=2, bottom=2, least=_TITLE_WIDTH - _GAP)


def _no_axes(op: str) -> dict[str, None]:
    """Returns the empty axes of a launch of an unknown workload: its op's, or the default op's."""
    try:
        return dict.fromkeys(op_named(op or DEFAULT_OP).workloads.names)
    except UnknownNameError:
        return {}


def _identity(function: Function, code_of: CodeOf) -> dict[str, Any]:
    return {
        "kernel": function.label,
        "op": function.profiles[0].op,
        **(function.workload.cells if function.workload else _no_axes(function.profiles[0].op)),
        "gpu": function.gpu,
        "arch": function.profiles[0].arch,
        "function": function.name,
        "launches": len(function.profiles),
        "source": function.source,
        "code": code_of(function.label, function.source).value,
        "report": str(function.path),
    }


def _row(function: Function, code_of: CodeOf) -> dict[str, Any]:
    stalls = {f"stall_{reason}": cycles for reason, cycles in function.stalls().items()}
    return {**_identity(function, code_of), **_quantities(function), **stalls}


def _quantities(function: Function) -> dict[str, float | None]:
    return {quantity.key: _exact(function.median(quantity)) for quantity in QUANTITIES}


def _exact(value: float | None) -> float | None:
    """Returns a whole number as int: CSV rounds fractions to six digits, and counts have more."""
    return int(value) if value is not None and value.is_integer() else value


def difference_document(difference: FunctionDifference, code_of: CodeOf) -> dict[str, Any]:
    """Returns two functions and their changes, for JSON."""
    return {
        "before": _identity(difference.before, code_of),
        "after": _identity(difference.after, code_of),
        "compared": difference.compared,
        "has_spread": difference.has_spread,
        "moves": [_change(change) for change in difference.changes],
    }


def _difference_rows(difference: FunctionDifference, code_of: CodeOf) -> list[dict[str, Any]]:
    sides = {"before": difference.before, "after": difference.after}
    identities = {
        f"{key}_{side}": value for side, one in sides.items() for key, value in _identity(one, code_of).items()
    }
    return [{**_change(change), **identities} for change in difference.changes]


def _change(change: CounterChange) -> dict[str, Any]:
    before, after = change.medians
    return {
        "quantity": change.key,
        "group": change.group,
        "unit": change.unit,
        "before": _exact(before),
        "before_low": _exact(min(change.before)),
        "before_high": _exact(max(change.before)),
        "after": _exact(after),
        "after_low": _exact(min(change.after)),
        "after_high": _exact(max(change.after)),
        "ratio": change.ratio,
        "verdict": change.verdict,
    }
