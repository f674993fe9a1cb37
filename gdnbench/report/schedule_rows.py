"""Schedules for programs: documents for JSON, a row an instruction for CSV."""

from __future__ import annotations

from typing import Any

from gdnbench.binary.schedule import Coded, Milestones, Schedule, Shared, Step, Wait
from gdnbench.inspection.difference import Change
from gdnbench.report.schedule_facts import WAITS, numbers


def facts(found: Milestones) -> dict[str, Any]:
    """All that a schedule comes to, cycles as issue cycles."""
    return {
        **numbers(found),
        **{key: dict(read(found)) for key, (_, read) in WAITS.items()},
        "loops": found.loops,
        "calls": found.calls,
        "late": [_place(step) for step in found.late_loads],
        "shared_scoreboards": [_shared(one) for one in found.shared],
    }


def _place(step: Step) -> dict[str, Any]:
    return {"address": step.instruction.address, "cycle": step.cycle, "instruction": str(step.instruction)}


def _shared(shared: Shared) -> dict[str, Any]:
    addresses = [load.instruction.address for load in shared.loads]
    return {"scoreboard": shared.scoreboard, "waited_at": shared.cycle, "loads": addresses, "bytes": shared.sizes}


def instruction_rows(schedule: Schedule) -> list[dict[str, Any]]:
    """A row an instruction; `cycle` is missing off the way."""
    return [_row(one) for one in schedule.code]


def _row(one: Coded) -> dict[str, Any]:
    step = one if isinstance(one, Step) else None
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


def _wait(wait: Wait) -> dict[str, Any]:
    holds = [
        {"address": hold.instruction.address, "opcode": hold.instruction.opcode, "until": _until(hold.reads)}
        for hold in wait.holds
    ]
    return {"scoreboard": wait.scoreboard, "for": holds}


def _until(reads: bool) -> str:
    return "operands read" if reads else "result"


def changes(before: Milestones, after: Milestones) -> list[Change]:
    """What differs between two schedules, counts of waits included."""
    there, here = _flat(before), _flat(after)
    every = [Change(key, key, there.get(key, 0), here.get(key, 0)) for key in dict.fromkeys((*there, *here))]
    return [change for change in every if change.before != change.after]


def _flat(found: Milestones) -> dict[str, int | None]:
    counted = [(key, what, count) for key, (_, read) in WAITS.items() for what, count in read(found).items()]
    waits = {f"{key}_{what.replace(' ', '_')}": count for key, what, count in counted}
    return {**numbers(found), **waits, "loops": found.loops, "calls": found.calls}
