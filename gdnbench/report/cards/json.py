"""Joined runs for `--json` and `--csv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.compare.cards import Card, Joint
from gdnbench.model.measurement import Measurement
from gdnbench.report.run.clocks import Clocks
from gdnbench.report.run.json import flat_rows as rows_of_run

_OF_A_RUN = ("run_id", "timestamp")


def joint_document(joint: Joint) -> dict[str, Any]:
    """Returns the runs, the cards, and a row per case and clock, of all cards together and of each."""
    strays = {stray.card: stray.share for stray in joint.strays}
    return {
        "runs": [run.info.run_id for run in joint.runs],
        "op": joint.info.op,
        "gpu": joint.info.gpu,
        "gpu_name": joint.runs[0].gpu_name,
        "cards": [_card(card, strays.get(number)) for number, card in enumerate(joint.cards)],
        "measurements": flat_rows(joint),
        "warnings": list(joint.warnings),
        "left_out": {why: list(cases) for why, cases in joint.left_out.items()},
    }


def _card(card: Card, strays_by: float | None) -> dict[str, Any]:
    return {
        "uuid": card.uuid,
        "index": card.index,
        "host": card.host,
        "runs": list(card.runs),
        "processes": card.processes,
        "rounds": card.rounds,
        "sm_mhz": card.sm_mhz,
        "deviation": card.deviation.share,
        "deviation_error": card.deviation.error,
        "strays_by": strays_by,
    }


def flat_rows(joint: Joint) -> list[dict[str, Any]]:
    """Returns a row per case and clock, as of a run, without the run; `card` is empty for all cards together."""
    rows = _rows(joint, [*joint.measurements, *joint.failed], joint.clocks, card="", cards=len(joint.cards))
    for uuid, own in joint.by_card.items():
        rows += _rows(own, own.measurements, own.clocks, card=uuid, cards=1)
    return rows


def _rows(
    joint: Joint, measurements: Sequence[Measurement], clocks: Clocks, *, card: str, cards: int
) -> list[dict[str, Any]]:
    found = rows_of_run(joint.info, measurements, clocks)
    return [
        {"cards": cards, "card": card, **{name: cell for name, cell in row.items() if name not in _OF_A_RUN}}
        for row in found
    ]
