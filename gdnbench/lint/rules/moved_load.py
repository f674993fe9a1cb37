"""T10: a load after a store to the same tensor, in a loop whose loads are issued iterations ahead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from gdnbench.lint.finding import Places, lint_rule
from gdnbench.lint.settings import at_words
from gdnbench.lint.triton_subject import TritonSubject
from gdnbench.lint.triton_value import EventsAtSetting, MemoryAccess

FEWEST_STAGES = 2
"""With one stage no load is issued ahead."""


@lint_rule("T10", "moved-load", remedy="keep the value in registers, or take num_stages from that loop")
def moved_load(subject: TritonSubject) -> Places:
    """In a loop of several stages a load follows a store to the same tensor: Triton may issue it before the store."""
    loops = [
        loop
        for function in subject.source.functions.values()
        for loop in ast.walk(function.node)
        if isinstance(loop, ast.For)
    ]
    for trace in subject.traces:
        for loop in loops:
            if (stages := _stages(loop, trace.setting.constants)) >= FEWEST_STAGES:
                for load, store in _moved(loop, trace):
                    yield (
                        subject.source.place(load.node),
                        f"the load of {load.pointer.tensor} follows its store in line {store.node.lineno} of a loop of "
                        f"num_stages={stages}{at_words(trace.setting)}: it may be issued before that store",
                    )


def _stages(loop: ast.For, constants: Mapping[str, Any]) -> int:
    """Returns the `num_stages` of the loop's `tl.range`; 0 if absent or unknown."""
    if not isinstance(loop.iter, ast.Call):
        return 0
    option = next((each.value for each in loop.iter.keywords if each.arg == "num_stages"), None)
    value = option.value if isinstance(option, ast.Constant) else None
    if isinstance(option, ast.Name):
        value = constants.get(option.id)
    return value if isinstance(value, int) else 0


def _moved(loop: ast.For, trace: EventsAtSetting) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Yields each load of the loop with the last store before it to the same tensor, in evaluation order."""
    inside = {id(node) for statement in loop.body for node in ast.walk(statement)}
    stored: dict[str, MemoryAccess] = {}
    for event in trace.events:
        if not isinstance(event, MemoryAccess) or id(event.node) not in inside or not event.pointer.tensor:
            continue
        if event.kind == "load" and event.pointer.tensor in stored:
            yield event, stored[event.pointer.tensor]
        elif event.kind == "store":
            stored[event.pointer.tensor] = event
