"""The rules of `gdnbench lint`: addresses that neither a compiler nor one interpreted workload shows to be wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gdnbench.lint.settings import SourcePlace
from gdnbench.lint.triton_source import EventsAtSetting, MemoryAccess
from gdnbench.lint.triton_subject import TritonSubject

Places = Iterator[tuple[SourcePlace, str]]
"""Places in a source, each with a sentence on what is wrong there."""

FEWEST_STAGES = 2
"""With one stage no load is issued ahead."""


def unmasked_access(subject: TritonSubject) -> Places:
    """A tl.load or tl.store over tl.arange without a mask reaches beyond its tensor at a workload of the op."""
    for setting, access in subject.accesses():
        tensor = setting.tensors.get(access.pointer.tensor)
        if access.masked or access.is_conditional or not access.pointer.by_lane:
            continue
        if access.pointer.span is None or tensor is None:
            continue
        least, most = access.pointer.span.bounds
        if most >= tensor.elements or least < 0:
            reach = f"element {most:,}" if most >= tensor.elements else f"element {least:,}"
            yield (
                subject.source.place(access.node),
                f"the {access.kind} has no mask and reaches {reach} of {access.pointer.tensor}, which has "
                f"{tensor.elements:,}{setting.at_words}",
            )


def triton_offset(subject: TritonSubject) -> Places:
    """An offset that is computed in int32 overflows at a workload of the op's suites."""
    for setting, access in subject.accesses():
        wide = access.pointer.wide
        if wide and access.pointer.tensor:
            yield (
                subject.source.place(wide.node),
                f"an offset into {access.pointer.tensor} is computed in {wide.dtype} and reaches {wide.most:,}"
                f"{setting.at_words}",
            )


def moved_load(subject: TritonSubject) -> Places:
    """In a loop of several stages a load follows a store to the same tensor: Triton may issue it before the store."""
    loops = [
        loop
        for function in subject.source.functions.values()
        for loop in ast.walk(function)
        if isinstance(loop, ast.For)
    ]
    for trace in subject.traces:
        for loop in loops:
            if (stages := _stages(loop, trace.setting.constants)) >= FEWEST_STAGES:
                for load, store in _moved(loop, trace):
                    yield (
                        subject.source.place(load.node),
                        f"the load of {load.pointer.tensor} follows its store in line {store.node.lineno} of a loop of "
                        f"num_stages={stages}{trace.setting.at_words}: it may be issued before that store",
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
    for access in trace.accesses:
        if id(access.node) not in inside or not access.pointer.tensor:
            continue
        if access.kind == "load" and access.pointer.tensor in stored:
            yield access, stored[access.pointer.tensor]
        elif access.kind == "store":
            stored[access.pointer.tensor] = access


@dataclass(frozen=True)
class LintRule:
    """A kind of mistake, by its code; `remedy` says what to do."""

    code: str
    remedy: str
    check: Callable[[TritonSubject], Places]


RULES: tuple[LintRule, ...] = (
    LintRule("T1", "give it a mask, or a block that divides the size", unmasked_access),
    LintRule("T4", "make its first factor 64 bits wide: tl.program_id(0).to(tl.int64)", triton_offset),
    LintRule("T10", "keep the value in registers, or take num_stages from that loop", moved_load),
)
"""By their codes."""
