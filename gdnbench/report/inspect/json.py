"""Compiled kernels for programs: documents for JSON, rows for CSV."""

from __future__ import annotations

from typing import Any

from gdnbench.codegen.control import ScoreboardWait
from gdnbench.codegen.sass import listing
from gdnbench.codegen.schedule import (
    EncodedInstruction,
    InstructionSchedule,
    IssuedInstruction,
    ScheduleSummary,
    SharedScoreboard,
)
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel
from gdnbench.inspect.quantities import QUANTITIES, SCHEDULE_WAITS, BuildChange, BuildPair, Violation, schedule_numbers
from gdnbench.model.status import Status


def kernel_document(outcome: BuildOutcome, broken: tuple[Violation, ...] = (), *, sass: bool = False) -> dict[str, Any]:
    """Returns one kernel at one workload for one architecture; without numbers if it did not build."""
    known = kernel_identity(outcome)
    if not isinstance(outcome, CompiledKernel):
        return {**known, "status": Status.BUILD_FAILED.value, "reason": outcome.error.message}
    texts = [violation.rule.text for violation in broken if violation.compiled is outcome]
    status = Status.FAILED if outcome.refused else Status.OK
    known |= {"status": status.value, "reason": outcome.refused}
    return {**known, "breaks": texts, **_quantities(outcome), **_code(outcome, sass)}


def kernel_identity(outcome: BuildOutcome) -> dict[str, Any]:
    """Returns what was built, and for which architecture."""
    subject = outcome.subject
    return {
        "kernel": subject.variant.kernel,
        "label": subject.title,
        "language": subject.entry.kernel.language,
        "params": dict(subject.variant.params),
        **subject.workload.cells,
        "arch": outcome.arch,
    }


def _quantities(compiled: CompiledKernel) -> dict[str, Any]:
    numbers = {key: quantity.read(compiled) for key, quantity in QUANTITIES.items()}
    gpu = compiled.gpu_size.name if compiled.gpu_size else ""
    return {**numbers, "limited_by": compiled.occupancy.limited_by, "waves_on": gpu}


def _code(compiled: CompiledKernel, sass: bool) -> dict[str, Any]:
    mix = compiled.mix
    known = {
        "symbol": compiled.build.symbol,
        "cubin": compiled.build.cubin,
        "serialized_because": compiled.build.serialized_because,
        "mix": dict(mix.families),
        "hints": dict(mix.hints),
        "opcodes": dict(mix.opcodes),
    }
    return known | ({"sass": listing(compiled.sass)} if sass else {})


def pair_document(pair: BuildPair, broken: tuple[Violation, ...], *, sass: bool) -> dict[str, Any]:
    """Returns two kernels and their differences, for JSON."""
    document = {
        "before": kernel_document(pair.before),
        "after": kernel_document(pair.after, broken),
        "same": pair.same,
        "changes": [change_row(change) for change in pair.changes],
    }
    return document | ({"sass_diff": pair.sass_diff()} if sass else {})


def change_rows(pair: BuildPair) -> list[dict[str, Any]]:
    """Returns a row per difference, for CSV."""
    return [{**pair_identity(pair), **change_row(change)} for change in pair.changes]


def pair_identity(pair: BuildPair) -> dict[str, Any]:
    """Returns the compared kernels and the architecture."""
    subject = pair.after.subject
    return {
        "before": pair.before.subject.title,
        "after": subject.title,
        **subject.workload.cells,
        "arch": pair.after.arch,
    }


def change_row(change: BuildChange) -> dict[str, Any]:
    """Returns one difference."""
    return {"quantity": change.key, "value_before": change.before, "value_after": change.after}


def schedule_document(found: ScheduleSummary) -> dict[str, Any]:
    """Returns a schedule's numbers; cycles are issue cycles."""
    return {
        **schedule_numbers(found),
        **{key: dict(read(found)) for key, (_, read) in SCHEDULE_WAITS.items()},
        "loops": found.loops,
        "calls": found.calls,
        "late": [_place(step) for step in found.late_loads],
        "shared_scoreboards": [_shared(one) for one in found.shared],
    }


