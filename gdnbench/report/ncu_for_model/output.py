"""Prints `gdnbench ncu --for-model`: a view per function or pair, or a document with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gdnbench.model.code import CodeState
from gdnbench.profilers.ncu.functions import Function, FunctionDifference
from gdnbench.report.console import print_json, print_text
from gdnbench.report.ncu import difference_document, function_document
from gdnbench.report.ncu_for_model.fit import CounterView
from gdnbench.report.ncu_for_model.one import view_of_function
from gdnbench.report.ncu_for_model.pair import view_of_difference
from gdnbench.report.phrases import CodeOf, other_code


def print_functions_for_model(functions: Sequence[Function], code_of: CodeOf, budget: int, *, json: bool) -> None:
    """Prints each function's view, each within the budget in tokens."""
    views = [view_of_function(function, budget, _changed([function], code_of)) for function in functions]
    if json:
        known = (function_document(function, code_of) for function in functions)
        print_json([each | {"for_model": _document(view)} for each, view in zip(known, views, strict=True)])
    else:
        _print(views)


def print_differences_for_model(
    differences: Sequence[FunctionDifference], code_of: CodeOf, budget: int, *, json: bool
) -> None:
    """Prints a view of the changes per pair, each within the budget in tokens."""
    views = [view_of_difference(each, budget, _changed((each.before, each.after), code_of)) for each in differences]
    if json:
        known = (difference_document(difference, code_of) for difference in differences)
        print_json([each | {"for_model": _document(view)} for each, view in zip(known, views, strict=True)])
    else:
        _print(views)


def _changed(functions: Iterable[Function], code_of: CodeOf) -> list[str]:
    labels = [one.label for one in functions if code_of(one.label, one.source) is CodeState.CHANGED]
    return list(dict.fromkeys(map(other_code, labels)))


def _print(views: Iterable[CounterView]) -> None:
    print_text("\n\n".join(view.text for view in views))


def _document(view: CounterView) -> dict[str, Any]:
    return {
        "budget": view.budget,
        "tokens": view.tokens,
        "over": view.excess,
        "most_items": view.most,
        "left_out": list(view.left_out),
        "text": view.text,
    }
