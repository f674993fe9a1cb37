"""A score as JSON of under 4 KB, whatever the compiler printed and however many workloads a suite has."""

from __future__ import annotations

import json
import shlex
from typing import Any

from gdnbench.codec import finite
from gdnbench.score.plan import Score, WorkloadScore
from gdnbench.stats.interval import Comparison, Verdict

MOST_BYTES = 4000
_DIGITS = 5
_LONGEST_REASON = 1500  # characters; the compiler's first error is at its front
_LONGEST_TEXT = 300
_MOST_WARNINGS = 4
_MOST_WORKLOADS = 8


def score_document(score: Score) -> dict[str, Any]:
    """Returns the score's known parts, most important first; of many workloads the worst, with the number of all."""
    own, workloads = _WorkloadParts(score), len(score.workloads)
    document = {
        "kernel": score.kernel,
        "op": score.op,
        "gpu": score.gpu,
        "against": score.against,
        "verdict": str(score.verdict),
        "exit_code": int(score.exit_code),
        "means": score.exit_code.meaning,
        "ratio": _interval(score.ratio),
        "kernel_ratio": _interval(score.kernel_ratio),
        "confidence": score.confidence if score.ratio else None,
        "failure": _cut(score.reason, _LONGEST_REASON),
        **(own.of_one() if workloads == 1 else own.of_many()),
        **{name: count for name, count in vars(score.code).items() if count is not None},
        "cause": _cause(score),
        "processes": score.processes or None,
        "rounds": score.rounds or None,
        "seconds": {phase: round(seconds, 2) for phase, seconds in score.seconds.items() if seconds >= 0.005},
        "warnings": [_cut(text, _LONGEST_TEXT) for text in score.warnings[:_MOST_WARNINGS]],
    }
    return _fit({name: value for name, value in document.items() if value not in (None, "", [], {})})


class _WorkloadParts:
    def __init__(self, score: Score) -> None:
        self._workloads = score.workloads

    def of_one(self) -> dict[str, Any]:
        """Returns the parts of the only workload, beside those of the whole."""
        only = self._workloads[0]
        return {"workload": str(only.workload), **_times(only)}

    def of_many(self) -> dict[str, Any]:
        """Returns each workload's parts, failed and slowest first."""
        ordered = sorted(self._workloads, key=lambda each: each.speedup.speedup.estimate if each.speedup else 0.0)
        shown = [{"workload": _cut(str(each.workload), 80), **_brief(each)} for each in ordered[:_MOST_WORKLOADS]]
        verdicts = [each.speedup.verdict for each in self._workloads if each.speedup]
        counts = {str(verdict): verdicts.count(verdict) for verdict in Verdict if verdict in verdicts}
        told = {"count": len(self._workloads), **counts} if self._workloads else {}
        return {"workloads": told, "worst_workloads" if len(shown) < len(ordered) else "by_workload": shown}


def _times(score: WorkloadScore) -> dict[str, Any]:
    timing = score.timing
    if timing is None:
        return {}
    return {
        "time_us": _digits(timing.time_us),
        "kernel_time_us": _digits(score.kernel.time_us) if score.kernel else None,
        "kernel_share_of_bound": _digits(score.kernel.sol) if score.kernel and score.kernel.bound else None,
        "share_of_bound": _digits(timing.sol) if timing.bound else None,
        "bound": timing.bound or None,
    }


def _brief(score: WorkloadScore) -> dict[str, Any]:
    if score.speedup is None:
        return {"status": str(score.status), "reason": _cut(score.reason, 120)}
    return {**_interval_parts(score.speedup), "verdict": str(score.speedup.verdict)}


def _interval(comparison: Comparison | None) -> dict[str, Any] | None:
    return _interval_parts(comparison) if comparison else None


def _interval_parts(comparison: Comparison) -> dict[str, Any]:
    interval = comparison.speedup
    return {"estimate": _digits(interval.estimate), "low": _digits(interval.low), "high": _digits(interval.high)}


def _cause(score: Score) -> dict[str, Any] | None:
    cause = score.cause
    if cause is None:
        return None
    return {
        "title": cause.title,
        "share_of_time": round(cause.share, 3),
        "meaning": _cut(cause.meaning, _LONGEST_TEXT),
        "try": _cut(shlex.join(cause.experiment.command), _LONGEST_TEXT),
        "why": _cut(cause.experiment.why, _LONGEST_TEXT),
    }


def _digits(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _fit(document: dict[str, Any]) -> dict[str, Any]:
    """Drops the least important parts until the document is small enough, and names them."""
    left_out: list[str] = []
    for name in ("warnings", "cause", "by_workload", "worst_workloads", "seconds"):
        if len(json.dumps(finite(document), indent=2).encode()) <= MOST_BYTES - 100:
            break
        if document.pop(name, None) is not None:
            left_out.append(name)
    if left_out:
        document["left_out"] = left_out
    most = _LONGEST_REASON
    while len(json.dumps(finite(document), indent=2).encode()) > MOST_BYTES and most > 100:
        most //= 2
        document = {name: _cut(value, most) if isinstance(value, str) else value for name, value in document.items()}
    return document
