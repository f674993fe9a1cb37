"""Prints `gdnbench inspect --sass --for-model`: a view per build, or a document with its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspection.outline import Outline, OutlinedBlock, OutlinedInstruction, outline_kernel
from gdnbench.inspection.quantities import Violation
from gdnbench.report.console import print_json, print_text
from gdnbench.report.inspect.for_model import View, instruction_text, summed_counts, view_for_model
from gdnbench.report.inspect.json import kernel_document
from gdnbench.report.inspect.output import print_failures, print_violations


def print_for_model(
    outcomes: Sequence[BuildOutcome], broken: tuple[Violation, ...], budget: int, *, json: bool
) -> None:
    """Prints each build's view within a budget of tokens; raises MachineError if `nvdisasm` is absent or fails."""
    if json:
        print_json([_document(outcome, broken, budget) for outcome in outcomes])
    else:
        built = (outcome for outcome in outcomes if isinstance(outcome, CompiledKernel))
        for number, compiled in enumerate(built):
            if number:
                print_text("")
            print_text(view_for_model(compiled, outline_kernel(compiled), budget).text)
        print_failures(outcomes)
    print_violations(broken)


def _document(outcome: BuildOutcome, broken: tuple[Violation, ...], budget: int) -> dict[str, Any]:
    known = kernel_document(outcome, broken)
    if not isinstance(outcome, CompiledKernel):
        return known
    outline = outline_kernel(outcome)
    return known | {"for_model": view_document(view_for_model(outcome, outline, budget), outline)}


def view_document(view: View, outline: Outline) -> dict[str, Any]:
    """Returns a view and its blocks; the budget limits the text, and every block has all that must be told."""
    return {
        "budget": view.budget,
        "tokens": view.tokens,
        "over": view.excess,
        "shown": view.detail.value,
        "loops": [_loop(outline, name) for name in outline.loops],
        "blocks": [_block(block, outline) for block in outline.blocks],
        "text": view.text,
    }


def _loop(outline: Outline, name: str) -> dict[str, Any]:
    loop = outline.loops[name]
    return {
        "name": name,
        "header": outline.blocks[loop.header].name,
        "blocks": [outline.blocks[at].name for at in sorted(loop.blocks)],
        "back_from": [outline.blocks[at].name for at in loop.latches],
        "shortest_trip_instructions": loop.shortest,
        "longest_trip_instructions": loop.longest,
    }


def _block(block: OutlinedBlock, outline: Outline) -> dict[str, Any]:
    return {
        "name": block.name,
        "roles": list(block.roles),
        "instructions": len(block.code),
        "live_registers": block.live,
        "loops": list(block.loops),
        "next": list(block.successors),
        "code": list(_code(block, outline)),
    }


def _code(block: OutlinedBlock, outline: Outline) -> Iterator[dict[str, Any]]:
    """Yields an entry per instruction that must be told, and sums of the arithmetic between."""
    run: list[OutlinedInstruction] = []
    for one in block.code:
        if one.computes:
            run.append(one)
            continue
        if run:
            yield {"computes": summed_counts(run)}
        run = []
        yield _instruction(one, outline)
    if run:
        yield {"computes": summed_counts(run)}


def _instruction(one: OutlinedInstruction, outline: Outline) -> dict[str, Any]:
    return {
        "number": one.number or None,
        "instruction": instruction_text(one.instruction, outline),
        "line": str(one.line) if one.line else None,
        "waits_for": [
            {"number": other.number, "until": "operands read" if hold.reads else "result"} for other, hold in one.awaits
        ],
    }
