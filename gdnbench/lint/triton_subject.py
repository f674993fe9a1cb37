"""The input of the rules for Triton: a source, evaluated statement by statement at the settings of one variant."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gdnbench.lint import span as spans
from gdnbench.lint.settings import LaunchSetting
from gdnbench.lint.span import Span, constant_span, program_spans
from gdnbench.lint.triton_expressions import Expressions, Scope, SettingRefused
from gdnbench.lint.triton_source import (
    UNKNOWN,
    EventsAtSetting,
    MemoryAccess,
    TritonSource,
    TritonValue,
    arguments_of,
    constant,
    joined,
)

_DEEPEST_CALL = 8


def evaluate(source: TritonSource, function: ast.FunctionDef, setting: LaunchSetting) -> EventsAtSetting:
    """Returns the accesses of a function at a setting."""
    followed = _Follower(source, setting)
    arguments = {name: _argument(name, setting) for name in arguments_of(function)}
    try:
        followed.call(function, arguments)
    except SettingRefused:
        return EventsAtSetting(setting, ())
    return EventsAtSetting(setting, tuple(followed.accesses))


def _argument(name: str, setting: LaunchSetting) -> TritonValue:
    if name in setting.constants:
        return constant(setting.constants[name])
    if name in setting.tensors:
        return TritonValue(setting.tensors[name].dtype, constant_span(0), tensor=name)
    if name in setting.sizes:
        value, dtype = setting.sizes[name]
        return TritonValue(dtype, constant_span(value))
    return UNKNOWN


class _Returned(Exception):  # noqa: N818 - no error, but the way out of a function
    pass


class _Follower(Expressions):
    """Follows statements; its base follows expressions."""

    def __init__(self, source: TritonSource, setting: LaunchSetting) -> None:
        programs = program_spans(setting.grid) if setting.grid else None
        super().__init__(source, setting, programs)
        self._depth = 0

    def call(self, function: ast.FunctionDef, arguments: dict[str, TritonValue]) -> TritonValue:
        """Returns the value that a function of the source returns."""
        if self._depth >= _DEEPEST_CALL:
            return UNKNOWN
        scope: Scope = {**self._defaults(function), **arguments}
        self._depth += 1
        before, returned = self.is_conditional, list[TritonValue]()
        try:
            self._follow_all(function.body, scope, returned)
        except _Returned:
            pass
        finally:
            self._depth -= 1
            self.is_conditional = before
        if not returned:
            return UNKNOWN
        result = returned[0]
        for other in returned[1:]:
            result = joined(result, other)
        return result

    def _defaults(self, function: ast.FunctionDef) -> Scope:
        given = function.args
        scope: Scope = dict.fromkeys(arguments_of(function), UNKNOWN)
        positional = [each.arg for each in (*given.posonlyargs, *given.args)]
        for name, value in zip(reversed(positional), reversed(given.defaults), strict=False):
            scope[name] = self.value(value, {})
        return scope

    def _follow_all(self, body: Iterable[ast.stmt], scope: Scope, returned: list[TritonValue]) -> None:
        for statement in body:
            self._follow(statement, scope, returned)

    def _follow(self, statement: ast.stmt, scope: Scope, returned: list[TritonValue]) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self.values(value, scope)
                for target in targets:
                    self._assign(target, found, scope)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(target, self.values(value, scope), scope)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=sign, value=value):
                combined = ast.copy_location(ast.BinOp(ast.Name(name, ast.Load()), sign, value), statement)
                ast.copy_location(combined.left, target)
                scope[name] = self.value(combined, scope)
            case ast.Expr(value=value):
                self.values(value, scope)
            case ast.Return(value=value):
                returned.append(self.value(value, scope) if value else UNKNOWN)
                if not self.is_conditional:
                    raise _Returned
            case ast.If():
                self._follow_branch(statement, scope, returned)
            case ast.For():
                self._follow_loop(statement, scope, returned)
            case ast.While(test=test, body=body):
                self._forget_assigned(body, scope)
                self.value(test, scope)
                self._follow_perhaps(body, scope, returned)
            case ast.With(body=body):
                self._follow_all(body, scope, returned)
            case _:
                self._forget_assigned([statement], scope)

    def _assign(self, target: ast.expr, value: TritonValue | tuple[TritonValue, ...], scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope[name] = UNKNOWN if isinstance(value, tuple) else value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                alike = isinstance(value, tuple) and len(value) == len(parts)
                for place, part in enumerate(parts):
                    self._assign(part, value[place] if alike and isinstance(value, tuple) else UNKNOWN, scope)

    def _follow_branch(self, statement: ast.If, scope: Scope, returned: list[TritonValue]) -> None:
        test = self.value(statement.test, scope)
        if test.is_constant:
            self._follow_all(statement.body if test.constant else statement.orelse, scope, returned)
            return
        outcomes = []
        for body in (statement.body, statement.orelse):
            branch = dict(scope)
            self._follow_perhaps(body, branch, returned)
            outcomes.append(branch)
        for name in {*outcomes[0], *outcomes[1]}:
            scope[name] = joined(outcomes[0].get(name, UNKNOWN), outcomes[1].get(name, UNKNOWN))
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            self.is_conditional = True  # as is the rest of this function

    def _follow_perhaps(self, body: Iterable[ast.stmt], scope: Scope, returned: list[TritonValue]) -> None:
        before, self.is_conditional = self.is_conditional, True
        try:
            self._follow_all(body, scope, returned)
        finally:
            self.is_conditional = before

    def _follow_loop(self, statement: ast.For, scope: Scope, returned: list[TritonValue]) -> None:
        counter, certain = self._counter(statement.iter, scope)
        if counter is None and certain:
            return  # no iteration
        self._forget_assigned(statement.body, scope)
        self._assign(statement.target, TritonValue("i32", counter), scope)
        if certain:
            self._follow_all(statement.body, scope, returned)
        else:
            self._follow_perhaps(statement.body, scope, returned)

    def _counter(self, loop: ast.expr, scope: Scope) -> tuple[Span | None, bool]:
        """Returns bounds of a loop's counter, and whether it is certain that there are iterations, or none."""
        if not (isinstance(loop, ast.Call) and self.called(loop) in {"range", "static_range"}):
            return None, False
        bounds = [self.value(each, scope).span for each in loop.args[:3]]
        if len(bounds) == 1:
            bounds = [constant_span(0), *bounds]
        start, end = (*bounds, None, None)[:2]
        step = bounds[2].value if len(bounds) > 2 and bounds[2] else 1
        if start is None or end is None or step is None or step < 1:
            return None, False
        if end.bounds[1] <= start.bounds[0]:
            return None, True
        reach = spans.subtract(end, start)
        if start.is_exact and end.is_exact and reach is not None and reach.bounds[0] > 0:
            last = start.least + (reach.least - 1) // step * step
            return Span(start.least + 0 * last, last), True
        return Span(start.least + 0 * end.most, end.most - 1 + 0 * start.least), False

    def _forget_assigned(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        """Keeps of each name that a loop assigns only what no iteration changes: type and tensor."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in scope:
                    known = scope[node.id]
                    dtype = "" if known.is_constant else known.dtype
                    scope[node.id] = TritonValue(dtype, tensor=known.tensor, by_lane=known.by_lane)


@dataclass(frozen=True)
class TritonSubject:
    """A source, and the settings of each function that gdnbench launches."""

    source: TritonSource
    settings: dict[str, tuple[LaunchSetting, ...]]
    label: str

    @cached_property
    def traces(self) -> tuple[EventsAtSetting, ...]:
        """The accesses of each function at each setting; of a file that launches its functions itself, without any."""
        functions = self.source.functions
        all_settings = self.settings or {name: (LaunchSetting(self.label),) for name in functions}
        return tuple(
            evaluate(self.source, functions[name], setting)
            for name, settings in all_settings.items()
            if name in functions
            for setting in settings
        )

    def accesses(self) -> Iterator[tuple[LaunchSetting, MemoryAccess]]:
        """Yields every access with its setting."""
        for trace in self.traces:
            for access in trace.accesses:
                yield trace.setting, access
