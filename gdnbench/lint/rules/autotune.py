"""T6 and T7: an `@triton.autotune` whose key leaves out a size, or that runs an update in place again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.triton_source import TritonFunction, last_name
from gdnbench.lint.triton_subject import TritonSubject


@lint_rule("T6", "autotune-key", remedy="name every such size in key")
def autotune_key(subject: TritonSubject) -> Places:
    """The key of an @triton.autotune leaves out a size that the function is given at run time."""
    for function in subject.source.functions.values():
        tuned = function.autotune
        if tuned is None or tuned.key is None:
            continue
        missing = [name for name in _run_time_sizes(function) if name not in tuned.key]
        if missing:
            yield (
                subject.source.place(tuned.node),
                f"{function.node.name} works on sizes {', '.join(missing)}, and its key has "
                f"{', '.join(tuned.key) or 'nothing'}: what is tuned for the first call is used for every other",
            )


def _run_time_sizes(function: TritonFunction) -> list[str]:
    """Returns the arguments, without constants, that end a loop, bound a mask, or are divided into blocks."""
    used: set[str] = set()
    for node in ast.walk(function.node):
        if isinstance(node, ast.Compare):
            used |= {each.id for each in (node.left, *node.comparators) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Call) and last_name(node) in {"range", "cdiv", "static_range"}:
            used |= {each.id for each in node.args if isinstance(each, ast.Name)}
    return [name for name in function.arguments if name in used - function.constants]


@lint_rule(
    "T7", "autotune-in-place", remedy="name the tensor in restore_value, or in reset_to_zero where it starts from zero"
)
def autotune_in_place(subject: TritonSubject) -> Places:
    """An @triton.autotune runs a function that updates a tensor in place, and does not restore the tensor."""
    for function in subject.source.functions.values():
        tuned = function.autotune
        if tuned is None or tuned.restored is None:
            continue
        for name in updated_in_place(function):
            if name not in tuned.restored:
                text = f"{function.node.name} updates {name} in place, and tuning runs it again and again on the result"
                yield subject.source.place(tuned.node), text


_Bases = dict[str, frozenset[str]]  # the arguments that each name may point into


def updated_in_place(function: TritonFunction) -> tuple[str, ...]:
    """Returns the pointer arguments that a function changes from their previous values: see `_Uses`."""
    uses = {name: _Uses() for name in function.arguments}
    bases = {name: frozenset({name}) for name in function.arguments if name not in function.constants}
    _follow(function.node.body, bases, uses)
    return tuple(name for name, used in uses.items() if used.is_update)


class _Uses:
    """The first load and the first store of a tensor in the source, and whether there is an atomic operation.

    A load above or within the first store reads previous values; one below it may read stored ones.
    """

    def __init__(self) -> None:
        self._loaded: list[tuple[int, int]] = []
        self._stored: list[tuple[int, int]] = []
        self._is_atomic = False

    def add(self, name: str, call: ast.Call) -> None:
        """Records a call of `triton.language`."""
        if name == "load":
            self._loaded.append((call.lineno, call.col_offset))
        elif name == "store":
            self._stored.append((call.end_lineno or call.lineno, call.end_col_offset or call.col_offset))
        self._is_atomic = self._is_atomic or name.startswith("atomic_")

    @property
    def is_update(self) -> bool:
        """Whether the new values depend on the old ones."""
        return self._is_atomic or bool(self._loaded and self._stored and min(self._loaded) < min(self._stored))


def _follow(body: Iterable[ast.stmt], bases: _Bases, uses: dict[str, _Uses]) -> None:
    for statement in body:
        parts = [getattr(statement, name, []) for name in ("body", "orelse")]
        inside = {id(node) for part in parts for each in part for node in ast.walk(each)}
        for node in ast.walk(statement):
            if id(node) not in inside and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for base in _base(node.args[0], bases) if node.args else ():
                    uses[base].add(node.func.attr, node)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if isinstance(statement.targets[0], ast.Name):
                bases[statement.targets[0].id] = _base(statement.value, bases)
        elif isinstance(statement, ast.If):
            branches = [dict(bases), dict(bases)]
            for part, branch in zip(parts, branches, strict=True):
                _follow(part, branch, uses)
            for name in {*branches[0], *branches[1]}:
                bases[name] = branches[0].get(name, frozenset()) | branches[1].get(name, frozenset())
        else:
            for part in parts:
                _follow(part, bases, uses)


def _base(node: ast.expr, bases: _Bases) -> frozenset[str]:
    """Returns what an address is computed from: the leftmost name of a sum."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node = node.left
    while isinstance(node, ast.Subscript):
        node = node.value
    return bases.get(node.id, frozenset()) if isinstance(node, ast.Name) else frozenset()
