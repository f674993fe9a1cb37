"""What a run keeps of how its kernels do by the tolerance of the FlashInfer contest, which no gate of ours is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdnbench.model.contest import CONTEST_TOLERANCE
from gdnbench.store.schema import ContestDocument


def contest_errors(found: Mapping[str, float | None], labels: Mapping[str, str]) -> dict[str, ContestDocument]:
    """Of each kernel its largest error in units of the contest's tolerance, and the cases at which that is over 1.

    Args:
        found: by case id; None where nothing was held against the tolerance.
        labels: of the kernels, by case id; cases without one are passed over.
    """
    return merge_contest(
        {
            label: ContestDocument(
                tolerance=CONTEST_TOLERANCE, count=1, worst=error, case=case_id, failed=[case_id] if error > 1 else []
            )
        }
        for case_id, label in labels.items()
        if (error := found.get(case_id)) is not None
    )


def merge_contest(found: Iterable[Mapping[str, ContestDocument]]) -> dict[str, ContestDocument]:
    """What several runs, or cases, say together."""
    merged: dict[str, ContestDocument] = {}
    for label, each in (item for run in found for item in run.items()):
        before = merged.get(label)
        if before is None:
            merged[label] = each
            continue
        worst = each if float(each["worst"]) > float(before["worst"]) else before
        merged[label] = ContestDocument(
            tolerance=min(each["tolerance"], before["tolerance"]),
            count=each["count"] + before["count"],
            worst=worst["worst"],
            case=worst["case"],
            failed=[*before["failed"], *each["failed"]],
        )
    return merged
