"""T6: an `@triton.autotune` whose key leaves out a run-time size of the function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gdnbench.lint.finding import LintRule, SourcePlace
from gdnbench.lint.triton_source import TritonFunction
from gdnbench.lint.triton_subject import TritonSubject


def _check(subject: TritonSubject) -> Iterator[tuple[SourcePlace, str]]:
    for function in subject.source.functions.values():
        tuned = function.autotune
        if tuned is None or tuned.key is None:
            continue
        missing = [name for name in _run_time_sizes(function) if name not in tuned.key]
        if missing:
            key = ", ".join(tuned.key) or "nothing"
            yield (
                subject.source.place(tuned.node),
                f"{function.node.name} works on sizes {', '.join(missing)}, and its key has {key}: what is tuned for "
                f"the first call is used for every other",
            )


def _run_time_sizes(function: TritonFunction) -> list[str]:
    """Returns the arguments, without constants, that end a loop, bound a mask, or are divided into blocks."""
    given = [name for name in function.arguments if name not in function.constants]
    used: set[str] = set()
    for node in ast.walk(function.node):
        if isinstance(node, ast.Compare):
            used |= {each.id for each in (node.left, *node.comparators) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Call) and _is_size_function(node.func):
            used |= {each.id for each in node.args if isinstance(each, ast.Name)}
    return [name for name in given if name in used]


def _is_size_function(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in {"range", "cdiv", "static_range"}


AUTOTUNE_KEY = LintRule(
    code="T6",
    name="autotune-key",
    language="triton",
    bug="the key of an @triton.autotune leaves out a size that the function is given at run time",
    remedy="name every such size in key",
    check=_check,
)