def _place(step: IssuedInstruction) -> dict[str, Any]:
    return {"address": step.instruction.address, "cycle": step.cycle, "instruction": str(step.instruction)}


def _shared(shared: SharedScoreboard) -> dict[str, Any]:
    addresses = [load.instruction.address for load in shared.loads]
    return {"scoreboard": shared.scoreboard, "waited_at": shared.cycle, "loads": addresses, "bytes": shared.sizes}


def _instruction_rows(schedule: InstructionSchedule) -> list[dict[str, Any]]:
    """Returns a row per instruction; `cycle` is None outside the followed path."""
    return [_instruction_row(one) for one in schedule.code]


def _instruction_row(one: EncodedInstruction) -> dict[str, Any]:
    step = one if isinstance(one, IssuedInstruction) else None
    return {
        "address": one.instruction.address,
        "cycle": step.cycle if step else None,
        "stall": one.control.stall,
        "yields": one.control.yields,
        "write_scoreboard": one.control.write_scoreboard,
        "read_scoreboard": one.control.read_scoreboard,
        "wait_scoreboards": list(one.control.waits),
        "waits_for": [_wait(wait) for wait in step.waits] if step else [],
        "reuse": one.control.reuse,
        "instruction": str(one.instruction),
    }


def _wait(wait: ScoreboardWait) -> dict[str, Any]:
    holds = [
        {"address": hold.instruction.address, "opcode": hold.instruction.opcode, "until": _until(hold.reads)}
        for hold in wait.holds
    ]
    return {"scoreboard": wait.scoreboard, "for": holds}


def _until(reads: bool) -> str:
    return "operands read" if reads else "result"


def schedule_changes(before: ScheduleSummary, after: ScheduleSummary) -> list[BuildChange]:
    """Returns the differences of two schedules, counts of waits included."""
    there, here = _flat(before), _flat(after)
    every = [BuildChange(key, key, there.get(key, 0), here.get(key, 0)) for key in dict.fromkeys((*there, *here))]
    return [change for change in every if change.before != change.after]


def _flat(found: ScheduleSummary) -> dict[str, int | None]:
    counted = [(key, what, count) for key, (_, read) in SCHEDULE_WAITS.items() for what, count in read(found).items()]
    waits = {f"{key}_{what.replace(' ', '_')}": count for key, what, count in counted}
    return {**schedule_numbers(found), **waits, "loops": found.loops, "calls": found.calls}


def kernel_with_schedule(outcome: BuildOutcome, broken: tuple[Violation, ...]) -> dict[str, Any]:
    """Returns one kernel with its schedule and every instruction."""
    listing = {"instructions": _instruction_rows(outcome.schedule)} if isinstance(outcome, CompiledKernel) else {}
    return kernel_document(outcome, broken) | _schedule_document(outcome, listing)


def _schedule_document(outcome: BuildOutcome, listing: dict[str, Any]) -> dict[str, Any]:
    return {"schedule": schedule_document(outcome.milestones) | listing} if isinstance(outcome, CompiledKernel) else {}


def pair_with_schedules(pair: BuildPair, broken: tuple[Violation, ...]) -> dict[str, Any]:
    """Returns two kernels, their differences, and each schedule's numbers."""
    known = pair_document(pair, broken, sass=False)
    both = {"before": pair.before, "after": pair.after}
    return known | {key: known[key] | _schedule_document(one, {}) for key, one in both.items()}


def instruction_rows(outcome: BuildOutcome) -> list[dict[str, Any]]:
    """Returns a row per instruction, for CSV; none if the kernel did not build."""
    if not isinstance(outcome, CompiledKernel):
        return []
    return [{**kernel_identity(outcome), **one} for one in _instruction_rows(outcome.schedule)]


def schedule_change_rows(pair: BuildPair) -> list[dict[str, Any]]:
    """Returns a row per difference of two kernels' schedules, for CSV."""
    found = schedule_changes(*(one.milestones for one in pair.built)) if pair.built else []
    return [{**pair_identity(pair), **change_row(change)} for change in found]
